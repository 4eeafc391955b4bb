"""The form of a checkpoint on disk, and the two moves that make one: carry a part in, seal.

    step-400/
      weights.npy  rank-0.json  …     files of all ranks, side by side; each name once
      .part-0.json  .part-1.json  …   one per rank: "my files are all there", with their digests
      .complete                       last: every file with its size and SHA-256

The rule it keeps: **a directory counts only when its marker is there, and the marker is written
last; a directory that counts is never touched again.** When rank 0's part holds `.metadata`, the
checkpoint is PyTorch DCP's, and that file is the marker, so no `.complete` joins it afterwards.
No rename is needed, so a directory, a mounted object store and a bucket work alike. Read `seal`
first.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from broker.sdk.training import durable
from broker.sdk.training.shelf import DirectoryFolder, DirectoryShelf, Folder, Shelf

COMPLETE = ".complete"
DCP_METADATA = ".metadata"
SCHEMA_VERSION = 1

_STEP = re.compile(r"step-(0|[1-9][0-9]*)\Z")
_PART = re.compile(r"\.part-[0-9]+\.json\Z")


class CheckpointError(Exception):
    """A checkpoint that cannot be meant: a reserved or doubled file name, a digest that differs."""


class FileEntry(NamedTuple):
    """One file of a checkpoint; `name` is relative to its directory, with forward slashes."""

    name: str
    size_bytes: int
    sha256: str


class Maker(NamedTuple):
    """Who makes a checkpoint: a step of an epoch, by a gang of `world_size` ranks."""

    step: int
    epoch: int
    world_size: int


def folder_of(shelf: Shelf, step: int) -> Folder:
    """Where the checkpoint of `step` is, complete or not."""
    return shelf.folder(f"step-{step}")


def step_of(directory: Path) -> int:
    """The step of the checkpoint in `directory`, from its name. Raises CheckpointError."""
    match = _STEP.match(directory.name)
    if match is None:
        raise CheckpointError(f"{directory} is not named step-<n>")
    return int(match[1])


def is_complete(directory: Path) -> bool:
    """Whether the checkpoint in `directory` has its marker; raises OSError if none can tell."""
    return is_whole(DirectoryFolder(directory))


def is_whole(folder: Folder) -> bool:
    """Whether the checkpoint in `folder` has its marker; raises OSError if none can tell."""
    return bool(folder.size(DCP_METADATA)) or files_of_marker(folder) is not None


def newest_complete(checkpoints: Path) -> Path | None:
    """The complete checkpoint of the highest step under `checkpoints`, None if there is none."""
    step = newest_step(DirectoryShelf(checkpoints, is_in_store=False))
    return None if step is None else checkpoints / f"step-{step}"


def newest_step(shelf: Shelf) -> int | None:
    """The highest step of a complete checkpoint, None if there is none. Raises OSError."""
    for step in sorted(_steps(shelf), reverse=True):
        if is_whole(folder_of(shelf, step)):
            return step
    return None


def verify(directory: Path) -> None:
    """Read every file that the markers name, and compare its size and SHA-256.

    Raises CheckpointError, which names the file, for one that differs, and OSError for one that
    cannot be read. A DCP checkpoint that was not saved through this library names no digests.
    """
    folder = DirectoryFolder(directory)
    files = files_of_marker(folder)
    if files is None:
        files = []
        for path in sorted(directory.glob(".part-*.json")):
            files.extend(_entries(_parse(folder.read(path.name)) or {}) or [])
    for entry in files:
        if durable.digest_file(directory / entry.name) != (entry.size_bytes, entry.sha256):
            raise CheckpointError(f"{directory / entry.name} is not the file that was saved")


def check_part(stage: Path, rank: int) -> None:
    """Raise CheckpointError if the files in `stage` cannot become rank `rank`'s part."""
    for path in _files_in(stage):
        name = path.relative_to(stage).as_posix()
        is_marker = name == COMPLETE or (name == DCP_METADATA and rank != 0)
        if is_marker or _PART.match(name) or name.startswith(durable.TEMPORARY_PREFIX):
            raise CheckpointError(f"rank {rank} must not save a file named {name}")


def carry_part(stage: Path, target: Folder, *, rank: int, maker: Maker) -> None:
    """Copy rank `rank`'s files from `stage` into `target`, then its part marker.

    Does nothing when `target` is complete. Repeating it after a failure is safe: files that their
    part marker vouches for are not written again, for rank 0 may be sealing them; any other part
    marker goes first, so that a half-rewritten part is never taken for a whole one.
    What is above `target` is there, or there is no store now.
    Raises OSError when the store cannot be written.
    """
    if is_whole(target):
        return
    target.make()
    part_marker = f".part-{rank}.json"
    if _is_carried(target.read(part_marker), stage, maker):
        target.settle()
        return
    target.remove(part_marker)
    entries = []
    for name, source in _part_files(stage):
        entries.append(FileEntry(name, *target.take_in(source, name)))
    target.settle()
    target.write(part_marker, _document(maker, entries, rank=rank))


