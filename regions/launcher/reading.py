"""What one look at a record gave: the record, a sure absence, garbage, or no answer.

The rule: these four are never confused. Only ``Absent`` is an absence, and only a record is a
record; nobody acts on the other two. Read ``read_record`` first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, TypeVar, Union

from regions.launcher.codec import MAX_RECORD_BYTES, Unreadable
from regions.launcher.store import Store, StoreUnreachable, read_bounded

T = TypeVar("T")


@dataclass(frozen=True)
class Absent:
    """The store answered, and the key was not there at that moment."""


@dataclass(frozen=True)
class Unreachable:
    """The store did not answer. ``why`` is for people."""

    why: str


Reading = Union[T, Absent, Unreadable, Unreachable]


def read_record(
    store: Store, key: str, parse: Callable[[bytes], Union[T, Unreadable]]
) -> Union[T, Absent, Unreadable, Unreachable]:
    """Look at one record; whatever happens is a value."""
    try:
        raw = read_bounded(store, key, MAX_RECORD_BYTES)
    except StoreUnreachable as error:
        return Unreachable(str(error))
    return Absent() if raw is None else parse(raw)
