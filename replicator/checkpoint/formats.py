"""When a directory of files is a complete checkpoint, per format.

The rule: no marker, no checkpoint. The marker is the file that the format writes last.

* ``FILES``: ``.complete``, JSON that names every file with its size and sha256. What it does not
  name is not content.
* ``PYTORCH_DCP``: ``.metadata``. Torch writes ``.metadata.tmp``, removes an older ``.metadata``
  and renames; so while ``.metadata.tmp`` is there, a save is going on or was cut off, and the
  shards may be newer than the marker. All files that are there are content.

An empty marker is one that is still being written. Directories without any marker (Lightning,
Hugging Face ``checkpoint-N``) are never complete. Read ``judge`` first.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from replicator.hashing import is_sha256
from replicator.stores.names import refusal
from replicator.stores.port import Entry

REPLICA_NAME = "_REPLICA.json"
# 100,000 files of 150 bytes of JSON each: far above any save, and still a bound.
MAX_MARKER_BYTES = 16 * 1024 * 1024
MAX_FILES = 100_000


class Format(StrEnum):
    """How a run's training writes its checkpoints."""

    FILES = "FILES"
    PYTORCH_DCP = "PYTORCH_DCP"


MARKERS: Mapping[Format, str] = {Format.FILES: ".complete", Format.PYTORCH_DCP: ".metadata"}
_UNFINISHED: Mapping[Format, str] = {Format.PYTORCH_DCP: ".metadata.tmp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a marker says of one file."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """The content, marker included, by name relative to the checkpoint. ``claims`` may be empty."""

    content: Mapping[str, Entry]
    claims: Mapping[str, Claim]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """Not a complete checkpoint, and why."""

    why: str


def judge(
    checkpoint_format: Format, found: Mapping[str, Entry], marker: bytes | None
) -> Complete | Unfinished:
    """Judge a listing, by relative name, and the bytes of its marker (None: there is none)."""
    marker_name = MARKERS[checkpoint_format]
    unfinished = _UNFINISHED.get(checkpoint_format)
    if not marker or marker_name not in found:
        return Unfinished(why=f"its marker {marker_name} is not there")
    if unfinished in found:
        return Unfinished(why=f"{unfinished} is there: a save is going on or was cut off")
    if len(found) > MAX_FILES:
        return Unfinished(why=f"it has more than {MAX_FILES} files")
    claims = claims_of(marker) if checkpoint_format is Format.FILES else {}
    if isinstance(claims, Unfinished):
        return claims
    names = claims or {name for name in found if _is_content(name)}
    for name, claim in claims.items():
        if name not in found:
            return Unfinished(why=f"{name}, which its marker names, is not there")
        if found[name].size_bytes != claim.size_bytes:
            return Unfinished(why=f"{name} has not the size that its marker says")
    content = {name: found[name] for name in sorted({*names, marker_name})}
    return Complete(content=content, claims=claims)


def claims_of(marker: bytes) -> Mapping[str, Claim] | Unfinished:
    """Read a ``.complete`` marker: ``{"files": [{"name", "size_bytes", "sha256"}, ...]}``.

    Further fields are for its writer. Whatever cannot be read makes the checkpoint unfinished.
    """
    try:
        files = json.loads(marker)["files"]
        claims = {
            file["name"]: Claim(size_bytes=file["size_bytes"], sha256=file["sha256"])
            for file in files
        }
    except (ValueError, KeyError, TypeError, RecursionError):
        return Unfinished(why="its marker cannot be read")
    if not claims or len(claims) != len(files):
        return Unfinished(why="its marker names no file, or one twice")
    for name, claim in claims.items():
        if not _is_claim(name, claim):
            return Unfinished(why="its marker has an entry that cannot be content")
    return claims


def _is_claim(name: object, claim: Claim) -> bool:
    return (
        isinstance(name, str)
        and refusal(name) is None
        and _is_content(name)
        and name not in MARKERS.values()
        and type(claim.size_bytes) is int
        and claim.size_bytes >= 0
        and is_sha256(claim.sha256)
    )


def _is_content(name: str) -> bool:
    """Manifests, and what writers leave while they write, never travel."""
    leaf = name.rpartition("/")[2]
    return name != REPLICA_NAME and not leaf.endswith(".tmp") and not leaf.startswith(".tmp")
