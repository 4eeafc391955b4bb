"""The objects of one kind as last heard, and how well. Pure.

The rule: a generation grows with every object that changes, and with nothing else, so that whoever
looks pays only when something did. Read ``Cache.put`` first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from regions.kueue.objects.kinds import Unreadable

T = TypeVar("T")


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
        if self.get(key) == found:
            return
        self._objects.pop(key, None)
        self._unreadable.pop(key, None)
        if isinstance(found, Unreadable):
            self._unreadable[key] = found
        else:
            self._objects[key] = found
        self.generation += 1

    def drop(self, key: str) -> None:
        """Take in that an object is gone."""
        if self.get(key) is None:
            return
        self._objects.pop(key, None)
        self._unreadable.pop(key, None)
        self.generation += 1

    def replace(self, found: Mapping[str, T | Unreadable]) -> None:
        """Take in all objects that there are."""
        for key in [*self._objects.keys() - found.keys(), *self._unreadable.keys() - found.keys()]:
            self.drop(key)
        for key, each in found.items():
            self.put(key, each)
