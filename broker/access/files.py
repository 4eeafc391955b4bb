"""Files that others must not read: tokens and keys.

The rule: such a file is believed only when it is this user's own and nobody else may read or write
it. One that root put there may be readable by a group, for that is how a Secret is mounted. A new
content takes the old one's place whole. Read ``read_private`` first.
"""

import os
import stat
import tempfile
from pathlib import Path

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe in the place of a file blocks nobody


Mark = tuple[int, ...]


class PrivateFileError(Exception):
    """A file that cannot be used; the sentence names it and says why."""


def mark_of(path: Path) -> Mark | None:
    """Return what changes whenever a file, its owner or its mode does, None without a file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return (found.st_dev, found.st_ino, *times, found.st_size, found.st_mode, found.st_uid)


def read_private(path: Path, largest: int) -> bytes:
    """Return the content of a file that nobody else can read. Raises PrivateFileError."""
    return _read(path, largest, is_private=True)


def read_public(path: Path, largest: int) -> bytes:
    """Return the content of a file that may be read by all, as a certificate. As above."""
    return _read(path, largest, is_private=False)


def _read(path: Path, largest: int, *, is_private: bool) -> bytes:
    try:
        handle = os.open(path, _READ)
        try:
            # What was opened is judged, and not what the path leads to a moment later.
            _check(path, os.fstat(handle), is_private=is_private)
            with open(handle, "rb", closefd=False) as file:
                data = file.read(largest + 1)
        finally:
            os.close(handle)
    except FileNotFoundError as error:
        raise PrivateFileError(f"{path} is not there") from error
    except OSError as error:
        raise PrivateFileError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > largest:
        raise PrivateFileError(f"{path} is larger than {largest} bytes")
    return data


def _check(path: Path, found: os.stat_result, *, is_private: bool) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise PrivateFileError(f"{path} is no file")
    if not is_private:
        return
    if found.st_uid not in (0, os.geteuid()):
        raise PrivateFileError(f"{path} belongs to another user")
    others = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP
    if found.st_uid != 0 or os.geteuid() == 0:
        others |= stat.S_IRGRP
    if found.st_mode & others:
        raise PrivateFileError(
            f"{path} can be read or written by others (mode {stat.S_IMODE(found.st_mode):04o});"
            f" chmod 600 {path}"
        )


def write_private(path: Path, data: bytes) -> None:
    """Put a content in the place of a file, whole, durable, and readable by its owner alone.

    Raises OSError.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:  # mkstemp makes it with mode 0600
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
