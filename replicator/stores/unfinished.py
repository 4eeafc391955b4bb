"""What a directory store is writing and nobody sees yet: begun, and taken up after a kill.

The rule: what was left counts only as far as its bytes are those that are to be written, so it need
not be known whose it was. Two that write one object at once have a file each. Read ``begun``.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from replicator.errors import Cancelled

_WRITTEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_ODD = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES)


@contextmanager
def begun(folder: int, name: str) -> Iterator[tuple[str, int]]:
    """Open the file that an object is written to, its name first, and remove it at the end.

    It stays for the next write when this one is cancelled, or killed: no handler runs then.
    """
    temporary = f"write-{hashlib.sha256(name.encode()).hexdigest()}"
    file = _taken_up(folder, temporary)
    if file is None:
        temporary = secrets.token_hex(16)
        file = os.open(temporary, _WRITTEN | os.O_EXCL, 0o644, dir_fd=folder)
    is_over = True
    try:
        yield temporary, file
    except BaseException as error:
        is_over = isinstance(error, Exception) and not isinstance(error, Cancelled)
        raise
    finally:
        # While it is still held: what has the name later is the next write's.
        if is_over and _is_named(folder, temporary, file):
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
        os.close(file)


def _taken_up(folder: int, temporary: str) -> int | None:
    """Open what an earlier write may have left; None when somebody writes to it, or it is odd."""
    try:
        file = os.open(temporary, _WRITTEN | os.O_NONBLOCK, 0o644, dir_fd=folder)
    except OSError as error:
        if error.errno in _ODD:
            return None
        raise
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(file)
        # Who held it may have published it a moment before, and another name leads to it then.
        is_free = found.st_nlink == 1 and _is_named(folder, temporary, file)
        if is_free and stat.S_ISREG(found.st_mode):
            return file
    except OSError:
        pass  # somebody has it, or had it, or its file system knows no locks
    os.close(file)
    return None


def _is_named(folder: int, temporary: str, file: int) -> bool:
    """Whether the name leads to the file still; a rename publishes it and frees the name."""
    try:
        named = os.stat(temporary, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return named.st_ino == os.fstat(file).st_ino


def fill(file: int, chunks: Iterable[bytes]) -> None:
    """Make the file hold the chunks: what lies there already, and is the same, stays."""
    at, is_same = 0, True
    for chunk in chunks:
        is_same = is_same and os.pread(file, len(chunk), at) == chunk
        rest = memoryview(chunk)
        if is_same:
            at, rest = at + len(rest), rest[:0]
        while rest:
            written = os.pwrite(file, rest, at)
            at, rest = at + written, rest[written:]
    os.ftruncate(file, at)
    os.fsync(file)
