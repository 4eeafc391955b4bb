"""One state of the modelled world: stores, processes, the broker's log, and what is in flight.

The rule: a state holds only what the future can depend on, as tuples that hash and compare, so that
two ways to the same situation meet. Everything the broker does is a function of its log and of what
it reads, so a broker that crashes between writing and acting is in here without a state of its own.
Read ``World`` first.
"""

from dataclasses import dataclass
from typing import NamedTuple

from regions.launcher.layout import EpochId, Revoked, Started
from tests.model.identity import by_identity
from tests.model.logbook import Granted, Log, condensed, key, run_of

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
    garbles: int
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
    garbles: int = 0


class World(NamedTuple):
    """One state. ``grants`` is by placement.

    ``granted`` and ``closed`` are what any life of the broker ever logged, also what a restore
    forgot: a grant of it may still land, and the laws hold of what really was. ``joining`` is None
    but in a restored broker that has not joined its log with the stores: then it is the top number
    to revoke, 0 before the first look. ``garbled`` are owners that nobody can read any more.
    """

    log: Log
    granted: frozenset[Granted]
    closed: frozenset[tuple[EpochId, bool]]
    joining: int | None
    grants: tuple[EpochId | None, ...]
    owners: frozenset[tuple[Slot, Started | Revoked]]
    garbled: frozenset[Slot]
    late: frozenset[tuple[Slot, Started]]
    fences: frozenset[EpochId]
    saved: frozenset[tuple[EpochId, int]]
    gangs: tuple[Gang, ...]
    cut: str | None
    spent: Spent


def compacted(world: World, bounds: Bounds) -> World:
    """Forget what nothing can depend on any more, so that more ways meet.

    Of a log that will not be cut by a restore only what it comes to matters. A grant that finds its
    place taken cannot land.
    """
    granted = _needed(world.granted, world.grants, world.closed, world.log)
    log = world.log
    if world.joining is None and log and world.spent.restores == bounds.restores:
        log = condensed(log)
    if log is world.log and granted is world.granted:
        return world
    return world._replace(log=log, granted=granted)


@by_identity
def _needed(
    granted: frozenset[Granted],
    grants: tuple[EpochId | None, ...],
    closed: frozenset[tuple[EpochId, bool]],
    log: Log,
) -> frozenset[Granted]:
    """Keep the events of grants that are there or may come, and of epochs that are judged."""
    judged = {key(epoch.id) for epoch in run_of(log).epochs if epoch.is_open or epoch.is_owed}
    judged |= {epoch for epoch, is_proven in closed if not is_proven}
    kept = frozenset(
        event
        for event in granted
        if grants[event.placement] in (None, event.epoch) or event.epoch in judged
    )
    return granted if len(kept) == len(granted) else kept


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
        garbled=frozenset(),
        late=frozenset(),
        fences=frozenset(),
        saved=frozenset(),
        gangs=tuple(Gang(p, 0, (AT_GATE, AT_GATE), False) for p in range(len(bounds.regions))),
        cut=None,
        spent=Spent(),
    )
