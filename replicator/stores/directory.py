"""A store that is a directory: embedded clusters, and mounted file systems.

The rule: a directory counts as a store only while its marker file ``.store`` is there, so that an
unmounted disk is an error and not an empty store. No symbolic link below the root is followed:
every step of a path is opened relative to its parent with O_NOFOLLOW. Objects are written under
``.tmp/``, synced, and then linked or renamed to their name. What a write that was killed left there
is taken up by the next write of that name, as far as its bytes are the same. Read
``write_if_absent`` first.

A generation is (mtime, inode, size). A change in place that restores all three is not seen by it;
checksums see it.
"""

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from replicator.errors import (
    Changed,
    NameRefused,
    NotFound,
    StoreError,
    StoreForbidden,
    StoreFull,
    StoreUnreachable,
    TooLarge,
)
from replicator.stores.names import (
    STORE_MARKER,
    TEMPORARY,
    checked,
    checked_content,
    checked_prefix,
    refusal,
)
from replicator.stores.port import CHUNK_BYTES, MAX_LISTED, Entry, Listing, Refused
from replicator.stores.unfinished import begun, fill

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO that somebody put in the place of a file must not hang.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GONE = (errno.ENOENT, errno.ENOTDIR)


class DirectoryStore:
    """A ContentStore over the directory ``root``, which may itself be reached through a link."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __repr__(self) -> str:
        return f"DirectoryStore({str(self._root)!r})"

    @classmethod
    def create(cls, root: Path) -> "DirectoryStore":
        """Make ``root`` a store, if it is none yet. Only who sets up a region calls this."""
        with _translated(str(root)):
            root.mkdir(parents=True, exist_ok=True)
            (root / STORE_MARKER).touch()
        return cls(root)

    def list(self, prefix: str) -> Listing:
        """List the objects under ``prefix``; an absent folder is empty, an absent root is not."""
        checked_prefix(prefix)
        entries: list[Entry] = []
        refused: list[Refused] = []
        with _translated(prefix), self._opened_root() as root:
            try:
                folder = _walk_down(root, prefix[:-1].split("/"), make=False)
            except NotFound:
                return Listing(entries=(), refused=())
            _collect(folder, prefix, entries, refused)
        entries.sort(key=lambda entry: entry.name)
        refused.sort(key=lambda one: one.name)
        return Listing(entries=tuple(entries), refused=tuple(refused))

    def stat(self, name: str) -> Entry | None:
        """Return the file as it is now; a link or a device of that name is refused."""
        with _translated(name), self._opened_parent(name, make=False) as parent:
            if parent is None:
                return None
            return _entry_at(parent, name)

    def read(self, name: str, generation: str) -> Generator[bytes, None, None]:
        """Yield the file's bytes while it stays the same generation."""
        with _translated(name):
            with self._opened_parent(name, make=False) as parent:
                if parent is None:
                    raise NotFound(name, "no such object")
                file = _open_file(parent, name)
            try:
                _require_generation(name, os.fstat(file), generation)
                while chunk := os.read(file, CHUNK_BYTES):
                    yield chunk
                _require_generation(name, os.fstat(file), generation)
            finally:
                os.close(file)
        # The descriptor keeps reading a file that was replaced by rename: ask the name as well.
        now = self.stat(name)
        if now is None or now.generation != generation:
            raise Changed(name, "it was replaced while it was read")

    def write_if_absent(self, name: str, chunks: Iterable[bytes]) -> Entry | None:
        """Write to a temporary file, sync, and link it to its name, which fails if it is taken."""
        if self.stat(checked_content(name)) is not None:
            return None
        return self._write(name, chunks, _link)

    def put(self, name: str, chunks: Iterable[bytes]) -> Entry:
        """Write to a temporary file, sync, and rename it over its name."""
        written = self._write(name, chunks, _rename)
        assert written is not None, "a rename replaces whatever is there"
        return written

    def delete(self, name: str) -> bool:
        """Unlink the file and sync its folder."""
        with _translated(name), self._opened_parent(name, make=False) as parent:
            if parent is None or _entry_at(parent, name) is None:
                return False
            try:
                os.unlink(_leaf(name), dir_fd=parent)
            except FileNotFoundError:
                return False
            os.fsync(parent)
            return True

    def tidy(self, prefix: str) -> None:
        """Remove the empty folders at and below ``prefix``."""
        checked_prefix(prefix)
        with _translated(prefix), self._opened_parent(prefix[:-1], make=False) as parent:
            if parent is not None:
                _remove_empty(parent, _leaf(prefix[:-1]))

    def sweep_temporary(self, *, now_s: float, older_than_s: float) -> int:
        """Remove what killed writers left under ``.tmp/``; return how many files.

        ``now_s`` is wall time in seconds. ``older_than_s`` must exceed the longest stall of a
        live writer, whose file would otherwise be taken from under it (it then fails and retries).
        """
        removed = 0
        with (
            _translated(TEMPORARY),
            self._opened_root() as root,
            suppress(FileNotFoundError),
            _opened(TEMPORARY, _FOLDER, root) as folder,
        ):
            for leaf in os.listdir(folder):
                with suppress(FileNotFoundError):
                    found = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode) and now_s - found.st_mtime > older_than_s:
                        os.unlink(leaf, dir_fd=folder)
                        removed += 1
        return removed

    def _write(
        self, name: str, chunks: Iterable[bytes], publish: Callable[[int, str, int, str], bool]
    ) -> Entry | None:
        checked_content(name)
        with _translated(name), self._opened_root() as root:
            _make_folder(root, TEMPORARY)
            with (
                _opened(TEMPORARY, _FOLDER, root) as folder,
                begun(folder, name) as (temporary, file),
            ):
                fill(file, chunks)
                with self._opened_parent(name, make=True) as parent:
                    assert parent is not None, "it was just made"
                    if not publish(folder, temporary, parent, _leaf(name)):
                        return None
                    os.fsync(parent)
                    return _entry_at(parent, name)

    @contextmanager
    def _opened_root(self) -> Iterator[int]:
        try:
            root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StoreUnreachable(str(self._root), f"the root: {error.strerror}") from error
        try:
            try:
                os.stat(STORE_MARKER, dir_fd=root)
            except OSError as error:
                raise StoreUnreachable(
                    str(self._root), f"not a store, {STORE_MARKER}: {error.strerror}"
                ) from error
            yield root
        finally:
            os.close(root)

    @contextmanager
    def _opened_parent(self, name: str, *, make: bool) -> Iterator[int | None]:
        """Open the folder that holds ``name``; None when there is none and none is to be made."""
        *folders, _ = checked(name).split("/")
        with self._opened_root() as root:
            try:
                parent = _walk_down(root, folders, make=make)
            except NotFound:
                yield None
                return
            try:
                yield parent
            finally:
                os.close(parent)


