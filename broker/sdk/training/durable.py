"""Bytes that are on disk when the call returns. Read `write_file` first.

The rule it keeps: nobody sees half a file where the filesystem can rename; where it cannot (a
mounted object store), the file appears whole when it is closed, which is what such stores do.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from pathlib import Path
from typing import NamedTuple

CHUNK_BYTES = 1 << 20
TEMPORARY_PREFIX = ".tmp-"

# Mounted object stores have no directory to sync; they say so with one of these.
_NO_DIRECTORY_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF})


class Digest(NamedTuple):
    """Size in bytes and SHA-256 in hexadecimal of one file."""

    size_bytes: int
    sha256: str


def write_file(path: Path, data: bytes) -> None:
    """Put `data` at `path`, replacing what is there, and sync file and directory.

    Raises OSError when neither a rename nor a plain write works.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{os.getpid()}")
    try:
        _write_synced(temporary, data)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        _write_synced(path, data)
    sync_directory(path.parent)


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step, for readers of this machine: not synced."""
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{os.getpid()}")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def copy_file(source: Path, target: Path) -> Digest:
    """Copy `source` over `target`, sync it (not its directory), and say what was copied."""
    sha256 = hashlib.sha256()
    size_bytes = 0
    with source.open("rb") as reader, target.open("wb") as writer:
        while True:
            chunk = reader.read(CHUNK_BYTES)
            if not chunk:
                break
            writer.write(chunk)
            sha256.update(chunk)
            size_bytes += len(chunk)
        writer.flush()
        os.fsync(writer.fileno())
    return Digest(size_bytes, sha256.hexdigest())


def digest(data: bytes) -> Digest:
    """Digest bytes."""
    return Digest(len(data), hashlib.sha256(data).hexdigest())


def digest_file(path: Path) -> Digest:
    """Read the whole file at `path` and digest it."""
    sha256 = hashlib.sha256()
    size_bytes = 0
    with path.open("rb") as reader:
        while True:
            chunk = reader.read(CHUNK_BYTES)
            if not chunk:
                return Digest(size_bytes, sha256.hexdigest())
            sha256.update(chunk)
            size_bytes += len(chunk)


def sync_directory(path: Path) -> None:
    """Make the names in `path` durable, where the filesystem has such a thing."""
    descriptor = os.open(str(path), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
    finally:
        os.close(descriptor)


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as writer:
        writer.write(data)
        writer.flush()
        os.fsync(writer.fileno())