def seal(target: Folder, *, maker: Maker, dcp_metadata: Path | None) -> bool:
    """Write the marker of `target` if every rank's part is there; say whether it is complete now.

    `dcp_metadata` is rank 0's staged `.metadata`, None for a checkpoint of plain files.
    Raises CheckpointError when two ranks saved different files under one name, and OSError
    when the store cannot be read or written.
    """
    if is_whole(target):
        return True
    entries: dict[str, FileEntry] = {}
    for rank in range(maker.world_size):
        part_marker = f".part-{rank}.json"
        data = target.read(part_marker)
        part = _part_entries(data, maker)
        if data is None or part is None:
            return False
        for entry in [*part, FileEntry(part_marker, *durable.digest(data))]:
            if entries.setdefault(entry.name, entry) != entry:
                raise CheckpointError(
                    f"two ranks saved different files named {entry.name} at step {maker.step};"
                    " put the rank into the name"
                )
    _check_sizes(target, entries.values())
    if dcp_metadata is not None:
        target.write(DCP_METADATA, dcp_metadata.read_bytes())
    else:
        files = [entries[name] for name in sorted(entries)]
        target.write(COMPLETE, _document(maker, files))
    return True


def forget_part(shelf: Shelf, rank: int) -> None:
    """Withdraw rank `rank`'s part from every incomplete checkpoint on `shelf`.

    A process that starts anew in an epoch calls it, so that a part that its predecessor left is
    never sealed together with new ones. Raises OSError when the store cannot be read.
    """
    for step in _steps(shelf):
        folder = folder_of(shelf, step)
        if not is_whole(folder):
            folder.remove(f".part-{rank}.json")


def _steps(shelf: Shelf) -> list[int]:
    return [int(match[1]) for name in shelf.names() if (match := _STEP.match(name))]


def _part_files(stage: Path) -> list[tuple[str, Path]]:
    """The staged files by name, without the marker of a DCP checkpoint: `seal` puts that, last."""
    found = [(path.relative_to(stage).as_posix(), path) for path in _files_in(stage)]
    return [(name, path) for name, path in found if name != DCP_METADATA]


def _files_in(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def _is_carried(part_marker: bytes | None, stage: Path, maker: Maker) -> bool:
    """Whether `part_marker` already vouches for just these files: its write had failed late."""
    entries = _part_entries(part_marker, maker)
    if entries is None:
        return False
    return entries == [FileEntry(n, *durable.digest_file(p)) for n, p in _part_files(stage)]


def _check_sizes(target: Folder, entries: Iterable[FileEntry]) -> None:
    """Two ranks that wrote one name at once can leave a file that neither meant."""
    sizes = target.sizes()
    for entry in entries:
        if entry.name not in sizes:
            raise FileNotFoundError(errno.ENOENT, "a part's file is not there", entry.name)
        if sizes[entry.name] != entry.size_bytes:
            raise CheckpointError(f"{target}/{entry.name} is not of the size that was saved")


def _document(maker: Maker, files: Iterable[FileEntry], *, rank: int | None = None) -> bytes:
    document = {
        "schema_version": SCHEMA_VERSION,
        **maker._asdict(),
        **({} if rank is None else {"rank": rank}),
        "files": [entry._asdict() for entry in files],
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def _part_entries(data: bytes | None, maker: Maker) -> list[FileEntry] | None:
    """The files of a part marker; None if it is absent, half written, or of another gang."""
    document = _parse(data)
    if document is None or any(document.get(k) != v for k, v in maker._asdict().items()):
        return None
    return _entries(document)


def files_of_marker(folder: Folder) -> list[FileEntry] | None:
    """The files that `.complete` names, None if it is not there or not whole."""
    document = _parse(folder.read(COMPLETE))
    return None if document is None else _entries(document)


def _entries(document: dict[str, object]) -> list[FileEntry] | None:
    """The files that a marker names, None if it is not one of ours."""
    files = document.get("files")
    try:
        found = [FileEntry(**entry) for entry in files] if isinstance(files, list) else None
    except TypeError:
        return None
    return None if found is None or not all(is_within(each.name) for each in found) else found


def is_within(name: object) -> bool:
    """Whether a name that a store gave is of a file in a checkpoint's directory, or below it."""
    if not isinstance(name, str) or "\0" in name:
        return False
    return not any(part in ("", ".", "..") for part in name.split("/"))


def _parse(data: bytes | None) -> dict[str, object] | None:
    if not data:
        return None
    try:
        document = json.loads(data)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
