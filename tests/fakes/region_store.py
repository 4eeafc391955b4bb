"""One region's store in memory, as launchers and the broker's hand use it and as content.

The rule it keeps: an object is visible whole or not at all, create-if-absent has one winner, and a
caller behind a cut line learns nothing. ``ControlStore`` has the start protocol's five calls,
``RegionContent`` is the replicator's port; both look at the same ``Objects``.
"""

from __future__ import annotations

import io
import itertools
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import BinaryIO, Protocol

from regions.launcher.store import InvalidKey, StoreUnreachable, check_key
from replicator import errors
from replicator.stores.names import checked, checked_prefix
from replicator.stores.port import Entry, Listing

_checked_key = cache(check_key)  # a play asks for the same keys again and again


class Line(Protocol):
    """A caller's way to the store."""

    def reach(self, key: str) -> bool:
        """Return whether a call gets there."""
        ...

    def answers(self, key: str) -> bool:
        """Return whether the answer to a write that was done gets back."""
        ...


class AnswerLost(StoreUnreachable):
    """The write was done, and the caller cannot know."""


class OpenLine:
    """A line on which nothing is lost."""

    def reach(self, key: str) -> bool:
        return True

    def answers(self, key: str) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Stored:
    """One object: its bytes, which write of the store it was, and when."""

    data: bytes
    generation: int
    at_s: float