def _walk_down(root: int, folders: "list[str]", *, make: bool) -> int:
    """Open ``folders`` one by one below ``root``. The caller closes what it gets."""
    here = os.dup(root)
    for folder in folders:
        try:
            if make:
                _make_folder(here, folder)
            below = os.open(folder, _FOLDER, dir_fd=here)
        except OSError as error:
            if error.errno == errno.ELOOP or _is_link(here, folder):
                raise NameRefused(folder, "a symbolic link stands where a folder should") from error
            if error.errno in _GONE and not make:
                raise NotFound(folder, "no such folder") from error
            raise
        finally:
            os.close(here)
        here = below
    return here


def _make_folder(parent: int, folder: str) -> None:
    try:
        os.mkdir(folder, dir_fd=parent)
    except FileExistsError:
        return
    os.fsync(parent)


def _collect(folder: int, prefix: str, entries: "list[Entry]", refused: "list[Refused]") -> None:
    """Gather what lies in the open ``folder`` and below, and close it.

    A file that vanishes between the listing and the look at it is absent, which is the truth.
    """
    try:
        for leaf in os.listdir(folder):
            name = prefix + leaf
            why = refusal(name)
            try:
                found = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
                if why is None and stat.S_ISDIR(found.st_mode):
                    _collect(os.open(leaf, _FOLDER, dir_fd=folder), name + "/", entries, refused)
                    continue
            except FileNotFoundError:
                continue
            if why is None and not stat.S_ISREG(found.st_mode):
                why = "it is not a regular file"
            if why is not None:
                refused.append(Refused(name=ascii(name)[1:-1], why=why))
            else:
                entries.append(_entry(name, found))
            if len(entries) + len(refused) > MAX_LISTED:
                raise TooLarge(prefix, f"more than {MAX_LISTED} objects")
    finally:
        os.close(folder)


