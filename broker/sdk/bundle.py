"""The user's working directory, packed: one gzipped tar, named after its content.

The rule: the same files give the same bytes, whoever packs them and when; and what is packed is
what unpacks: plain files with their content and whether they can be executed, inside the directory
and nowhere else. A link to a file of the directory is packed as that file; one that leads out is
refused, and so is a file that holds somebody's key (``keys``). Read ``pack`` first.
"""

import gzip
import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self, cast

from broker.sdk.errors import BundleError
from broker.sdk.keys import found_in
from broker.sdk.worktree import files_of

SIZE_MAX_BYTES = 256 * 1024 * 1024  # as the server's: what is larger is an input, not code
UNPACKED_MAX_BYTES = 4 * 1024 * 1024 * 1024  # as the launcher's
FILES_MAX = 50_000
CHUNK_BYTES = 1024 * 1024
KEYS_SAID = 10

OnProgress = Callable[[int, int], None]
"""Told the files that are packed, and all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A packed working directory. It is a temporary file, gone when it is closed."""

    digest: str
    size_bytes: int
    paths: tuple[str, ...]
    file: BinaryIO

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def chunks(self, size: int) -> Iterator[bytes]:
        """Yield its bytes from the beginning."""
        self.file.seek(0)
        while chunk := self.file.read(size):
            yield chunk


def pack(
    directory: str | Path,
    *,
    size_max: int = SIZE_MAX_BYTES,
    keys_allowed: Collection[str] = (),
    on_progress: OnProgress | None = None,
) -> Bundle:
    """Pack what git would keep of a directory. Raises BundleError, which names the file.

    ``keys_allowed`` are paths, or patterns of them as of a shell, of files that hold keys and go
    along all the same.
    """
    root = Path(directory)
    if not root.is_dir():
        raise BundleError(f"{root} is not a directory")
    paths = files_of(root)
    if len(paths) > FILES_MAX:
        raise BundleError(f"{root} holds {len(paths)} files; the most is {FILES_MAX}")
    _refuse_keys(root, paths, keys_allowed)
    # Closed by the bundle, or here if there is none.
    file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115
    try:
        sink = _Sink(file, size_max)
        _write(sink, root, paths, on_progress)
    except BaseException:
        file.close()
        raise
    return Bundle(
        digest=sink.digest.hexdigest(), size_bytes=sink.size_bytes, paths=paths, file=file
    )


def _refuse_keys(root: Path, paths: Iterable[str], allowed: Collection[str]) -> None:
    found = [f"{path} ({what})" for path, what in found_in(root, paths, allowed)]
    if not found:
        return
    more = f", and {len(found) - KEYS_SAID} more" if len(found) > KEYS_SAID else ""
    raise BundleError(
        f"keys are not packed: {', '.join(found[:KEYS_SAID])}{more}. Name them in .gitignore and"
        " let the run read a secret of its cluster (secrets in the intent), or say --pack-key PATH"
        " (keys_allowed in a program) to send one to every region's store all the same"
    )


class _Sink:
    """A file that is measured, hashed and bounded as it is written."""

    def __init__(self, file: BinaryIO, size_max: int) -> None:
        self._file = file
        self._size_max = size_max
        self.digest = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: bytes) -> int:
        self.size_bytes += len(data)
        if self.size_bytes > self._size_max:
            raise BundleError(
                f"the working directory is over {self._size_max >> 20} MiB packed: name what is"
                " large in .gitignore, and let the run read it as an input"
            )
        self.digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def _write(sink: _Sink, root: Path, paths: tuple[str, ...], on_progress: OnProgress | None) -> None:
    unpacked = 0
    # No name and no time in the header: the same files give the same bytes.
    with (
        gzip.GzipFile(
            filename="", mode="wb", compresslevel=6, fileobj=cast(BinaryIO, sink), mtime=0
        ) as zipped,
        tarfile.open(fileobj=zipped, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for done, path in enumerate(paths, 1):
            unpacked += _add(archive, root, path)
            if unpacked > UNPACKED_MAX_BYTES:
                raise BundleError(f"the working directory is over {UNPACKED_MAX_BYTES >> 30} GiB")
            if on_progress is not None:
                on_progress(done, len(paths))


def _add(archive: tarfile.TarFile, root: Path, path: str) -> int:
    try:
        # Not blocking: what was a file a moment ago may be a pipe now.
        descriptor = os.open(root / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise BundleError(f"{path} is not a plain file")
        member = tarfile.TarInfo(path)
        member.size = found.st_size
        member.mode = 0o755 if found.st_mode & 0o100 else 0o644
        try:
            archive.addfile(member, file)
        except OSError as error:
            raise BundleError(f"{path} changed while it was packed; pack it again") from error
        if file.read(1):
            raise BundleError(f"{path} grew while it was packed; pack it again")
    return found.st_size
