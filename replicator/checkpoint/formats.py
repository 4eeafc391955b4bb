"""When a directory of files is a complete checkpoint, per format.

The rule: no marker, no checkpoint. The marker is the file that the format writes last, or, where it
writes none for that, the file that comes with the end of a save; then what else the format needs
has to be there, and nothing may have changed for a while (``settling``).

* ``FILES``: ``.complete``, JSON that names every file with its size and sha256. What it does not
  name is not content.
* ``PYTORCH_DCP``: ``.metadata``. Torch writes ``.metadata.tmp``, removes an older ``.metadata``
  and renames; so while ``.metadata.tmp`` is there, a save is going on or was cut off, and the
  shards may be newer than the marker. All files that are there are content.

* ``HUGGING_FACE``: ``trainer_state.json``, which the Trainer writes after the weights, and weights:
  whole, or all of their shards, or those of DeepSpeed or FSDP.
* ``LIGHTNING``: the file ``checkpoint.ckpt``. It is not written at once, so that it must end as the
  zip file does that it is (``describe`` reads it).
* ``ORBAX``: ``_CHECKPOINT_METADATA``, with nothing beside it that is still under a temporary name.

An empty marker is one that is still being written. Read ``judge`` first.
"""

import json
import re
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
ZIP_END_BYTES = 22
MAX_ZIP_END_BYTES = ZIP_END_BYTES + 65_535  # with the longest comment


class Format(StrEnum):
    """How a run's training writes its checkpoints."""

    FILES = "FILES"
    PYTORCH_DCP = "PYTORCH_DCP"
    HUGGING_FACE = "HUGGING_FACE"
    LIGHTNING = "LIGHTNING"
    ORBAX = "ORBAX"


MARKERS: Mapping[Format, str] = {
    Format.FILES: ".complete",
    Format.PYTORCH_DCP: ".metadata",
    Format.HUGGING_FACE: "trainer_state.json",
    Format.LIGHTNING: "checkpoint.ckpt",
    Format.ORBAX: "_CHECKPOINT_METADATA",
}
# Nothing else is ever called so; what others call their markers can be a file of any checkpoint.
OWN_MARKERS = frozenset({MARKERS[Format.FILES], MARKERS[Format.PYTORCH_DCP]})
SETTLING = frozenset({Format.HUGGING_FACE, Format.LIGHTNING, Format.ORBAX})
# DCP's marker is a pickle, which nobody should open, and Lightning's is as large as the model.
READ = frozenset({Format.FILES, Format.HUGGING_FACE, Format.ORBAX})
_WEIGHTS = frozenset(
    f"{kind}.{ending}"
    for kind, ending in (
        *(("model", "safetensors"), ("pytorch_model", "bin")),
        *(("adapter_model", "safetensors"), ("adapter_model", "bin")),
    )
)
_SHARD = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.(safetensors|bin)")
_SHARDED_FOLDERS = ("global_step", "pytorch_model_fsdp_")
_ORBAX_UNFINISHED = ".orbax-checkpoint-tmp"
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
    why = _lack(checkpoint_format, found, marker)
    if why:
        return Unfinished(why=why)
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


def _lack(checkpoint_format: Format, found: Mapping[str, Entry], marker: bytes) -> str:
    """Say what a checkpoint of somebody else's format lacks, or nothing."""
    if checkpoint_format in (Format.HUGGING_FACE, Format.ORBAX):
        try:
            is_object = isinstance(json.loads(marker), dict)
        except (ValueError, RecursionError):
            is_object = False
        if not is_object:
            return f"its {MARKERS[checkpoint_format]} is not whole"
    if checkpoint_format is Format.HUGGING_FACE:
        return _lack_of_weights(frozenset(found))
    if checkpoint_format is Format.ORBAX:
        if any(_ORBAX_UNFINISHED in name for name in found):
            return "a part of it still has its temporary name"
        if len(found) == 1:
            return "it has nothing but its metadata"
    return ""


def _lack_of_weights(names: frozenset[str]) -> str:
    shards = [matched for name in names if (matched := _SHARD.fullmatch(name))]
    # Once for each set of them: a store may hold a hundred thousand names of one.
    for base, total, ending in sorted({shard.group(1, 3, 4) for shard in shards}):
        for number in range(1, int(total) + 1):
            name = f"{base}-{number:05d}-of-{total}.{ending}"
            if name not in names:
                return f"{name} is not there"
    if shards or names & _WEIGHTS or any(name.startswith(_SHARDED_FOLDERS) for name in names):
        return ""
    return "it has no weights"


def is_whole_zip(end: bytes) -> bool:
    """Whether a file's last bytes are the end of a zip file: its directory's end, and no more."""
    at = end.rfind(b"PK\x05\x06")
    if at < 0 or len(end) < at + ZIP_END_BYTES:
        return False
    return at + ZIP_END_BYTES + int.from_bytes(end[at + 20 : at + 22], "little") == len(end)


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
        and name not in OWN_MARKERS
        and type(claim.size_bytes) is int
        and claim.size_bytes >= 0
        and is_sha256(claim.sha256)
    )


def _is_content(name: str) -> bool:
    """Manifests, and what writers leave while they write, never travel."""
    leaf = name.rpartition("/")[2]
    return name != REPLICA_NAME and not leaf.endswith(".tmp") and not leaf.startswith(".tmp")
