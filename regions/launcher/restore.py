"""What a broker does that wakes up from a backup, with a fleet out there that has moved on.

The rule: it takes what happened after the backup as fact. It learns it from the stores, closes what
has not started, takes over what has, and starts above all of it. Read ``adopt`` first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, FrozenSet, Iterable, Mapping, Tuple, Union

from regions.launcher.codec import Unreadable
from regions.launcher.layout import EpochId, Grant, Seal, Started
from regions.launcher.reading import Absent, Reading, Unreachable
from regions.launcher.rules import Owner

DEFAULT_MARGIN = 8
"""How many numbers above the highest trace of an epoch are revoked too.

A closed epoch leaves its owner record in a store, so that a lost history reaches at most one number
above what a look at every store finds; the rest is for stores that somebody waived."""
MAX_LOST = 10_000
"""How many epochs of one run a lost history can have held. A trace above that is no trace of ours:
to revoke every number below it would take for ever, so that a person must look."""


@dataclass(frozen=True)
class StoreSeen:
    """What a look at one run in one region's store found. Both are complete, or it was not seen."""

    region: str
    owners: Mapping[int, Reading[Owner]]
    grants: Tuple[Grant, ...]


@dataclass(frozen=True)
class NotSeen:
    """Nothing is decided for this run yet: these clusters or stores were not seen, nor waived."""

    names: Tuple[str, ...]


@dataclass(frozen=True)
class Revocations:
    """Create REVOKED if absent at each (region, epoch number), look again, and ask again."""

    targets: Tuple[Tuple[str, int], ...]


@dataclass(frozen=True)
class FoundEpoch:
    """A start that the log does not know and the store does."""

    region: str
    epoch: EpochId
    placement: str
    nonces: Tuple[str, ...]


@dataclass(frozen=True)
class Adopted:
    """What the run is, after its log was joined with the stores.

    ``open``: started epochs that no record says are closed, oldest first. The last one counts; one
    before it can only be there because a store was waived, and is fenced and closed first.
    ``over``: started epochs that a grant proves closed, oldest first, also those that our own log
    knows. ``closed`` are all such, seen in a store or not. ``next_number`` is the number of the
    next epoch. ``seals`` are all that count.
    """

    open: Tuple[FoundEpoch, ...]
    over: Tuple[FoundEpoch, ...]
    closed: FrozenSet[EpochId]
    next_number: int
    seals: Tuple[Seal, ...]


def top_number(last_number: int, stores: Tuple[StoreSeen, ...], margin: int) -> int:
    """Return the highest epoch number to revoke: some above every trace of a lost history.

    To be taken once, from the first complete look: what the revocations leave behind are traces
    too, and a top that moved with them would never be reached.
    """
    ours = (n for store in stores for n in _numbers(store) if n <= last_number + MAX_LOST)
    return max([last_number, *ours]) + margin


def adopt(
    last_number: int,
    top: int,
    own_seals: Iterable[Seal],
    stores: Tuple[StoreSeen, ...],
    unseen: FrozenSet[str],
    *,
    settled: FrozenSet[int],
) -> Union[NotSeen, Revocations, Adopted]:
    """Join a restored log of one run, which ends at epoch ``last_number``, with the stores (R1).

    ``top`` is from ``top_number``. ``unseen`` names clusters and stores that have not been seen and
    that nobody waived by name. ``settled`` are the numbers of epochs that the log holds closed with
    proof: their owners are known from it, whatever a disk has made of the records since, and say
    nothing of what came after the backup. Ask again after each answer but the last. Without this
    rule the broker would start the number after its log's last, while a gang that the lost part of
    the log granted trains, or stands at its gate with that grant on its way.
    """
    garbled = {
        f"{store.region} epoch {n}" for store in stores for n in _garbled(store) if n not in settled
    }
    garbled |= {
        f"{store.region} epoch {n}"
        for store in stores
        for n in _numbers(store)
        if n > last_number + MAX_LOST
    }
    if unseen or garbled:
        # A region that does not answer may hold a running gang. To wait is safe.
        return NotSeen(tuple(sorted(unseen | garbled)))
    # By number, because the nonce of a grant that is still on its way cannot be known.
    targets = tuple(
        (store.region, number)
        for store in stores
        for number in range(last_number + 1, top + 1)
        if isinstance(store.owners.get(number, Absent()), Absent)
    )
    if targets:
        return Revocations(targets)
    started = [found for store in stores for found in _started(store)]
    started.sort(key=lambda found: found.epoch.number)
    grants = tuple(grant for store in stores for grant in store.grants)
    # A grant that carries an epoch's seal is proof that its broker had closed it.
    closed = frozenset(one.epoch for grant in grants for one in grant.seals)
    return Adopted(
        open=tuple(
            found
            for found in started
            if found.epoch.number > last_number and found.epoch not in closed
        ),
        over=tuple(found for found in started if found.epoch in closed),
        closed=closed,
        next_number=top + 1,
        seals=merge_seals(own_seals, grants, started),
    )


def merge_seals(
    own: Iterable[Seal], grants: Iterable[Grant], started: Iterable[FoundEpoch]
) -> Tuple[Seal, ...]:
    """Join seals, those that grants carry before our own (R2), in the order of their epochs.

    A gang trains on what its grant carries. To seal the same epoch again from a fresh look would
    let in what a zombie wrote since, and split what "the newest checkpoint" means. Where grants
    differ, one that started goes before one that did not, and then the later before the earlier.
    """
    ran = {found.epoch for found in started}
    ordered = sorted(
        grants,
        key=lambda grant: (grant.epoch in ran, grant.epoch.number, grant.incarnation),
        reverse=True,
    )
    merged: Dict[EpochId, Seal] = {}
    for one in [*(one for grant in ordered for one in grant.seals), *own]:
        merged.setdefault(one.epoch, one)
    return tuple(sorted(merged.values(), key=lambda one: (one.epoch.number, one.epoch.nonce)))


def is_superseded(own_incarnation: int, found: Iterable[int]) -> bool:
    """Say whether a store shows a newer life of this data: then this daemon must not go on."""
    return any(number > own_incarnation for number in found)


def _numbers(store: StoreSeen) -> Tuple[int, ...]:
    return (*store.owners, *(grant.epoch.number for grant in store.grants))


def _garbled(store: StoreSeen) -> Tuple[int, ...]:
    return tuple(
        number
        for number, owner in store.owners.items()
        if isinstance(owner, (Unreadable, Unreachable))
    )


def _started(store: StoreSeen) -> Tuple[FoundEpoch, ...]:
    return tuple(
        FoundEpoch(
            region=store.region,
            epoch=EpochId(number=number, nonce=owner.grant_nonce),
            placement=owner.placement,
            nonces=owner.nonces,
        )
        for number, owner in sorted(store.owners.items())
        if isinstance(owner, Started)
    )
