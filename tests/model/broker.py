"""What the broker can do next: open an epoch, close one, withdraw, wake up from a backup.

The rule: it acts on its log and on what it reads, by the rules; everything it wishes (cancels,
moves, amends) is one wish, to close what is open, at any time. Read ``broker_moves`` first.
"""

from collections.abc import Iterator

from regions.launcher import restore, seals
from regions.launcher import rules as production
from regions.launcher.layout import EpochId, Revoked, Seal, Started
from regions.launcher.reading import Reading, Unreachable
from regions.launcher.rules import Evidence, How, Owner, Wish
from tests.model.rules import sorted_steps
from tests.model.turn import ABSENT, KEYS, Move, Turn, grant_of, killed, with_gang
from tests.model.world import (
    OVER,
    RANKS,
    Closed,
    Granted,
    Joined,
    Slot,
    fold,
    logged,
    nonce_of,
)

_REVOKED = Revoked(by="broker")
_UNKNOWN = "00000000"


def broker_moves(turn: Turn) -> Iterator[Move]:
    """Yield what the broker can do."""
    if turn.world.joining is not None:
        yield from _join(turn)
        return
    known = fold(turn.world.log)
    if not known.open and turn.world.spent.epochs < turn.bounds.epochs:
        yield from _grants(turn)
    for epoch, placement in known.open:
        yield from _judge(turn, epoch, placement)
    for epoch in known.unproven:
        # What was owed when the region did not answer.
        yield from _judge(turn, epoch, turn.event(epoch).placement)
    for index in range(len(turn.world.gangs)):
        yield from _withdraw(turn, index)


def _grants(turn: Turn) -> Iterator[Move]:
    world, known = turn.world, fold(turn.world.log)
    epoch = EpochId(number=known.last_number + 1, nonce=f"{world.spent.restores + 1:08x}")
    lineage = {
        event.epoch: KEYS.checkpoint(*event.resume) if event.resume else None
        for event in world.granted
    }
    resume = turn.rules.resume(known.seals, lineage, world)
    # Mirror images are one: where two regions hold one placement each, the first grant goes to p0.
    is_mirrored = turn.bounds.regions == ("A", "B") and world.spent.epochs == 0
    spent = world.spent._replace(epochs=world.spent.epochs + 1)
    for placement, region in enumerate(turn.bounds.regions[: 1 if is_mirrored else None]):
        if placement not in known.used and region != world.cut:
            event = Granted(epoch, placement, resume, known.seals)
            yield (
                f"the broker logs: epoch {epoch.name} opens at p{placement}, from {resume}",
                logged(world._replace(spent=spent), event),
            )


def _judge(turn: Turn, epoch: EpochId, placement: int) -> Iterator[Move]:
    world, region = turn.world, turn.bounds.regions[placement]
    slot = (region, turn.rules.owner_name(epoch))
    evidence = _silence(epoch) if region == world.cut else _evidence(turn, epoch, slot)
    match turn.rules.judge(evidence, Wish.CLOSE):
        case production.TryRevoke() if slot not in turn.owners:
            owners = world.owners | {(slot, _REVOKED)}
            yield f"the broker revokes epoch {epoch.name}", world._replace(owners=owners)
        case production.WriteFence():
            fences = world.fences | {epoch}
            yield f"the broker fences epoch {epoch.name}", world._replace(fences=fences)
        case production.Closed(how=how) if epoch in dict(fold(world.log).open):
            for seal in _seals(turn, epoch, how):
                closed = Closed(epoch, how is not How.UNREACHABLE, seal)
                yield (
                    f"the broker logs: epoch {epoch.name} is closed ({how.value})",
                    logged(world, closed),
                )


def _silence(epoch: EpochId) -> Evidence:
    return Evidence(
        epoch=epoch,
        owner=Unreachable("cut"),
        fence=Unreachable("cut"),
        ended=frozenset(),
        gone=frozenset(),
        is_region_silent=True,
        go_on_by="policy",
    )