class Objects:
    """What a store holds. ``on_delete`` hears the name of what is about to go.

    ``refuses`` is what a write gets on a disk that takes none: full, or read-only.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._stored: dict[str, Stored] = {}
        self._folders: dict[str, set[str]] = defaultdict(set)
        self._writes = itertools.count(1)
        self.on_delete: Callable[[str], None] = lambda name: None
        self.refuses: type[errors.StoreError] | None = None

    def get(self, key: str) -> Stored | None:
        return self._stored.get(key)

    def put(self, key: str, data: bytes) -> Stored:
        is_there = key in self._stored
        found = self._stored[key] = Stored(data, next(self._writes), self._now_s())
        if not is_there:
            self._name(key)
        return found

    def delete(self, key: str) -> bool:
        if key not in self._stored:
            return False
        self.on_delete(key)
        self._forget(key)
        return True

    def names(self, prefix: str) -> tuple[str, ...]:
        """Name what is directly under a prefix, sorted."""
        return tuple(sorted(self._folders.get(prefix, ())))

    def under(self, prefix: str) -> list[str]:
        """Return every key under a prefix, sorted."""
        found: list[str] = []
        for name in self.names(prefix):
            if name.endswith("/"):
                found += self.under(prefix + name)
            else:
                found.append(prefix + name)
        return found

    # ---- What befalls a disk --------------------------------------------------------------------

    def rot(self, key: str, data: bytes) -> None:
        """Hold other bytes under a key; nothing else that a store tells of it has moved."""
        self._stored[key] = replace(self._stored[key], data=data)

    def lose(self, key: str) -> None:
        """Be without an object that nobody removed."""
        if key in self._stored:
            self._forget(key)

    def holding(self) -> Mapping[str, Stored]:
        """Return all that is there, as it is now."""
        return dict(self._stored)

    def hold(self, stored: Mapping[str, Stored]) -> None:
        """Be another disk, which holds just this."""
        self._stored = dict(stored)
        self._folders = defaultdict(set)
        for key in stored:
            self._name(key)

    def _name(self, key: str) -> None:
        parts = key.split("/")
        for depth in range(len(parts)):
            folder = "".join(f"{part}/" for part in parts[:depth])
            self._folders[folder].add(parts[depth] + ("/" if depth < len(parts) - 1 else ""))

    def _forget(self, key: str) -> None:
        del self._stored[key]
        parts = key.split("/")
        for depth in reversed(range(len(parts))):
            folder = "".join(f"{part}/" for part in parts[:depth])
            name = parts[depth] + ("/" if depth < len(parts) - 1 else "")
            if name.endswith("/") and self._folders.get(folder + name):
                break
            self._folders.pop(folder + name, None)
            self._folders[folder].discard(name)


@dataclass(frozen=True, slots=True)
class ControlStore:
    """``regions.launcher.store.Store`` over one line."""

    objects: Objects
    line: Line = field(default_factory=OpenLine)

    def get(self, key: str) -> BinaryIO | None:
        self._reach(key)
        found = self.objects.get(key)
        return None if found is None else io.BytesIO(found.data)

    def create_if_absent(self, key: str, data: bytes) -> bool:
        self._reach(key)
        self._take(key)
        is_new = self.objects.get(key) is None
        if is_new:
            self.objects.put(key, data)
        self._answer(key)
        return is_new

    def put(self, key: str, data: bytes) -> None:
        self._reach(key)
        self._take(key)
        self.objects.put(key, data)
        self._answer(key)

    def list(self, prefix: str) -> tuple[str, ...]:
        if prefix and not prefix.endswith("/"):
            raise InvalidKey(f"not a prefix: {prefix!r}")
        self._reach(prefix.rstrip("/"))
        return self.objects.names(prefix)

    def delete(self, key: str) -> None:
        self._reach(key)
        if self.objects.refuses is errors.StoreForbidden:
            self._take(key)
        self.objects.delete(key)
        self._answer(key)

    def _reach(self, key: str) -> None:
        if key:
            _checked_key(key)
        if not self.line.reach(key):
            raise StoreUnreachable(f"{key}: cut off")

    def _take(self, key: str) -> None:
        if self.objects.refuses is not None:
            raise StoreUnreachable(f"{key}: {self.objects.refuses.reason}")

    def _answer(self, key: str) -> None:
        if not self.line.answers(key):
            raise AnswerLost(f"{key}: the answer was lost")


@dataclass(frozen=True, slots=True)
class RegionContent:
    """``replicator.stores.port.ContentStore`` over one line. ``wall_s`` is the store's own clock
    less that of ``Objects``."""

    objects: Objects
    line: Line
    wall_s: float

    def list(self, prefix: str) -> Listing:
        self._reach(checked_prefix(prefix))
        entries = [self._entry(name) for name in self.objects.under(prefix)]
        return Listing(entries=tuple(entries), refused=())

    def stat(self, name: str) -> Entry | None:
        self._reach(checked(name))
        return None if self.objects.get(name) is None else self._entry(name)

    def read(self, name: str, generation: str) -> Generator[bytes, None, None]:
        self._reach(checked(name))
        found = self.objects.get(name)
        if found is None:
            raise errors.NotFound(name, "no such object")
        if str(found.generation) != generation:
            raise errors.Changed(name, "another generation")
        yield found.data
        self._reach(name)

    def write_if_absent(self, name: str, chunks: Iterable[bytes]) -> Entry | None:
        self._reach(checked(name))
        data = b"".join(chunks)
        self._reach(name)
        self._take(name)
        is_new = self.objects.get(name) is None
        if is_new:
            self.objects.put(name, data)
        self._answer(name)
        return self._entry(name) if is_new else None

    def put(self, name: str, chunks: Iterable[bytes]) -> Entry:
        self._reach(checked(name))
        data = b"".join(chunks)
        self._reach(name)
        self._take(name)
        self.objects.put(name, data)
        self._answer(name)
        return self._entry(name)

    def delete(self, name: str) -> bool:
        self._reach(checked(name))
        if self.objects.refuses is errors.StoreForbidden:
            self._take(name)
        was_there = self.objects.delete(name)
        self._answer(name)
        return was_there

    def tidy(self, prefix: str) -> None:
        self._reach(checked_prefix(prefix))

    def _entry(self, name: str) -> Entry:
        found = self.objects.get(name)
        assert found is not None
        return Entry(
            name=name,
            size_bytes=len(found.data),
            generation=str(found.generation),
            modified_s=found.at_s + self.wall_s,
            crc32c=None,
        )

    def _reach(self, name: str) -> None:
        if not self.line.reach(name):
            raise errors.StoreUnreachable(name, "cut off")

    def _take(self, name: str) -> None:
        if self.objects.refuses is not None:
            raise self.objects.refuses(name, "it takes no writes")

    def _answer(self, name: str) -> None:
        if not self.line.answers(name):
            raise errors.StoreUnreachable(name, "the answer was lost")
