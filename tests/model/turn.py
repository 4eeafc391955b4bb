"""What a move is made from: a state, the bounds and the rules, and the readings of them.

The rule: readings are what production would read, built from the state; they decide nothing. Read
``Turn`` first.
"""

from typing import NamedTuple

from regions.launcher.codec import Unreadable
from regions.launcher.freshness import GateWatch, Sighting
from regions.launcher.layout import EpochId, Fence, Gate, Grant, Revoked, RunKeys, Started
from regions.launcher.reading import Absent, Reading
from regions.launcher.rules import Owner, Standing
from tests.model.identity import by_identity
from tests.model.logbook import Granted
from tests.model.rules import Rules
from tests.model.world import (
    AT_GATE,
    OVER,
    PREPARING,
    RANKS,
    Bounds,
    Creating,
    Gang,
    Slot,
    Status,
    World,
    nonce_of,
)

Move = tuple[str, World]
KEYS = RunKeys("run")
FENCE = Fence(reason="closed")
ABSENT = Absent()
GARBLED = Unreadable("a disk made something else of it")


class Turn(NamedTuple):
    """One state whose moves are wanted."""

    world: World
    bounds: Bounds
    rules: Rules
    owners: dict[Slot, Owner]

    def slot(self, placement: int) -> Slot:
        """Where the owner of the epoch is, that the placement's grant names."""
        epoch = self.world.grants[placement]
        assert epoch is not None
        return (self.bounds.regions[placement], self.rules.owner_name(epoch))

    def event(self, epoch: EpochId) -> Granted:
        """The event by which an epoch was opened."""
        return next(event for event in self.world.granted if event.epoch == epoch)

    def grant(self, placement: int) -> Reading[Grant]:
        """What is read at a placement's grant."""
        epoch = self.world.grants[placement]
        return ABSENT if epoch is None else grant_of(self.event(epoch))

    def owner(self, placement: int) -> Reading[Owner]:
        """What is read at the owner of a placement's epoch."""
        if self.world.grants[placement] is None:
            return ABSENT
        return self.read(self.slot(placement))

    def read(self, slot: Slot) -> Reading[Owner]:
        """What is read at an owner."""
        return GARBLED if slot in self.world.garbled else self.owners.get(slot, ABSENT)

    def fence(self, epoch: EpochId | None) -> Reading[Fence]:
        """What is read at an epoch's fence."""
        return FENCE if epoch in self.world.fences else ABSENT

    def standing(self, gang: Gang, rank: int, *, is_late: bool) -> Standing:
        """All that a process knows after a look; ``is_late``: its time at the gate is over."""
        return Standing(
            rank=rank,
            nonce=nonce_of(gang.placement, gang.generation, rank),
            placement=f"p{gang.placement}",
            world_size=len(RANKS),
            now_s=1.0,
            since_s=-1.0 if is_late else 1.0,
            gate_timeout_s=1.0,
            fresh_s=1.0,
            watch=_watch(gang),
            grant=self.grant(gang.placement),
            owner=self.owner(gang.placement),
            fence=self.fence(self.world.grants[gang.placement]),
            is_prepared=gang.ranks[rank] == PREPARING,
            is_told_to_leave=False,
        )

    def late_with(self, gang: Gang) -> frozenset[tuple[Slot, Started]]:
        """What is on its way when a gang dies in mid-write."""
        creating = [status for status in gang.ranks if isinstance(status, Creating)]
        return self.world.late | {(self.slot(gang.placement), one.owner) for one in creating}


@by_identity
def owners_of(owners: frozenset[tuple[Slot, Started | Revoked]]) -> dict[Slot, Owner]:
    """Return the owners by where they are."""
    return dict(owners)


@by_identity
def grant_of(event: Granted) -> Grant:
    """Return the grant that an event stands for."""
    return Grant(
        placement=f"p{event.placement}",
        epoch=event.epoch,
        world_size=len(RANKS),
        incarnation=int(event.epoch.nonce, 16),
        resume_from=KEYS.checkpoint(*event.resume) if event.resume else None,
        bundle=None,
        seals=event.seals,
    )


def killed(gang: Gang) -> Gang:
    """Return the gang after its cluster killed it."""
    return gang._replace(ranks=tuple(OVER for _ in gang.ranks))


def with_status(world: World, index: int, rank: int, status: Status) -> World:
    """Return the state after one process changed."""
    gang = world.gangs[index]
    ranks = (*gang.ranks[:rank], status, *gang.ranks[rank + 1 :])
    return with_gang(world, index, gang._replace(ranks=ranks))


def with_gang(world: World, index: int, gang: Gang, fresh: tuple[Gang, ...] = ()) -> World:
    """Return the state after one gang changed and others came.

    Gangs that are over and were brought back are forgotten: nothing can come of them.
    """
    gangs = [*world.gangs[:index], gang, *world.gangs[index + 1 :], *fresh]
    newest: dict[int, int] = {}
    for one in gangs:
        newest[one.placement] = max(newest.get(one.placement, 0), one.generation)
    kept = [
        one
        for one in gangs
        if one.generation == newest[one.placement] or any(s != OVER for s in one.ranks)
    ]
    if fresh:
        kept.sort(key=lambda one: (one.placement, one.generation))
    return world._replace(gangs=tuple(kept))


@by_identity
def _watch(gang: Gang) -> GateWatch:
    """What rank 0 of this gang has seen: old records lie still, who stands there moves."""
    sightings = [
        _sighting(gang, generation, rank, None)
        for generation in range(gang.generation)
        for rank in RANKS
    ]
    for rank in RANKS:
        status = gang.ranks[rank]
        is_there = status == AT_GATE or isinstance(status, Creating)
        sightings.append(_sighting(gang, gang.generation, rank, 1.0 if is_there else None))
    return GateWatch(tuple(sightings))


def _sighting(gang: Gang, generation: int, rank: int, moved_at_s: float | None) -> Sighting:
    gate = Gate(rank=rank, nonce=nonce_of(gang.placement, generation, rank), count=1)
    return Sighting(gate=gate, moved_at_s=moved_at_s)
