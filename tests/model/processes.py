"""What the processes of gangs, and the clusters that hold them, can do next.

The rule: what a process decides comes from the rules; that it dies, is cut off or is brought back
is bad luck within the bounds. Read ``process_moves`` first.
"""

from collections.abc import Iterator

from regions.launcher import rules as production
from tests.model.rules import sorted_steps
from tests.model.turn import ABSENT, Move, Turn, killed, with_gang, with_status
from tests.model.world import (
    AT_GATE,
    OVER,
    PREPARING,
    TRAINING,
    Creating,
    Gang,
    Status,
    World,
)


def process_moves(turn: Turn, index: int, rank: int) -> Iterator[Move]:
    """Yield what one process of one gang can do."""
    gang = turn.world.gangs[index]
    status = gang.ranks[rank]
    if status == OVER:
        return
    name = f"p{gang.placement} rank {rank}" + "'" * gang.generation
    yield from _dies(turn, index, rank, name)
    if gang.is_deaf:
        if status == TRAINING:
            yield f"{name} exits, unheard", with_status(turn.world, index, rank, OVER)
    elif isinstance(status, Creating):
        landed = with_status(turn.world, index, rank, AT_GATE)
        slot = turn.slot(gang.placement)
        if slot not in turn.owners:
            landed = landed._replace(owners=landed.owners | {(slot, status.owner)})
        yield f"{name} creates the owner, and does not hear whether it won", landed
    elif status == TRAINING:
        yield from _trains(turn, index, rank, name)
    else:
        yield from _at_gate(turn, index, rank, name)


def _dies(turn: Turn, index: int, rank: int, name: str) -> Iterator[Move]:
    spent = _one_more_crash(turn)
    if spent is None:
        return
    dead = with_status(spent, index, rank, OVER)
    yield f"{name} dies", dead
    gang = turn.world.gangs[index]
    if isinstance(gang.ranks[rank], Creating):
        late = turn.late_with(gang)
        yield f"{name} dies, its create of the owner still on its way", dead._replace(late=late)


def _at_gate(turn: Turn, index: int, rank: int, name: str) -> Iterator[Move]:
    world, gang = turn.world, turn.world.gangs[index]

    def become(status: Status) -> World:
        return with_status(world, index, rank, status)

    match turn.rules.next_step(turn.standing(gang, rank, is_late=False)):
        case production.CreateOwner(owner=owner):
            yield f"{name} sees the gang whole, and lists it", become(Creating(owner))
        case production.Prepare():
            yield f"{name} is let pass, and prepares", become(PREPARING)
        case production.Run():
            yield f"{name} trains", become(TRAINING)
        case production.Leave(cause=cause):
            yield f"{name} leaves: {cause.value}", become(OVER)
        case production.Wait():
            spent = _one_more_crash(turn)
            if spent is not None and isinstance(
                turn.rules.next_step(turn.standing(gang, rank, is_late=True)), production.Leave
            ):
                yield f"{name} gives up waiting", with_status(spent, index, rank, OVER)


def _trains(turn: Turn, index: int, rank: int, name: str) -> Iterator[Move]:
    world, gang = turn.world, turn.world.gangs[index]
    epoch = world.grants[gang.placement]
    assert epoch is not None
    ended = with_status(world, index, rank, OVER)
    if isinstance(turn.rules.next_watch(turn.fence(epoch), ABSENT, False), production.Stop):
        yield f"{name} hears the fence, and stops", ended
    else:
        yield f"{name} exits", ended
    step = len(sorted_steps(world, epoch)) + 1
    if rank == 0 and step <= turn.bounds.checkpoints:
        yield f"{name} saves step {step}", world._replace(saved=world.saved | {(epoch, step)})


def cluster_moves(turn: Turn, index: int) -> Iterator[Move]:
    """Yield what can happen to one gang as a whole."""
    world, bounds = turn.world, turn.bounds
    gang = world.gangs[index]
    name = f"p{gang.placement}" + "'" * gang.generation
    if gang.is_deaf:
        yield f"{name} hears again", with_gang(world, index, gang._replace(is_deaf=False))
    elif TRAINING in gang.ranks and world.spent.deafenings < bounds.deafenings:
        spent = world.spent._replace(deafenings=world.spent.deafenings + 1)
        deaf = with_gang(world._replace(spent=spent), index, gang._replace(is_deaf=True))
        yield f"{name} is cut off from everybody", deaf
    is_newest = not any(
        other.placement == gang.placement and other.generation > gang.generation
        for other in world.gangs
    )
    if is_newest and world.spent.recreations < bounds.recreations:
        spent = world.spent._replace(recreations=world.spent.recreations + 1)
        fresh = Gang(gang.placement, gang.generation + 1, (AT_GATE, AT_GATE), False)
        # A gang that is cut off cannot be killed either: it trains on as a zombie.
        old = gang if gang.is_deaf else killed(gang)
        evicted = world._replace(spent=spent, late=turn.late_with(gang))
        yield f"{name} is evicted and brought back", with_gang(evicted, index, old, (fresh,))


def _one_more_crash(turn: Turn) -> World | None:
    world = turn.world
    if world.spent.crashes >= turn.bounds.crashes:
        return None
    return world._replace(spent=world.spent._replace(crashes=world.spent.crashes + 1))
