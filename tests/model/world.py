"""One state of the modelled world: stores, processes, the broker's log, and what is in flight.

The rule: a state holds only what the future can depend on, as tuples that hash and compare, so that
two ways to the same situation meet. Everything the broker does is a function of its log and of what
it reads, so a broker that crashes between writing and acting is in here without a state of its own.
Read ``World`` first.
"""

from dataclasses import dataclass
from typing import NamedTuple

from regions.launcher.layout import EpochId, Revoked, Seal, Started
from tests.model.identity import by_identity

RANKS = (0, 1)

AT_GATE = "gate"
PREPARING = "preparing"
TRAINING = "training"
OVER = "over"  # it reported its end, or its cluster sees that it is gone: one to those who judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How far the search goes. ``regions`` says where each placement stands; the rest are budgets
    of faults. ``margin`` is that of a restored broker."""

    regions: tuple[str, ...]
    epochs: int
    crashes: int
    recreations: int
    deafenings: int
    cuts: int
    restores: int
    checkpoints: int
    margin: int = 1


class Creating(NamedTuple):
    """A process whose create of the owner is on its way."""

    owner: Started


Status = str | Creating


class Gang(NamedTuple):
    """The processes that a cluster brought up for a placement, the ``generation``-th time.

    ``is_deaf``: its node reaches neither the store nor anybody; it may train on.
    """

    placement: int
    generation: int
    ranks: tuple[Status, ...]
    is_deaf: bool


class Granted(NamedTuple):
    """The log says that an epoch opened. ``resume`` is (epoch, step)."""

    epoch: EpochId
    placement: int
    resume: tuple[EpochId, int] | None
    seals: tuple[Seal, ...]


class Closed(NamedTuple):
    """The log says that an epoch closed, with proof or by (d), and what of it counts."""

    epoch: EpochId
    is_proven: bool
    seal: Seal | None


class Joined(NamedTuple):
    """The log of a restored broker says what it took over. ``used`` are placements that it knows
    to have been granted; ``unproven`` are epochs that it closed by (d)."""

    open: tuple[tuple[EpochId, int], ...]
    closed: frozenset[EpochId]
    next_number: int
    seals: tuple[Seal, ...]
    used: frozenset[int] = frozenset()
    unproven: frozenset[EpochId] = frozenset()


Event = Granted | Closed | Joined
Slot = tuple[str, int | tuple[int, str]]
"""Where an owner is kept: a region, and what names it there (its number, in production)."""


class Spent(NamedTuple):
    """The epochs that were opened and the faults that happened."""

    epochs: int = 0
    crashes: int = 0
    recreations: int = 0
    deafenings: int = 0
    cuts: int = 0
    restores: int = 0


class World(NamedTuple):
    """One state. ``grants`` is by placement.

    ``granted`` and ``closed`` are what any life of the broker ever logged, also what a restore
    forgot: a grant of it may still land, and the laws hold of what really was. ``joining`` is None
    but in a restored broker that has not joined its log with the stores: then it is the top number
    to revoke, 0 before the first look.
    """

    log: tuple[Event, ...]
    granted: frozenset[Granted]
    closed: frozenset[tuple[EpochId, bool]]
    joining: int | None
    grants: tuple[EpochId | None, ...]
    owners: frozenset[tuple[Slot, Started | Revoked]]
    late: frozenset[tuple[Slot, Started]]
    fences: frozenset[EpochId]
    saved: frozenset[tuple[EpochId, int]]
    gangs: tuple[Gang, ...]
    cut: str | None
    spent: Spent


class Folded(NamedTuple):
    """What a log says: the open epochs and their placements, seals, lineage, the next number."""

    open: tuple[tuple[EpochId, int], ...]
    closed: frozenset[EpochId]
    unproven: frozenset[EpochId]
    seals: tuple[Seal, ...]
    last_number: int
    used: frozenset[int]


@by_identity
def fold(log: tuple[Event, ...]) -> Folded:
    """Read a log."""
    open_epochs: dict[EpochId, int] = {}
    closed: set[EpochId] = set()
    unproven: set[EpochId] = set()
    seals: dict[EpochId, Seal] = {}
    last_number = 0
    used: set[int] = set()
    for event in log:
        match event:
            case Granted():
                open_epochs[event.epoch] = event.placement
                used.add(event.placement)
                last_number = event.epoch.number
            case Closed():
                open_epochs.pop(event.epoch, None)
                closed.add(event.epoch)
                if not event.is_proven:
                    unproven.add(event.epoch)
                if event.seal is not None:
                    seals[event.epoch] = event.seal
            case Joined():
                for epoch in event.closed:
                    open_epochs.pop(epoch, None)
                closed |= event.closed
                open_epochs.update(event.open)
                used |= event.used | {placement for _, placement in event.open}
                unproven |= event.unproven
                seals = {seal.epoch: seal for seal in event.seals}
                last_number = event.next_number - 1
    return Folded(
        open=tuple(open_epochs.items()),
        closed=frozenset(closed),
        unproven=frozenset(unproven),
        seals=tuple(seals.values()),
        last_number=last_number,
        used=frozenset(used),
    )


def logged(world: World, event: Granted | Closed | Joined) -> World:
    """Append to the broker's log, and to what ever was."""
    granted, closed = world.granted, world.closed
    match event:
        case Granted():
            granted |= {event}
        case Closed():
            closed |= {(event.epoch, event.is_proven)}
        case Joined():
            closed |= {(epoch, True) for epoch in event.closed}
    return world._replace(log=(*world.log, event), granted=granted, closed=closed)


