"""When a checkpoint without a marker of its own is written: nothing of it changes for a while.

The rule: two listings that are equal in every name and generation, ``SETTLE_S`` apart. A marker
that is written last needs none of this. Read ``Settling.has_settled``.
"""

from collections.abc import Mapping

from replicator.checkpoint.paths import CheckpointPath
from replicator.stores.port import Entry

# A rank that writes its part behind the others' is seen within it. It delays each copy, and the
# close of a start whose last save it is.
SETTLE_S = 10.0
MAX_KEPT = 10_000


class Settling:
    """What was listed of checkpoints, and since when it was so."""

    def __init__(self) -> None:
        self._seen: dict[CheckpointPath, tuple[Mapping[str, Entry], float]] = {}

    def has_settled(self, path: CheckpointPath, entries: Mapping[str, Entry], now_s: float) -> bool:
        """Take a listing, by relative name, as of ``now_s`` of a clock that only grows."""
        before, since_s = self._seen.get(path, ({}, now_s))
        if before != entries:
            self._seen[path] = (dict(entries), now_s)
            while len(self._seen) > MAX_KEPT:
                self._seen.pop(next(iter(self._seen)))
            return False
        return now_s - since_s >= SETTLE_S
