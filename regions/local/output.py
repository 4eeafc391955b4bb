"""What members print: one file per rank, never longer on disk than its limit.

The rule: a file's positions mean the same for ever. The member writes to it directly, so that it
needs no daemon to print; when the file grows, its middle is given back to the file system as a
hole, and whoever reads over the hole is told how much is missing. Read ``trim`` first.
"""

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

_KEEP_SIZE = 1
_PUNCH_HOLE = 2
_BLOCK_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Bytes of a log, and the position after them. Empty: there is no more for now."""

    offset: int
    data: bytes


def trim(path: Path, head_bytes: int, tail_bytes: int) -> bool:
    """Give back the middle of a log beyond its limits. False: this file system cannot."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    try:
        size = os.fstat(descriptor).st_size
        start = -(-head_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
        end = (size - tail_bytes) // _BLOCK_BYTES * _BLOCK_BYTES
        if end <= start or os.fstat(descriptor).st_blocks * 512 <= head_bytes + 2 * tail_bytes:
            # Not at every byte over the limit: each time costs the file system some work.
            return True
        return _punch(descriptor, start, end - start)
    finally:
        os.close(descriptor)


def size_bytes(path: Path) -> int:
    """What a log takes on the disk: what was given back of it counts no more."""
    try:
        return path.lstat().st_blocks * 512
    except FileNotFoundError:
        return 0


def read(path: Path, offset: int, limit_bytes: int) -> Chunk:
    """Read from a position on. Where the middle was given back a sentence stands in its place.

    A negative position is so many bytes before the end.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return Chunk(offset=max(0, offset), data=b"")
    try:
        size = os.fstat(descriptor).st_size
        offset = max(0, size + offset) if offset < 0 else offset
        if offset >= size:
            return Chunk(offset=offset, data=b"")
        start = os.lseek(descriptor, offset, os.SEEK_DATA)
        if start > offset:
            words = f"\n[{start - offset} bytes were dropped here to keep the log in its limit]\n"
            return Chunk(offset=start, data=words.encode())
        hole = os.lseek(descriptor, offset, os.SEEK_HOLE)
        data = os.pread(descriptor, min(limit_bytes, hole - offset), offset)
        return Chunk(offset=offset + len(data), data=data)
    finally:
        os.close(descriptor)


def _punch(descriptor: int, start: int, length: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    fallocate = libc.fallocate
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    return bool(fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, start, length) == 0)
