"""The broker's manifest of a checkpoint, held against what is there before training begins with it.

The rule it keeps: where there is a manifest it is believed, and nothing besides: it has to be the
one that the start was granted with, and all that it names has to be there. What is looked at:

* always: that the manifest has the digest that it says, and that its launcher named; that each file
  is there in its size, and in a bucket with its crc32c, both by the store's own word;
* as bytes are read anyway, which is when they come from a bucket, or when `verify` is asked for:
  their SHA-256.

No crc32c is computed here: without a library it takes minutes for each GB. Read `found` first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from broker.sdk.training import checkpoint, durable
from broker.sdk.training.checkpoint import CheckpointError, FileEntry, is_within
from broker.sdk.training.shelf import DirectoryFolder, Folder

REPLICA = "_REPLICA.json"
SCHEMA_VERSION = 1


class Replica(NamedTuple):
    """A manifest; `encoded` are its bytes. `crc32c` has those files of which it is known."""

    encoded: bytes
    files: tuple[FileEntry, ...]
    crc32c: Mapping[str, str]


def found(folder: Folder, digest: str) -> Replica | None:
    """The manifest of a checkpoint, None if there is none and none has to be.

    `digest` is that of the manifest that the start was granted with, empty if nobody said so.
    Raises CheckpointError for one that is altered, of another content, or gone, and OSError.
    """
    encoded = folder.read(REPLICA)
    if encoded is None:
        if digest:
            raise CheckpointError(f"{folder} has no {REPLICA} any more, by which it was chosen")
        return None
    try:
        replica, own = _read(encoded)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CheckpointError(f"{folder}/{REPLICA} cannot be read") from None
    if digest not in ("", own):
        raise CheckpointError(f"{folder} is not the checkpoint that this start was granted")
    return replica


def require_files(
    folder: Folder, replica: Replica, sizes: Mapping[str, int], crc32c: Mapping[str, str]
) -> None:
    """Raise CheckpointError unless all files are there, by what the store says of them.

    `crc32c` is empty where the store says none.
    """
    for entry in replica.files:
        if sizes.get(entry.name) != entry.size_bytes:
            raise CheckpointError(f"{folder}/{entry.name} is not there as its manifest says")
        told = {one for one in (crc32c.get(entry.name), replica.crc32c.get(entry.name)) if one}
        if len(told) > 1:
            raise CheckpointError(
                f"{folder}/{entry.name} has another crc32c than its manifest says"
            )


def require_in(directory: Path, digest: str) -> None:
    """Hold a directory against its manifest, if it has one. Raises as `found` does."""
    folder = DirectoryFolder(directory)
    replica = found(folder, digest)
    if replica is not None:
        require_files(folder, replica, folder.sizes(), {})


def verify(directory: Path) -> None:
    """Read every file that the manifest names, or the markers, and compare size and SHA-256.

    Raises CheckpointError, which names the file, for one that differs, and OSError for one that
    cannot be read. A DCP checkpoint that was not saved through this library names no digests until
    the broker has written its manifest.
    """
    replica = found(DirectoryFolder(directory), "")
    if replica is None:
        checkpoint.verify(directory)
        return
    for entry in replica.files:
        if durable.digest_file(directory / entry.name) != (entry.size_bytes, entry.sha256):
            raise CheckpointError(f"{directory / entry.name} is not the file that was saved")


def _read(encoded: bytes) -> tuple[Replica, str]:
    """Read a manifest; also its digest. Raises ValueError and its like for one that is none."""
    document = json.loads(encoded)
    files = tuple(
        FileEntry(one["name"], one["size_bytes"], one["sha256"]) for one in document["files"]
    )
    if document["schema_version"] != SCHEMA_VERSION or not all(is_within(f.name) for f in files):
        raise ValueError("not a manifest of ours")
    identity = {
        "epoch": document["epoch"],
        "step": document["step"],
        "files": [list(entry) for entry in files],
    }
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    if digest != document["digest"]:
        raise ValueError("it was altered")
    crc32c = {one["name"]: str(one["crc32c"]) for one in document["files"] if "crc32c" in one}
    return Replica(encoded, files, crc32c), digest
