"""The five calls that the start protocol makes to a region's store, and directories as stores.

The rule: an answer is an answer. A key is absent only when the store itself was seen to be there
after the miss; everything else is ``StoreUnreachable``. A record is visible whole or not at all,
and create-if-absent has one winner. Buckets are in ``bucket``. Read ``Store`` first, then
``DirectoryStore.create_if_absent``.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from contextlib import suppress
from typing import BinaryIO, Dict, Optional, Protocol, Tuple

MARKER = ".store"
"""The file at the root that says: this is the store, and not the empty folder it was mounted on."""
SCRATCH = ".tmp"
GS = "gs://"
_NO_FILE = (errno.ELOOP, errno.ENXIO, errno.ENODEV)
"""How a link, a socket and a device without a driver answer to being opened."""
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~-/")
"""The bytes of a path that stand in a URI as they are."""
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_PART = re.compile(r"[A-Za-z0-9._~=@+-]{1,255}")


class StoreError(Exception):
    """What can go wrong with a store. Nothing else leaves this module."""


class StoreUnreachable(StoreError):
    """The store did not answer. A write that ends so may or may not have happened."""


class InvalidKey(StoreError):
    """The key is not one that any store would be asked for. Asking again cannot help."""


class Store(Protocol):
    """Keys are parts joined by ``/``. Every call may raise StoreUnreachable or InvalidKey."""

    def get(self, key: str) -> Optional[BinaryIO]:
        """Open what the key holds, to be read within a limit and closed; None if it is absent.

        What is there and can be no record (a folder, a link, a pipe) reads as empty: it is not
        absent, and one that somebody put there must not look like a store that is silent.
        """

    def create_if_absent(self, key: str, data: bytes) -> bool:
        """Write, durably and whole, only if the key is absent. False: somebody else's is there."""

    def put(self, key: str, data: bytes) -> None:
        """Write, whole, over whatever is there. Not meant to survive a loss of power."""

    def list(self, prefix: str) -> Tuple[str, ...]:
        """Name what is directly under a prefix, sorted; a further prefix ends in ``/``.

        The prefix is empty or ends in ``/``. Nothing there is an empty answer.
        """

    def delete(self, key: str) -> None:
        """Remove the key. Absent already is done."""


class Measured(Store, Protocol):
    """A Store of which a launcher also asks how large things are, before it begins with them."""

    def sizes(self, prefix: str) -> Dict[str, int]:
        """The sizes in bytes of all that is under a prefix, however deep, by the rest of its key.

        What is there and can be no file of a checkpoint, as a link, is in it as little as what is
        absent.
        """


def read_bounded(store: Store, key: str, limit_bytes: int) -> Optional[bytes]:
    """Read a whole value, or one byte more than the limit if it is longer; None if absent."""
    stream = store.get(key)
    if stream is None:
        return None
    try:
        with stream:
            return stream.read(limit_bytes + 1)
    except OSError as error:
        raise StoreUnreachable(f"{key}: {error}") from error


def location_of(text: str) -> str:
    """Return where a store is: an absolute path, or ``gs://bucket/folder``. Raises InvalidKey."""
    if not text.startswith(GS):
        return path_of(text)
    bucket, _, folder = text[len(GS) :].rstrip("/").partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise InvalidKey(f"not a bucket: {text[:200]!r}")
    return GS + "/".join((bucket, *(check_key(folder) if folder else ())))


def uri_at(location: str, key: str) -> str:
    """Return the URI of what a store holds under a key, as training is told it."""
    if location.startswith(GS):
        return f"{location}/{key}"
    return uri_of(os.path.join(location, key))


def path_of(location: str) -> str:
    """Turn ``file:///a/b`` or a plain absolute path into a path. Raises InvalidKey."""
    path = location
    if "://" in location:
        # A launcher starts with an absolute path, and a third sooner without these.
        from urllib.parse import unquote, urlsplit

        parts = urlsplit(location)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            raise InvalidKey(f"not a store this program can reach: {location[:200]!r}")
        path = unquote(parts.path)
    if not os.path.isabs(path) or "\0" in path:
        raise InvalidKey(f"not an absolute path: {location[:200]!r}")
    return os.path.normpath(path)


def uri_of(path: str) -> str:
    """Return ``file:///a/b`` of an absolute path, as ``path_of`` reads it."""
    raw = os.fsencode(path)
    return "file://" + "".join(chr(one) if one in _PLAIN else f"%{one:02X}" for one in raw)


def random_hex() -> str:
    """Return 32 hexadecimal digits of chance."""
    return os.urandom(16).hex()  # ``secrets`` brings ciphers along that a start would wait for


def check_key(key: str) -> Tuple[str, ...]:
    """Return the parts of a key, or raise InvalidKey: no climbing out, nothing of the store's."""
    parts = tuple(key.split("/"))
    for part in parts:
        if part in (".", "..") or not _PART.fullmatch(part):
            raise InvalidKey(f"not a key: {key[:200]!r}")
    if parts[0] in (MARKER, SCRATCH):
        raise InvalidKey(f"not a key: {key[:200]!r}")
    return parts


