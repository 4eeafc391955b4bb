"""The objects of one kind as last heard, how well, and which changed since when. Pure.

The rule: a generation grows with every object that changes, and with nothing else, so that whoever
asks "since" pays for what changed. Read ``Cache.changed_since`` first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from regions.kueue.objects.kinds import Unreadable

T = TypeVar("T")

MOST_GONE = 10_000
"""Removed keys that are remembered; who was away for longer looks at everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How well a kind is known.

    ``heard_s`` is when it was last known to be as it was, on the clock; None: never yet, and then
    nothing is known. ``trouble`` is what stands in the way now, empty for nothing. ``scope`` is the
    namespace that can be seen, empty for all. ``is_denied``: we may not see it, or it is not there.
    """

    heard_s: float | None = None
    trouble: str = ""
    scope: str = ""
    is_denied: bool = False


class Cache(Generic[T]):
    """Objects by key, readable and not."""

    def __init__(self) -> None:
        self.generation = 0
        self._objects: dict[str, T] = {}
        self._unreadable: dict[str, Unreadable] = {}
        # By key, the latest change last: what is new since a generation stands at the end.
        self._changed: dict[str, int] = {}
        self._gone = 0
        self._forgotten = 0

    @property
    def objects(self) -> Mapping[str, T]:
        """Those that can be read, by key. It is the cache itself, not a copy."""
        return MappingProxyType(self._objects)

    @property
    def unreadable(self) -> Mapping[str, Unreadable]:
        """Those that are there and cannot be read, by key."""
        return MappingProxyType(self._unreadable)

    def get(self, key: str) -> T | Unreadable | None:
        """Return what is known of a key."""
        return self._objects.get(key) or self._unreadable.get(key)

    def put(self, key: str, found: T | Unreadable) -> None:
        """Take in an object as it is now."""
        known = self.get(key)
        if known == found:
            return
        if known is None and key in self._changed:
            self._gone -= 1  # it was there before, and is back
        self._objects.pop(key, None)
        self._unreadable.pop(key, None)
        if isinstance(found, Unreadable):
            self._unreadable[key] = found
        else:
            self._objects[key] = found
        self._note(key)

    def drop(self, key: str) -> None:
        """Take in that an object is gone."""
        if self.get(key) is None:
            return
        self._objects.pop(key, None)
        self._unreadable.pop(key, None)
        self._gone += 1
        self._note(key)
        if self._gone > MOST_GONE:
            self._forget()

    def replace(self, found: Mapping[str, T | Unreadable]) -> None:
        """Take in all objects that there are."""
        for key in [*self._objects.keys() - found.keys(), *self._unreadable.keys() - found.keys()]:
            self.drop(key)
        for key, each in found.items():
            self.put(key, each)

    def changed_since(self, generation: int) -> frozenset[str] | None:
        """Return the keys that changed after a generation; None: it is too long ago to tell."""
        if generation < self._forgotten:
            return None
        return frozenset(self._after(generation))

    def _after(self, generation: int) -> Iterable[str]:
        for key in reversed(self._changed):
            if self._changed[key] <= generation:
                return
            yield key

    def _note(self, key: str) -> None:
        self.generation += 1
        self._changed.pop(key, None)
        self._changed[key] = self.generation

    def _forget(self) -> None:
        """Let go of the keys of what is gone."""
        for key in [key for key in self._changed if self.get(key) is None]:
            del self._changed[key]
        self._gone = 0
        self._forgotten = self.generation
