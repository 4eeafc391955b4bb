"""A checkpoint of a bucket, brought to this machine before training begins with it.

The rule it keeps: what is read from is whole: every file is held against its digest, which the
broker's manifest says, or else the marker, and the marker comes last. Processes of one machine that
share a private directory bring it once. Read `bring`.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Mapping
from pathlib import Path

from broker.sdk.training import durable, replica
from broker.sdk.training.bucket import BucketFolder, BucketPlace, Seen
from broker.sdk.training.checkpoint import (
    COMPLETE,
    DCP_METADATA,
    CheckpointError,
    FileEntry,
    files_of_marker,
    is_complete,
    is_whole,
    is_within,
)
from broker.sdk.training.replica import REPLICA, Replica
from broker.sdk.training.wire import Wire


def bring(place: BucketPlace, home: Path, digest: str) -> Path:
    """The directory of this machine, below `home`, that holds the checkpoint at `place`.

    `digest` is that of its manifest, empty if nobody said it.

    Raises CheckpointError when it is not complete, or is not what it says of itself, and OSError
    when the store or the disk fails.
    """
    # Each place has a directory of its own: outside the broker other training may share `home`.
    home = home / durable.digest(str(place).encode()).sha256
    home.mkdir(parents=True, exist_ok=True)
    target = home / place.name
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_complete(target):
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            wire = Wire(place.door)
            try:
                _bring(BucketFolder(place, wire), target, digest)
            finally:
                wire.close()
    return target


def _bring(folder: BucketFolder, target: Path, digest: str) -> None:
    if not is_whole(folder):
        raise CheckpointError(f"{folder} is not complete")
    seen = folder.seen()
    known = replica.found(folder, digest) if digest or REPLICA in seen else None
    if known is not None:
        _bring_known(folder, known, seen, target)
        return
    claimed = None if DCP_METADATA in seen else files_of_marker(folder)
    if claimed is not None:
        for entry in claimed:
            _fetch(folder, entry, target)
        marker = COMPLETE
    else:
        for name, one in seen.items():
            if name not in (DCP_METADATA, REPLICA) and not name.endswith((".tmp", "/")):
                _fetch_seen(folder, name, one, target)
        marker = DCP_METADATA
    data = folder.read(marker)
    if data is None:
        raise CheckpointError(f"{folder}/{marker} went away while it was read")
    durable.write_file(target / marker, data)


def _bring_known(
    folder: BucketFolder, known: Replica, seen: Mapping[str, Seen], target: Path
) -> None:
    sizes = {name: one.size_bytes for name, one in seen.items()}
    replica.require_files(folder, known, sizes, {name: one.crc32c for name, one in seen.items()})
    markers = [entry for entry in known.files if entry.name in (COMPLETE, DCP_METADATA)]
    for entry in known.files:
        if entry not in markers:
            _fetch(folder, entry, target)
    durable.write_file(target / REPLICA, known.encoded)
    for entry in markers:
        data = folder.read(entry.name)
        if data is None or durable.digest(data) != (entry.size_bytes, entry.sha256):
            raise CheckpointError(f"{folder}/{entry.name} is not the file that was saved")
        durable.write_file(target / entry.name, data)


def _fetch(folder: BucketFolder, entry: FileEntry, target: Path) -> None:
    came, _ = folder.fetch(entry.name, target / entry.name)
    if came != (entry.size_bytes, entry.sha256):
        raise CheckpointError(f"{folder}/{entry.name} is not the file that was saved")


def _fetch_seen(folder: BucketFolder, name: str, seen: Seen, target: Path) -> None:
    """DCP names no digests; the store has one of all that was not composed of parts."""
    if not is_within(name):
        raise CheckpointError(f"{folder} has an object {name!r}, which no file can be called")
    came, md5 = folder.fetch(name, target / name)
    if came.size_bytes != seen.size_bytes or seen.md5 not in ("", md5):
        raise CheckpointError(f"{folder}/{name} is not the file that the store has")
