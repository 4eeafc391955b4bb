"""Where the checkpoints of one epoch are kept: a directory here, a bucket in `bucket`.

The rule it keeps: unknown is not absent. What is not there is None or empty; a place that cannot
be reached raises OSError. Read `Folder` first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from broker.sdk.training import durable, folders
from broker.sdk.training.durable import Digest


class Folder(Protocol):
    """The place of one checkpoint, complete or not. Every call may raise OSError."""

    def make(self) -> None:
        """Make it, if it has to be made; what is above it is there, or there is no store now."""

    def read(self, name: str) -> bytes | None:
        """The bytes of a small file, None if there is none."""

    def size(self, name: str) -> int | None:
        """How large a file is, None if there is none."""

    def sizes(self) -> Mapping[str, int]:
        """How large each file is, by its name in here, with forward slashes."""

    def take_in(self, source: Path, name: str) -> Digest:
        """Copy a file of this machine over whatever is there, and say what was copied."""

    def settle(self) -> None:
        """Return when all that was taken in is there to stay."""

    def write(self, name: str, data: bytes) -> None:
        """Put a small file, whole and to stay, over whatever is there."""

    def remove(self, name: str) -> None:
        """Remove a file; one that is not there is fine."""


class Shelf(Protocol):
    """The place of all checkpoints of one epoch. Every call may raise OSError.

    `poll_s` is how often it may be looked at by who waits.
    """

    poll_s: float

    def require(self) -> None:
        """Return if the store is there, and make the place if it has to be made."""

    def names(self) -> tuple[str, ...]:
        """The names of the folders that are there."""

    def folder(self, name: str) -> Folder:
        """One of them, there or not."""

    def close(self) -> None:
        """Let go of what is held to reach it; it can be used again."""


class DirectoryShelf:
    """A directory of this machine, in a store or, outside the broker, wherever it was wanted."""

    poll_s = 0.05

    def __init__(self, path: Path, *, is_in_store: bool) -> None:
        self._path = path
        self._is_in_store = is_in_store

    def require(self) -> None:
        """Make what is missing below the store, or all of it where there is no store."""
        if self._is_in_store:
            folders.make_in_store(self._path)
        else:
            self._path.mkdir(parents=True, exist_ok=True)

    def names(self) -> tuple[str, ...]:
        """What is in the directory; it may not be there yet."""
        try:
            return tuple(path.name for path in self._path.iterdir())
        except FileNotFoundError:
            return ()

    def folder(self, name: str) -> Folder:
        """A directory in it."""
        return DirectoryFolder(self._path / name)

    def close(self) -> None:
        """Nothing is held."""


class DirectoryFolder:
    """A directory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._touched = {path, path.parent}

    def __str__(self) -> str:
        return str(self._path)

    def make(self) -> None:
        """Make the directory, and nothing above it."""
        folders.make_within(self._path)

    def read(self, name: str) -> bytes | None:
        """The bytes of a file."""
        try:
            return (self._path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def size(self, name: str) -> int | None:
        """The size of a file."""
        try:
            return (self._path / name).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def sizes(self) -> Mapping[str, int]:
        """The sizes of all files."""
        return {
            path.relative_to(self._path).as_posix(): path.stat().st_size
            for path in self._path.rglob("*")
            if path.is_file()
        }

    def take_in(self, source: Path, name: str) -> Digest:
        """Copy and sync a file, and make the directories that it lies in."""
        copy = self._path / name
        for inner in reversed(list(copy.relative_to(self._path).parents)[:-1]):
            folders.make_within(self._path / inner)
        self._touched.add(copy.parent)
        return durable.copy_file(source, copy)

    def settle(self) -> None:
        """Sync the directories in which names changed."""
        for directory in sorted(self._touched):
            durable.sync_directory(directory)

    def write(self, name: str, data: bytes) -> None:
        """Write and sync a file."""
        durable.write_file(self._path / name, data)

    def remove(self, name: str) -> None:
        """Unlink a file."""
        try:
            (self._path / name).unlink()
        except FileNotFoundError:
            return
