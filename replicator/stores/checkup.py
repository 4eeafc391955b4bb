"""Whether a store takes, shows, gives and lets go of an object, tried because a person asked.

The rule: what is tried with is an object of its own, which nobody else ever looks at, and it is
removed again. Read ``try_out`` first.
"""

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from replicator.errors import ReplicatorError
from replicator.stores.port import ContentStore, read_small

PROBES = "probes/"
_BYTES = b"a probe of the broker's; it may be removed\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a store stands. ``is_one_place`` is false for one that several places share."""

    location: str
    is_one_place: bool


@runtime_checkable
class Located(Protocol):
    """A store that knows where it stands."""

    def standing(self) -> Standing:
        """Ask. Raises StoreForbidden where that may not be known, and StoreError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of it. ``fault`` says what it did not do, and why; empty: it did all. ``standing``
    None: nobody knows, ``unknown`` says why."""

    fault: str
    standing: Standing | None = None
    unknown: str = ""


def try_out(store: ContentStore) -> Trial:
    """Write an object, list it, read it and remove it. Raises nothing of this package."""
    fault = _tried(store)
    if not isinstance(store, Located):
        return Trial(fault=fault)
    try:
        return Trial(fault=fault, standing=store.standing())
    except ReplicatorError as error:
        return Trial(fault=fault, unknown=error.sentence)


def _tried(store: ContentStore) -> str:
    name = PROBES + secrets.token_hex(16)
    steps: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("write", lambda: store.write_if_absent(name, [_BYTES]) is not None),
        ("list", lambda: name in [entry.name for entry in store.list(PROBES).entries]),
        ("read", lambda: _is_read(store, name)),
        ("remove", lambda: _is_removed(store, name)),
    )
    for what, step in steps:
        try:
            if step():
                continue
            fault = f"{what}: it did not find what was written a moment before"
        except ReplicatorError as error:
            fault = f"{what}: {error.sentence}"
        with suppress(ReplicatorError):
            _is_removed(store, name)
        return fault
    return ""


def _is_removed(store: ContentStore, name: str) -> bool:
    is_gone = store.delete(name)
    store.tidy(PROBES)
    return is_gone


def _is_read(store: ContentStore, name: str) -> bool:
    entry = store.stat(name)
    return entry is not None and read_small(store, entry, len(_BYTES)) == _BYTES