def compacted(world: World, bounds: Bounds) -> World:
    """Forget what nothing can depend on any more, so that more ways meet.

    A log that will not be cut by a restore is what it folds to. A grant that finds its place taken
    cannot land.
    """
    granted = _needed(world.granted, world.grants, world.closed, world.log)
    log = world.log
    if world.joining is None and log and world.spent.restores == bounds.restores:
        log = _folded_log(log)
    if log is world.log and granted is world.granted:
        return world
    return world._replace(log=log, granted=granted)


@by_identity
def _needed(
    granted: frozenset[Granted],
    grants: tuple[EpochId | None, ...],
    closed: frozenset[tuple[EpochId, bool]],
    log: tuple[Event, ...],
) -> frozenset[Granted]:
    """Keep the events of grants that are there or may come, and of epochs that are judged."""
    judged = {epoch for epoch, _ in fold(log).open} | {
        e for e, is_proven in closed if not is_proven
    }
    kept = frozenset(
        event
        for event in granted
        if grants[event.placement] in (None, event.epoch) or event.epoch in judged
    )
    return granted if len(kept) == len(granted) else kept


@by_identity
def _folded_log(log: tuple[Event, ...]) -> tuple[Event, ...]:
    if len(log) == 1 and isinstance(log[0], Joined):
        return log
    known = fold(log)
    return (
        Joined(
            open=tuple(sorted(known.open, key=repr)),
            closed=known.closed,
            next_number=known.last_number + 1,
            seals=known.seals,
            used=known.used,
            unproven=known.unproven,
        ),
    )


def nonce_of(placement: int, generation: int, rank: int) -> str:
    """Name one process."""
    return f"{placement}.{generation}.{rank}"


def start(bounds: Bounds) -> World:
    """Return the first state: every placement's gang stands at its gate, nothing is granted."""
    return World(
        log=(),
        granted=frozenset(),
        closed=frozenset(),
        joining=None,
        grants=tuple(None for _ in bounds.regions),
        owners=frozenset(),
        late=frozenset(),
        fences=frozenset(),
        saved=frozenset(),
        gangs=tuple(Gang(p, 0, (AT_GATE, AT_GATE), False) for p in range(len(bounds.regions))),
        cut=None,
        spent=Spent(),
    )
