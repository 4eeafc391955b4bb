"""Everything that can happen next in the modelled world, one move at a time.

The rule: what a process or a broker *decides* comes from the rules it is given; what the network,
the clusters and bad luck do is all tried. A message that is late or lost is one whose move comes
late or never, and a repeated one changes nothing, since every write is a create-if-absent. Read
``moves`` first.
"""

from collections.abc import Iterator

from tests.model.broker import broker_moves
from tests.model.processes import cluster_moves, process_moves
from tests.model.rules import Rules
from tests.model.turn import Move, Turn, owners_of
from tests.model.world import RANKS, Bounds, World


def moves(world: World, bounds: Bounds, rules: Rules) -> Iterator[Move]:
    """Yield every move from a state, each with a sentence that says what happens."""
    turn = Turn(world, bounds, rules, owners_of(world.owners))
    for index in range(len(world.gangs)):
        for rank in RANKS:
            yield from process_moves(turn, index, rank)
        yield from cluster_moves(turn, index)
    yield from _network(turn)
    yield from broker_moves(turn)
    yield from _disasters(turn)


def _network(turn: Turn) -> Iterator[Move]:
    world = turn.world
    for event in world.granted:
        if world.grants[event.placement] is None:
            grants = list(world.grants)
            grants[event.placement] = event.epoch
            yield (
                f"the grant of epoch {event.epoch.name} lands at p{event.placement}",
                world._replace(grants=tuple(grants)),
            )
    for slot, owner in world.late:
        late = world.late - {(slot, owner)}
        landed = world.owners if slot in turn.owners else world.owners | {(slot, owner)}
        yield (
            f"a late create of the owner of {slot} lands",
            world._replace(late=late, owners=landed),
        )


def _disasters(turn: Turn) -> Iterator[Move]:
    world, bounds = turn.world, turn.bounds
    if world.cut is not None:
        yield f"region {world.cut} answers again", world._replace(cut=None)
    elif world.spent.cuts < bounds.cuts:
        spent = world.spent._replace(cuts=world.spent.cuts + 1)
        for region in sorted(set(bounds.regions)):
            yield f"the broker loses region {region}", world._replace(cut=region, spent=spent)
    if world.spent.garbles < bounds.garbles:
        spent = world.spent._replace(garbles=world.spent.garbles + 1)
        for slot in turn.owners:
            yield (
                f"a disk garbles the owner of {slot}",
                world._replace(garbled=world.garbled | {slot}, spent=spent),
            )
    if world.spent.restores < bounds.restores:
        spent = world.spent._replace(restores=world.spent.restores + 1)
        for kept in range(len(world.log)):
            yield (
                f"the broker is restored from a backup of {kept} events",
                world._replace(log=world.log[:kept], joining=0, spent=spent),
            )
