"""One state of the modelled world: stores, processes, the broker's log, and what is in flight.

The rule: a state holds only what the future can depend on, as tuples that hash and compare, so that
two ways to the same situation meet. Everything the broker does is a function of its log and of what
it reads, so a broker that crashes between writing and acting is in here without a state of its own.
Read ``World`` first.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from regions.launcher.layout import EpochId, Revoked, Seal, Started
from regions.launcher.rules import How

RANKS = (0, 1)

AT_GATE = "gate"
PREPARING = "preparing"
TRAINING = "training"
ENDED = "ended"  # its end report is in the store
GONE = "gone"  # it died, and its cluster sees that it is gone
OVER = (ENDED, GONE)


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
    """The log says that an epoch closed, and what of it counts."""

    epoch: EpochId
    how: How
    seal: Seal | None


class Joined(NamedTuple):
    """The log of a restored broker says what it took over."""

    open: tuple[tuple[EpochId, int], ...]
    closed: frozenset[EpochId]
    next_number: int
    seals: tuple[Seal, ...]


Event = Granted | Closed | Joined
Slot = tuple[str, object]
"""Where an owner is kept: a region, and what names it there (its number, in production)."""


class Spent(NamedTuple):
    """The faults that happened."""

    crashes: int = 0
    recreations: int = 0
    deafenings: int = 0
    cuts: int = 0
    restores: int = 0


class World(NamedTuple):
    """One state. ``grants`` is by placement, ``lost`` holds what a restore forgot."""

    log: tuple[Event, ...]
    lost: tuple[Event, ...]
    is_joined: bool
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


@lru_cache(maxsize=None)
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
                if event.how is How.UNREACHABLE:
                    unproven.add(event.epoch)
                if event.seal is not None:
                    seals[event.epoch] = event.seal
            case Joined():
                for epoch in event.closed:
                    open_epochs.pop(epoch, None)
                closed |= event.closed
                open_epochs.update(event.open)
                used |= {placement for _, placement in event.open}
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


def granted_events(world: World) -> tuple[Granted, ...]:
    """Return every grant that any life of the broker ever logged."""
    return tuple(event for event in (*world.log, *world.lost) if isinstance(event, Granted))


def nonce_of(placement: int, generation: int, rank: int) -> str:
    """Name one process."""
    return f"{placement}.{generation}.{rank}"


def start(bounds: Bounds) -> World:
    """Return the first state: every placement's gang stands at its gate, nothing is granted."""
    return World(
        log=(),
        lost=(),
        is_joined=True,
        grants=tuple(None for _ in bounds.regions),
        owners=frozenset(),
        late=frozenset(),
        fences=frozenset(),
        saved=frozenset(),
        gangs=tuple(Gang(p, 0, (AT_GATE, AT_GATE), False) for p in range(len(bounds.regions))),
        cut=None,
        spent=Spent(),
    )
