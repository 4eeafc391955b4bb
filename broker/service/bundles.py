"""Bundles as they come in: a folder of files, each named after its content.

The rule: a bundle is there whole, durable and true to its name, or not at all. What is half
written has another name and is removed at the next start. Read ``BundleFolder.receive`` first.
"""

import asyncio
import functools
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from io import BufferedWriter
from pathlib import Path

from broker.history.refusals import Code, Refused
from broker.model.reasons import Reason
from broker.service.errors import invalid

SIZE_MAX = 256 * 1024 * 1024  # what git would pack of a working directory; data are inputs
CHUNK_MAX = 1024 * 1024
UPLOADS_AT_ONCE = 8
_PART = ".part"


class BundleFolder:
    """The bundles of a brokerd: ``<sha256>.tar.gz`` in one folder, for the replicator to copy."""

    def __init__(self, folder: Path, *, size_max: int = SIZE_MAX) -> None:
        self._folder = folder
        self._size_max = size_max
        self._uploads = 0

    def prepare(self) -> None:
        """Make the folder, and remove what an earlier life left half written."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in self._folder.glob(f"*{_PART}"):
            left.unlink(missing_ok=True)

    def path(self, digest: str) -> Path:
        """Return where the bundle of a well-formed digest is, or would be."""
        return self._folder / f"{digest}.tar.gz"

    def size_bytes(self, digest: str) -> int | None:
        """Return the size of a bundle, None when it is not there."""
        try:
            return self.path(digest).stat().st_size
        except FileNotFoundError:
            return None

    async def receive(self, digest: str, size_bytes: int, chunks: AsyncIterator[bytes]) -> None:
        """Take in a bundle that is not there yet.

        Raises InvalidArgument when it is not what was announced, Refused when the disk refuses.
        """
        if not 0 < size_bytes <= self._size_max:
            raise invalid("header.size_bytes", f"is not between 1 and {self._size_max}")
        if self._uploads >= UPLOADS_AT_ONCE:
            raise Refused(
                reason=Reason.TOO_MUCH_AT_ONCE,
                message=f"{UPLOADS_AT_ONCE} bundles are on their way already",
                code=Code.RESOURCE_EXHAUSTED,
            )
        self._uploads += 1
        part = self._folder / f"{digest}.{os.urandom(6).hex()}{_PART}"
        try:
            await self._write(part, digest, size_bytes, chunks)
            await _finished(lambda: _publish(part, self.path(digest)))
        except OSError as error:
            raise Refused(
                reason=Reason.LOG_UNWRITABLE, message=f"the bundle cannot be written: {error}"
            ) from error
        finally:
            self._uploads -= 1
            part.unlink(missing_ok=True)

    async def _write(
        self, part: Path, digest: str, size_bytes: int, chunks: AsyncIterator[bytes]
    ) -> None:
        seen, total = hashlib.sha256(), 0
        with _new_file(part) as file:
            async for chunk in chunks:
                total += len(chunk)
                if total > size_bytes:
                    raise invalid("chunk", f"more came than the {size_bytes} bytes announced")
                seen.update(chunk)
                await _finished(functools.partial(file.write, chunk))
            if total != size_bytes:
                raise invalid("chunk", f"{total} bytes came of the {size_bytes} announced")
            if seen.hexdigest() != digest:
                raise invalid("header.digest", "is not the sha256 of what came")
            await _finished(lambda: _flush(file))


async def _finished(work: Callable[[], object]) -> None:
    """Do work on the disk in a thread, to its end: cancelled, it is waited for first.

    A thread cannot be stopped, and what it still held open would outlive the upload.
    """
    done = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait([done])
        raise


def _new_file(path: Path) -> BufferedWriter:
    return path.open("xb")


def _flush(file: BufferedWriter) -> None:
    file.flush()
    os.fsync(file.fileno())


def _publish(part: Path, final: Path) -> None:
    part.replace(final)
    folder = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
