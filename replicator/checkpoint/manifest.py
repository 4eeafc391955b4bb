"""What a checkpoint is made of, and the proof that one region has it.

A ``Manifest`` is the content: its digest is the same in every region, and is what seals name. A
``Replica`` is that manifest with the generations of its objects in one store, and those that they
were copied from; it is the file ``_REPLICA.json``, written last.

The sha256 is what a file is known by. The crc32c stands beside it because buckets tell theirs in a
listing: so a file is held against the manifest without being read. Manifests of before they had it
are as good as they were. Read ``Manifest.digest`` first, then ``decode_replica``.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from replicator.checkpoint.formats import MARKERS, MAX_FILES, REPLICA_NAME, Format
from replicator.checkpoint.paths import CheckpointPath
from replicator.errors import Incomplete
from replicator.hashing import is_crc32c, is_sha256
from replicator.stores.names import refusal
from replicator.stores.port import Entry

SCHEMA_VERSION = 1
MAX_REPLICA_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class FileDigest:
    """One file of a checkpoint, by its name relative to it. ``crc32c`` is None in old manifests."""

    name: str
    size_bytes: int
    sha256: str
    crc32c: str | None

    def can_be(self, entry: Entry) -> bool:
        """Whether an object may have these bytes, by all that its store says without a read."""
        is_other = None not in (self.crc32c, entry.crc32c) and self.crc32c != entry.crc32c
        return entry.size_bytes == self.size_bytes and not is_other


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of one checkpoint. ``files`` are sorted by name and include the marker."""

    epoch: str
    step: int
    format: Format
    files: tuple[FileDigest, ...]

    @cached_property
    def digest(self) -> str:
        """The sha256 of the canonical JSON of epoch, step and files: equal in every region.

        The format is not part of it: it says how completeness was told, not what the content is.
        Nor is the crc32c, which is not in every manifest of one content.
        """
        identity = {
            "epoch": self.epoch,
            "step": self.step,
            "files": [[file.name, file.size_bytes, file.sha256] for file in self.files],
        }
        return hashlib.sha256(_canonical(identity)).hexdigest()

    @property
    def size_bytes(self) -> int:
        """All files together."""
        return sum(file.size_bytes for file in self.files)

    @property
    def marker(self) -> FileDigest:
        """The file that the format writes last."""
        name = MARKERS[self.format]
        return next(file for file in self.files if file.name == name)

    @property
    def data(self) -> tuple[FileDigest, ...]:
        """All files but the marker."""
        name = MARKERS[self.format]
        return tuple(file for file in self.files if file.name != name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A manifest as it stands in one store: ``generations`` has one entry per file.

    ``sources`` are the generations of which the files were copied here, in the store that they came
    from; empty where they were saved, or found. They tell a reader where a copy is from, and are no
    part of what it is.
    """

    path: CheckpointPath
    manifest: Manifest
    generations: Mapping[str, str]
    sources: Mapping[str, str] = field(compare=False)


def encode_replica(replica: Replica) -> bytes:
    """Return ``_REPLICA.json``: canonical, so that equal replicas are equal bytes."""
    manifest = replica.manifest
    return _canonical(
        {
            "schema_version": SCHEMA_VERSION,
            "digest": manifest.digest,
            "epoch": manifest.epoch,
            "step": manifest.step,
            "format": manifest.format.value,
            "files": [_encode_file(replica, file) for file in manifest.files],
        }
    )


def decode_replica(encoded: bytes, path: CheckpointPath) -> Replica:
    """Read ``_REPLICA.json`` as found at ``path``. Raises Incomplete for whatever is wrong.

    A file from elsewhere is hostile until shown otherwise: names are checked, the digest is
    computed again, and epoch and step must be those of the path.
    """
    name = path.prefix + REPLICA_NAME
    try:
        read = json.loads(encoded)
        if read["schema_version"] != SCHEMA_VERSION:
            raise Incomplete(name, "its schema_version is not known here")
        files = tuple(_decode_file(one) for one in read["files"])
        manifest = Manifest(
            epoch=read["epoch"], step=read["step"], format=Format(read["format"]), files=files
        )
        generations = {one["name"]: _text(one["generation"]) for one in read["files"]}
        sources = {
            one["name"]: _text(one["source_generation"])
            for one in read["files"]
            if "source_generation" in one
        }
        digest = read["digest"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Incomplete(name, "it cannot be read") from error
    names = [file.name for file in files]
    if len(names) > MAX_FILES or names != sorted(set(names)):
        raise Incomplete(name, "its files are too many, repeated or out of order")
    if MARKERS[manifest.format] not in generations:
        raise Incomplete(name, "it does not name the marker")
    if (manifest.epoch, manifest.step) != (path.epoch, path.step) or manifest.digest != digest:
        raise Incomplete(name, "it is not of this place, or was altered")
    return Replica(path=path, manifest=manifest, generations=generations, sources=sources)


def _encode_file(replica: Replica, file: FileDigest) -> Mapping[str, object]:
    encoded: dict[str, object] = {
        "name": file.name,
        "size_bytes": file.size_bytes,
        "sha256": file.sha256,
        "generation": replica.generations[file.name],
    }
    if file.crc32c is not None:
        encoded["crc32c"] = file.crc32c
    if file.name in replica.sources:
        encoded["source_generation"] = replica.sources[file.name]
    return encoded


def _decode_file(read: Mapping[str, Any]) -> FileDigest:
    name, size_bytes, sha256 = read["name"], read["size_bytes"], read["sha256"]
    crc32c = read.get("crc32c")
    if refusal(_text(name)) is not None or name == REPLICA_NAME:
        raise ValueError("a name that cannot be content")
    if type(size_bytes) is not int or size_bytes < 0 or not is_sha256(sha256):
        raise ValueError("a size or checksum that is none")
    if crc32c is not None and not is_crc32c(crc32c):
        raise ValueError("a crc32c that is none")
    return FileDigest(name=name, size_bytes=size_bytes, sha256=sha256, crc32c=crc32c)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