def _link(folder: int, temporary: str, parent: int, leaf: str) -> bool:
    try:
        os.link(temporary, leaf, src_dir_fd=folder, dst_dir_fd=parent, follow_symlinks=False)
    except FileExistsError:
        return False
    return True


def _rename(folder: int, temporary: str, parent: int, leaf: str) -> bool:
    os.rename(temporary, leaf, src_dir_fd=folder, dst_dir_fd=parent)
    return True


def _remove_empty(parent: int, leaf: str) -> None:
    try:
        with _opened(leaf, _FOLDER, parent) as folder:
            for below in os.listdir(folder):
                if stat.S_ISDIR(os.stat(below, dir_fd=folder, follow_symlinks=False).st_mode):
                    _remove_empty(folder, below)
        os.rmdir(leaf, dir_fd=parent)
    except OSError as error:
        # Not empty, or somebody else was faster: both are fine.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, *_GONE):
            raise


def _entry_at(parent: int, name: str) -> Entry | None:
    try:
        found = os.stat(_leaf(name), dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise NameRefused(name, "it is not a regular file")
    return _entry(name, found)


def _open_file(parent: int, name: str) -> int:
    try:
        file = os.open(_leaf(name), _FILE, dir_fd=parent)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NameRefused(name, "it is a symbolic link") from error
        if error.errno == errno.ENOENT:
            raise NotFound(name, "no such object") from error
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NameRefused(name, "it is not a regular file")
    return file


def _require_generation(name: str, found: os.stat_result, generation: str) -> None:
    if _generation(found) != generation:
        raise Changed(name, "it is not the generation that was asked for")


def _entry(name: str, found: os.stat_result) -> Entry:
    return Entry(
        name=name,
        size_bytes=found.st_size,
        generation=_generation(found),
        modified_s=found.st_mtime,
        crc32c=None,
    )


def _generation(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns}-{found.st_ino}-{found.st_size}"


def _leaf(name: str) -> str:
    return name.rpartition("/")[2]


def _is_link(parent: int, leaf: str) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(leaf, dir_fd=parent, follow_symlinks=False).st_mode)
    return False


@contextmanager
def _opened(leaf: str, flags: int, parent: int) -> Iterator[int]:
    descriptor = os.open(leaf, flags, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Turn what the operating system says into the errors of this package."""
    try:
        yield
    except OSError as error:
        sentence = error.strerror or str(error)
        match error.errno:
            case errno.ENOSPC | errno.EDQUOT:
                raise StoreFull(name, sentence) from error
            case errno.EROFS | errno.EACCES | errno.EPERM:
                raise StoreForbidden(name, sentence) from error
            case errno.ENOTDIR | errno.EISDIR | errno.ELOOP | errno.ENAMETOOLONG:
                raise NameRefused(name, sentence) from error
            case errno.EIO | errno.ESTALE | errno.ENOTCONN | errno.ETIMEDOUT:
                raise StoreUnreachable(name, sentence) from error
            case _:
                raise StoreError(name, sentence) from error
