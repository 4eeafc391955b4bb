"""A checkpoint's files as they come in.

The rule: they are written beside the folder that is wanted, verified one by one, and take its name
when all of them are there; a name that climbs out is refused. Read ``receive`` first.
"""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import BinaryIO, Self

from broker.sdk.errors import Damaged, IntentError
from broker.sdk.streams import Part
from broker.v1 import run_service_pb2


def receive(parts: Iterator[Part], folder: Path) -> tuple[int, int]:
    """Write the files of a fetch into a new folder; return how many and their bytes.

    Raises IntentError when the folder is there already, Damaged when a file is not what was said.
    """
    if folder.exists():
        raise IntentError("--to", f"{folder} is there already")
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        count, size = _write_all(parts, part)
        part.replace(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return count, size


def _write_all(parts: Iterator[Part], folder: Path) -> tuple[int, int]:
    count, size = 0, 0
    current: _File | None = None
    for one in parts:
        if isinstance(one, run_service_pb2.CheckpointFile):
            if current is not None:
                current.finish()
            current = _File(one, folder)
            count, size = count + 1, size + one.size_bytes
        elif isinstance(one, bytes) and current is not None:
            current.write(one)
    if current is None:
        raise Damaged("no file came")
    current.finish()
    return count, size


class _File:
    """One file that is being written."""

    def __init__(self, said: run_service_pb2.CheckpointFile, folder: Path) -> None:
        self._said = said
        path = folder / _safe(said.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("xb")
        self._digest = hashlib.sha256()
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def write(self, chunk: bytes) -> None:
        self._digest.update(chunk)
        self._size += len(chunk)
        self._file.write(chunk)

    def finish(self) -> None:
        """Close it. Raises Damaged when it is not what was said."""
        self._file.close()
        said = self._said
        if (self._size, self._digest.hexdigest()) != (said.size_bytes, said.sha256):
            raise Damaged(
                f"{said.path} does not match its checksum: fetch it from another region",
                reason="COPY_NOT_VERIFIED",
            )


def _safe(path: str) -> PurePosixPath:
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or ".." in pure.parts or "\0" in path:
        raise Damaged(f"{path[:80]!r} is no path within a checkpoint")
    return pure
