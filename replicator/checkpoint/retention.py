"""Which checkpoints a store need not keep: pure, over what a scan found.

The rule: never the only complete one, never one that is read, never one that somebody pinned or
named. Whether a checkpoint counts comes from the seals and from the open epoch, and is given. Read
``prunable`` first.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from replicator.checkpoint.paths import CheckpointPath
from replicator.checkpoint.scan import FoundCheckpoint, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRule:
    """What to keep of one run in one store.

    The newest ``last_n`` (at least 1) that count; each whose step is a multiple of ``every_n``
    (None: no such rule); and those a person ``pinned`` or ``named``, whatever they are.
    """

    last_n: int
    every_n: int | None
    pinned: AbstractSet[CheckpointPath]
    named: AbstractSet[CheckpointPath]

    def __post_init__(self) -> None:
        if self.last_n < 1 or (self.every_n is not None and self.every_n < 1):
            raise ValueError("last_n and every_n are at least 1")


def prunable(
    found: Sequence[FoundCheckpoint],
    keep: KeepRule,
    *,
    in_use: AbstractSet[CheckpointPath],
    sealed: AbstractSet[CheckpointPath],
) -> tuple[CheckpointPath, ...]:
    """Return what can be removed from one store, oldest first.

    ``found`` is all of one run in that store, newest first **as the run's lineage counts it**: the
    highest step is not the newest after a rollback. ``sealed`` are those that count: what the
    seals name, and what the open epoch wrote. ``in_use`` are those that a placement or a copy
    reads. Half copies are never in the answer: they are for ``leftovers``.
    """
    complete = [one for one in found if one.stage is not Stage.PARTIAL]
    kept: set[CheckpointPath] = set()
    kept_newest = 0
    for one in complete:
        if one.path not in sealed:
            continue
        if kept_newest < keep.last_n:
            # A complete one without its manifest may still get it, and takes nobody's place.
            kept.add(one.path)
            kept_newest += one.stage is Stage.ATTESTED
        elif keep.every_n is not None and one.path.step % keep.every_n == 0:
            kept.add(one.path)
    kept.update(one.path for one in _last_resort(complete, sealed))
    kept |= keep.pinned | keep.named | in_use
    return tuple(one.path for one in reversed(complete) if one.path not in kept)


def leftovers(
    found: Sequence[FoundCheckpoint],
    *,
    in_flight: AbstractSet[CheckpointPath],
    open_epochs: AbstractSet[str],
    now_s: float,
    older_than_s: float,
) -> tuple[CheckpointPath, ...]:
    """Return the half copies and cut-off saves that nobody works on, and none else.

    Nothing of an epoch that is open is touched: a slow save looks the same as a dead one. ``now_s``
    is wall time in seconds since 1970, ``older_than_s`` the age of its newest file from which a
    half copy counts as given up.
    """
    return tuple(
        one.path
        for one in found
        if one.stage is Stage.PARTIAL
        and one.path not in in_flight
        and one.path.epoch not in open_epochs
        and now_s - one.modified_s > older_than_s
    )


def _last_resort(
    complete: Sequence[FoundCheckpoint], sealed: AbstractSet[CheckpointPath]
) -> Sequence[FoundCheckpoint]:
    """Return the newest that has its manifest; failing that, the newest complete one.

    When none counts (the seals are not read yet, say), one is kept all the same.
    """
    counting = [one for one in complete if one.path in sealed]
    for candidates in (counting, complete):
        attested = [one for one in candidates if one.stage is Stage.ATTESTED]
        if attested or candidates:
            return (attested or candidates)[:1]
    return ()