class DirectoryStore:
    """A directory as a store. ``root`` is absolute and carries the marker; it is never made here
    but by ``create``, so that a store whose disk went away cannot come back empty."""

    def __init__(self, root: str) -> None:
        self.root = root

    @classmethod
    def create(cls, root: str) -> "DirectoryStore":
        """Make a directory into a store, or open it if it is one."""
        os.makedirs(os.path.join(root, SCRATCH), exist_ok=True)
        with open(os.path.join(root, MARKER), "ab"):
            pass
        return cls(root)

    def get(self, key: str) -> Optional[BinaryIO]:
        """Open what the key holds; see Store. Links are not followed."""
        path = self._path(key)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            self._require_root()
            return None
        except OSError as error:
            if error.errno in _NO_FILE:
                return io.BytesIO()
            raise StoreUnreachable(f"{key}: {error}") from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return io.BytesIO()
        return os.fdopen(descriptor, "rb")

    def create_if_absent(self, key: str, data: bytes) -> bool:
        """Write once; see Store. A hard link is the one step that both shows and decides."""
        path = self._path(key)
        try:
            scratch = self._write_scratch(path, data, is_durable=True)
            try:
                os.link(scratch, path)
            except FileExistsError:
                return False
            finally:
                os.unlink(scratch)
            _sync_folder(os.path.dirname(path))
        except OSError as error:
            raise StoreUnreachable(f"{key}: {error}") from error
        return True

    def put(self, key: str, data: bytes) -> None:
        """Write over; see Store."""
        path = self._path(key)
        try:
            scratch = self._write_scratch(path, data, is_durable=False)
            try:
                os.replace(scratch, path)
            except OSError:
                os.unlink(scratch)
                raise
        except OSError as error:
            raise StoreUnreachable(f"{key}: {error}") from error

    def list(self, prefix: str) -> Tuple[str, ...]:
        """Name what is directly under the prefix; see Store."""
        if prefix and not prefix.endswith("/"):
            raise InvalidKey(f"not a prefix: {prefix[:200]!r}")
        path = self._path(prefix[:-1]) if prefix else self.root
        if path != self.root and os.path.islink(path):
            raise StoreUnreachable(f"{prefix}: a link stands where a folder should")
        try:
            with os.scandir(path) as entries:
                names = [_entry_name(entry) for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            names = []
        except OSError as error:
            raise StoreUnreachable(f"{prefix}: {error}") from error
        # After the look, not before it: only then does an empty answer mean that nothing is there.
        self._require_root()
        hidden = () if prefix else (MARKER, SCRATCH + "/")
        return tuple(sorted(name for name in names if name not in hidden))

    def sizes(self, prefix: str) -> Dict[str, int]:
        """Measure what is under the prefix; see Measured. Links are not followed."""
        root = self._path(prefix.rstrip("/"))
        found: Dict[str, int] = {}
        try:
            for folder, _, names in os.walk(root, onerror=_raise):
                for name in names:
                    with suppress(FileNotFoundError):
                        path = os.path.join(folder, name)
                        seen = os.lstat(path)
                        if stat.S_ISREG(seen.st_mode):
                            found[os.path.relpath(path, root)] = seen.st_size
        except (FileNotFoundError, NotADirectoryError):
            found.clear()
        except OSError as error:
            raise StoreUnreachable(f"{prefix}: {error}") from error
        self._require_root()
        return found

    def delete(self, key: str) -> None:
        """Remove; see Store."""
        try:
            os.unlink(self._path(key))
        except (FileNotFoundError, NotADirectoryError):
            self._require_root()
        except OSError as error:
            raise StoreUnreachable(f"{key}: {error}") from error

    def _path(self, key: str) -> str:
        """Return where a key is. A folder that is a link leads out of the store: no answer."""
        path = self.root
        for part in check_key(key):
            if path != self.root and os.path.islink(path):
                raise StoreUnreachable(f"{key}: a link stands where a folder should")
            path = os.path.join(path, part)
        return path

    def _require_root(self) -> None:
        try:
            os.stat(os.path.join(self.root, MARKER))
        except OSError as error:
            raise StoreUnreachable(f"{self.root}: {error}") from error

    def _write_scratch(self, path: str, data: bytes, *, is_durable: bool) -> str:
        """Write the bytes to a file beside the store's keys, ready to be shown at ``path``."""
        self._require_root()
        self._make_folders(os.path.dirname(path))
        scratch = os.path.join(self.root, SCRATCH, random_hex())
        try:
            with open(scratch, "xb") as out:
                out.write(data)
                if is_durable:
                    out.flush()
                    os.fsync(out.fileno())
        except OSError:
            with suppress(OSError):
                os.unlink(scratch)
            raise
        return scratch

    def _make_folders(self, folder: str) -> None:
        # One by one and never the root: making parents blindly would bring a lost store back empty.
        missing = []
        while folder != self.root and not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for one in reversed(missing):
            with suppress(FileExistsError):
                os.mkdir(one)
                _sync_folder(os.path.dirname(one))


def _raise(error: OSError) -> None:
    raise error


def _entry_name(entry: "os.DirEntry[str]") -> str:
    return entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
