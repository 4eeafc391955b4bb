"""One run's records in a store that charges for each call, as one listing of them shows them.

The rule: what the listing does not name is absent, and what it names in a generation that was read
before is not read again. So a look costs one call, and one for each record that was written since.
A checkpoint can have more files than all records together: a listing that comes to one and does
not end there goes on behind it, and what it passed over is asked for apart. Read ``Glance`` first.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol, runtime_checkable

from regions.launcher.codec import MAX_RECORD_BYTES
from regions.launcher.store import Store, StoreUnreachable, read_bounded

MAX_PAGES = 200
"""Of one run's listing. A run with more is not read: a look must end, for the sake of the others.
"""
CHECKPOINTS = "/checkpoints/"
_PAST = "0"
"""Comes right after a slash: what begins with a folder's name and this lies behind the folder."""


@runtime_checkable
class Charging(Protocol):
    """What a store that charges for each call can do besides."""

    def page(self, prefix: str, start: str, token: str) -> tuple[Mapping[str, str], str]:
        """List a page of the keys under a prefix, however deep, from ``start`` on (empty: all).

        Returns generations by key, in order, and the token of the next page; empty: there is none.
        Raises StoreUnreachable.
        """
        ...


@dataclass(slots=True)
class Kept:
    """The records of one run that the last look read, with the generations they were listed in.

    What a look does not read any more is final, and known without its bytes.
    """

    records: dict[str, tuple[str, bytes]] = field(default_factory=dict)


class Glance:
    """A Store to read from: what is under ``prefix`` as it was when this was made."""

    def __init__(self, store: Store, pages: Charging, prefix: str, kept: Kept) -> None:
        """List what is there. Raises StoreUnreachable."""
        self._store = store
        self._prefix = prefix
        self._kept = kept
        self._passed: set[str] = set()
        self._generations = self._listed(pages)
        self._before, kept.records = kept.records, {}

    def get(self, key: str) -> BinaryIO | None:
        """Return a record, read anew only if it was written since. As Store, of short records."""
        if not self._is_known(key):
            return self._store.get(key)
        generation = self._generations.get(key)
        if generation is None:
            return None
        known = self._kept.records.get(key) or self._before.get(key)
        if known is None or known[0] != generation:
            data = read_bounded(self._store, key, MAX_RECORD_BYTES)
            if data is None:
                return None  # it was removed since
            # What came may be newer than what was listed: then it is read once more, next time.
            known = (generation, data)
        self._kept.records[key] = known
        return io.BytesIO(known[1])

    def list(self, prefix: str) -> tuple[str, ...]:
        """Name what is directly under a prefix."""
        if not self._is_known(prefix):
            return self._store.list(prefix)
        names = set()
        for key in self._generations:
            if key.startswith(prefix):
                name, slash, _ = key[len(prefix) :].partition("/")
                names.add(name + slash)
        return tuple(sorted(names - {""}))

    def create_if_absent(self, key: str, data: bytes) -> bool:
        """Write; see Store."""
        return self._store.create_if_absent(key, data)

    def put(self, key: str, data: bytes) -> None:
        """Write over; see Store."""
        self._store.put(key, data)

    def delete(self, key: str) -> None:
        """Remove; see Store."""
        self._store.delete(key)

    def _is_known(self, key: str) -> bool:
        """Whether the listing tells of a key, or of all under a prefix."""
        return key.startswith(self._prefix) and not any(map(key.startswith, self._passed))

    def _listed(self, pages: Charging) -> dict[str, str]:
        found: dict[str, str] = {}
        start = token = ""
        for _ in range(MAX_PAGES):
            page, token = pages.page(self._prefix, start, token)
            found.update(page)
            if not token:
                return found
            folder = _checkpoints_of(list(page)[-1]) if page else ""
            if folder:
                self._passed.add(folder)
                start, token = folder[:-1] + _PAST, ""
        raise StoreUnreachable(f"{self._prefix}: more than {MAX_PAGES} pages")


def _checkpoints_of(key: str) -> str:
    """Return the folder of an epoch's checkpoints that a key lies in, or nothing."""
    folder, found, _ = key.partition(CHECKPOINTS)
    return folder + found if found else ""