def _evidence(turn: Turn, epoch: EpochId, slot: Slot) -> Evidence:
    owner = turn.owners.get(slot)
    listed = owner.nonces if isinstance(owner, Started) else ()
    there = {
        nonce_of(gang.placement, gang.generation, rank)
        for gang in turn.world.gangs
        for rank in RANKS
        if gang.ranks[rank] != OVER
    }
    over = [nonce for nonce in listed if nonce not in there]
    return Evidence(
        epoch=epoch,
        owner=ABSENT if owner is None else owner,
        fence=turn.fence(epoch),
        # One reports its end, the other is seen gone: the rules must take both.
        ended=frozenset(nonce for nonce in over if nonce.endswith(".0")),
        gone=frozenset(nonce for nonce in over if not nonce.endswith(".0")),
        is_region_silent=False,
        go_on_by=None,
    )


def _seals(turn: Turn, epoch: EpochId, how: How) -> tuple[Seal | None, ...]:
    if how is How.REVOKED:
        return (None,)
    complete = [(step, f"{step:064x}") for _, step in sorted_steps(turn.world, epoch)]
    if how is not How.UNREACHABLE:
        return (seals.seal(epoch, (), complete),)
    # What the broker knows of a region that went silent: any part of what is there.
    parts = (complete[:count] for count in range(len(complete) + 1))
    return tuple(seals.seal(epoch, part, None) for part in parts)


def _withdraw(turn: Turn, index: int) -> Iterator[Move]:
    world, known = turn.world, fold(turn.world.log)
    gang = world.gangs[index]
    is_out_of_reach = gang.is_deaf or turn.bounds.regions[gang.placement] == world.cut
    if is_out_of_reach or all(status == OVER for status in gang.ranks):
        return
    if any(placement == gang.placement for _, placement in known.open):
        return
    is_closed = world.grants[gang.placement] in known.closed
    grant, owner = turn.grant(gang.placement), turn.owner(gang.placement)
    if turn.rules.may_withdraw(grant, owner, is_closed):
        gone = with_gang(world, index, killed(gang))
        yield f"the broker withdraws p{gang.placement}", gone._replace(late=turn.late_with(gang))


def _join(turn: Turn) -> Iterator[Move]:
    world, known = turn.world, fold(turn.world.log)
    if world.cut is not None:
        stores: tuple[restore.StoreSeen, ...] = ()
        unseen = frozenset({world.cut})
    else:
        stores = tuple(_seen(turn, region) for region in sorted(set(turn.bounds.regions)))
        unseen = frozenset()
    top = world.joining or 0
    if not unseen and not top:
        top = restore.top_number(known.last_number, stores, turn.bounds.margin)
        world = world._replace(joining=top)
    found = turn.rules.adopt(known.last_number, top, known.seals, stores, unseen)
    match found:
        case restore.Revocations(targets=targets):
            yield _revocations(turn._replace(world=world), targets)
        case restore.Adopted():
            joined = Joined(
                open=tuple((one.epoch, int(one.placement[1:])) for one in found.open),
                closed=found.closed,
                next_number=found.next_number,
                seals=found.seals,
            )
            yield (
                f"the restored broker takes over {joined.open}, next is {found.next_number}",
                logged(world._replace(joining=None), joined),
            )


def _revocations(turn: Turn, targets: tuple[tuple[str, int], ...]) -> Move:
    """Revoke the first target; those that no grant ever named cannot be raced, and come along."""
    world = turn.world
    named = {(turn.bounds.regions[event.placement], event.epoch.number) for event in world.granted}
    chosen = [*(t for t in targets if t in named)][:1] + [t for t in targets if t not in named]
    slots = {
        (region, turn.rules.owner_name(EpochId(number=number, nonce=_UNKNOWN)))
        for region, number in chosen
    }
    owners = world.owners | {(slot, _REVOKED) for slot in slots}
    return f"the restored broker revokes {chosen}", world._replace(owners=owners)


def _seen(turn: Turn, region: str) -> restore.StoreSeen:
    by_number: dict[int, Reading[Owner]] = {}
    for (where, name), owner in turn.owners.items():
        number = name if isinstance(name, int) else name[0]
        if where == region and not isinstance(by_number.get(number), Started):
            by_number[number] = owner
    grants = tuple(
        grant_of(turn.event(epoch))
        for placement, epoch in enumerate(turn.world.grants)
        if epoch is not None and turn.bounds.regions[placement] == region
    )
    return restore.StoreSeen(region=region, owners=by_number, grants=grants)
