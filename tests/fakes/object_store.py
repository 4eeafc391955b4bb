"""An object store in memory, and a store in which something happens at the k-th operation.

`MemoryObjectStore` has an object store's manners: no folders, generations that count, checksums in
listings, an object visible at the end of its upload. `Interrupted` wraps any store and calls a
function at every point where a process can die or the world can move: before an operation, between
two chunks, and after an operation whose answer is then lost.
"""

import itertools
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import TypeVar

from replicator.errors import Changed, NotFound, StoreUnreachable
from replicator.hashing import crc32c_of
from replicator.stores.names import checked, checked_content, checked_prefix
from replicator.stores.port import CHUNK_BYTES, ContentStore, Entry, Listing

T = TypeVar("T")


class Killed(BaseException):
    """The process died here: no handler of the code under test may catch it."""


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    generation: int
    modified_s: float


class MemoryObjectStore:
    """A ContentStore in memory. `now_s` stamps what is written; `is_reachable` is a partition."""

    def __init__(self) -> None:
        self._objects: dict[str, _Object] = {}
        self._generations = itertools.count(1)
        self.now_s = 0.0
        self.is_reachable = True

    def list(self, prefix: str) -> Listing:
        self._reach(checked_prefix(prefix))
        entries = [self._entry(name) for name in sorted(self._objects) if name.startswith(prefix)]
        return Listing(entries=tuple(entries), refused=())

    def stat(self, name: str) -> Entry | None:
        self._reach(checked(name))
        return self._entry(name) if name in self._objects else None

    def read(self, name: str, generation: str) -> Generator[bytes, None, None]:
        self._reach(checked(name))
        found = self._objects.get(name)
        if found is None:
            raise NotFound(name, "no such object")
        if str(found.generation) != generation:
            raise Changed(name, "another generation")
        # A few chunks for every object, small or large: enough to be interrupted between two.
        chunk_bytes = max(4, min(CHUNK_BYTES, -(-len(found.data) // 3)))
        for start in range(0, len(found.data), chunk_bytes):
            self._reach(name)
            yield found.data[start : start + chunk_bytes]
        now = self._objects.get(name)
        if now is None or str(now.generation) != generation:
            raise Changed(name, "another generation by now")

    def write_if_absent(self, name: str, chunks: Iterable[bytes]) -> Entry | None:
        self._reach(checked_content(name))
        data = b"".join(chunks)
        self._reach(name)
        if name in self._objects:
            return None
        return self._write(name, data)

    def put(self, name: str, chunks: Iterable[bytes]) -> Entry:
        self._reach(checked_content(name))
        data = b"".join(chunks)
        self._reach(name)
        return self._write(name, data)

    def delete(self, name: str) -> bool:
        self._reach(checked(name))
        return self._objects.pop(name, None) is not None

    def tidy(self, prefix: str) -> None:
        self._reach(checked_prefix(prefix))

    def _write(self, name: str, data: bytes) -> Entry:
        self._objects[name] = _Object(data, next(self._generations), self.now_s)
        return self._entry(name)

    def _entry(self, name: str) -> Entry:
        found = self._objects[name]
        return Entry(
            name=name,
            size_bytes=len(found.data),
            generation=str(found.generation),
            modified_s=found.modified_s,
            crc32c=crc32c_of(found.data),
        )

    def _reach(self, name: str) -> None:
        if not self.is_reachable:
            raise StoreUnreachable(name, "partitioned")


class Interrupted:
    """A ContentStore that calls `at_point(k)` at its k-th point, counted from 0."""

    def __init__(self, inner: ContentStore, at_point: Callable[[int], None]) -> None:
        self._inner = inner
        self._at_point = at_point
        self.points = 0

    def list(self, prefix: str) -> Listing:
        return self._around(lambda: self._inner.list(prefix))

    def stat(self, name: str) -> Entry | None:
        return self._around(lambda: self._inner.stat(name))

    def read(self, name: str, generation: str) -> Generator[bytes, None, None]:
        self._point()
        for chunk in self._inner.read(name, generation):
            yield chunk
            self._point()

    def write_if_absent(self, name: str, chunks: Iterable[bytes]) -> Entry | None:
        return self._around(lambda: self._inner.write_if_absent(name, self._pointed(chunks)))

    def put(self, name: str, chunks: Iterable[bytes]) -> Entry:
        return self._around(lambda: self._inner.put(name, self._pointed(chunks)))

    def delete(self, name: str) -> bool:
        return self._around(lambda: self._inner.delete(name))

    def tidy(self, prefix: str) -> None:
        self._around(lambda: self._inner.tidy(prefix))

    def _pointed(self, chunks: Iterable[bytes]) -> Generator[bytes, None, None]:
        for chunk in chunks:
            yield chunk
            self._point()

    def _around(self, operation: Callable[[], T]) -> T:
        self._point()
        result = operation()
        self._point()
        return result

    def _point(self) -> None:
        here, self.points = self.points, self.points + 1
        self._at_point(here)
