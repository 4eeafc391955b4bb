"""What the broker can do next: open an epoch, close one, withdraw, wake up from a backup.

The rule: it acts on its log and on what it reads, by the rules; everything it wishes (cancels,
moves, amends) is one wish, to close what is open, at any time. What becomes of its log is in
``logbook``. Read ``broker_moves`` first.
"""

from collections.abc import Iterator

from broker.loops.restoring import Place, settled, taken_over
from regions.launcher import restore
from regions.launcher import rules as production
from regions.launcher.layout import EpochId, Revoked, Started
from regions.launcher.reading import Reading, Unreachable
from regions.launcher.rules import Evidence, How, Owner, Wish
from tests.model.logbook import (
    NONCES,
    NOW,
    carried,
    closed,
    key,
    leg_of,
    opened,
    run_of,
    site_of,
    tell,
)
from tests.model.turn import Move, Turn, grant_of, killed, with_gang
from tests.model.world import OVER, RANKS, Slot, nonce_of

_REVOKED = Revoked(by="broker")
_UNKNOWN = "00000000"


def broker_moves(turn: Turn) -> Iterator[Move]:
    """Yield what the broker can do."""
    if turn.world.spent.epochs < turn.bounds.epochs:
        yield from _grants(turn)
    if turn.world.joining is not None:
        yield from _join(turn)
        return
    for epoch in run_of(turn.world.log).epochs:
        # Also one that owes its fence, since its region did not answer when it was closed.
        if epoch.is_open or epoch.is_owed:
            yield from _judge(turn, key(epoch.id), int(epoch.placement[1:]))
    for index in range(len(turn.world.gangs)):
        yield from _withdraw(turn, index)


def _grants(turn: Turn) -> Iterator[Move]:
    """Try a grant at every placement: it is the log that refuses one beside an open epoch, and
    one that comes before a restored broker has seen the stores."""
    world, is_joining = turn.world, turn.world.joining is not None
    # Mirror images are one: where two regions hold one placement each, the first grant goes to p0.
    is_mirrored = turn.bounds.regions == ("A", "B") and world.spent.epochs == 0
    spent = world.spent._replace(epochs=world.spent.epochs + 1)
    nonce = NONCES[world.spent.restores]
    for placement, region in enumerate(turn.bounds.regions[: 1 if is_mirrored else None]):
        if region == world.cut:
            continue
        leg = leg_of(placement, region, nonce)
        done = opened(turn.rules.decide, world.log, leg, world.saved, is_joining)
        if done is not None:
            log, event = done
            label = f"epoch {event.epoch.name} opens at p{placement}, from {event.resume}"
            logged = world._replace(spent=spent, log=log, granted=world.granted | {event})
            yield f"the broker logs: {label}", logged


def _judge(turn: Turn, epoch: EpochId, placement: int) -> Iterator[Move]:
    world, region = turn.world, turn.bounds.regions[placement]
    slot = (region, turn.rules.owner_name(epoch))
    evidence = _silence(epoch) if region == world.cut else _evidence(turn, epoch, slot)
    last = run_of(world.log).open_epoch
    match turn.rules.judge(evidence, Wish.CLOSE):
        case production.TryRevoke() if slot not in turn.owners:
            owners = world.owners | {(slot, _REVOKED)}
            yield f"the broker revokes epoch {epoch.name}", world._replace(owners=owners)
        case production.WriteFence():
            fences = world.fences | {epoch}
            yield f"the broker fences epoch {epoch.name}", world._replace(fences=fences)
        case production.Closed(how=how) if last is not None and key(last.id) == epoch:
            over = world.closed | {(epoch, how is not How.UNREACHABLE)}
            owner = turn.owners.get(slot)
            started = owner if isinstance(owner, Started) else None
            for log in closed(turn.rules.decide, world.log, how, started, world.saved):
                yield (
                    f"the broker logs: epoch {epoch.name} is closed ({how.value})",
                    world._replace(log=log, closed=over),
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
    owner = turn.read(slot)
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
        owner=owner,
        fence=turn.fence(epoch),
        # One reports its end, the other is seen gone: the rules must take both.
        ended=frozenset(nonce for nonce in over if nonce.endswith(".0")),
        gone=frozenset(nonce for nonce in over if not nonce.endswith(".0")),
        is_region_silent=False,
        go_on_by=None,
    )


def _withdraw(turn: Turn, index: int) -> Iterator[Move]:
    world, run = turn.world, run_of(turn.world.log)
    gang = world.gangs[index]
    is_out_of_reach = gang.is_deaf or turn.bounds.regions[gang.placement] == world.cut
    if is_out_of_reach or all(status == OVER for status in gang.ranks):
        return
    last = run.open_epoch
    if last is not None and last.placement == f"p{gang.placement}":
        return
    granted = world.grants[gang.placement]
    is_closed = any(key(epoch.id) == granted and not epoch.is_open for epoch in run.epochs)
    grant, owner = turn.grant(gang.placement), turn.owner(gang.placement)
    if turn.rules.may_withdraw(grant, owner, is_closed):
        gone = with_gang(world, index, killed(gang))
        yield f"the broker withdraws p{gang.placement}", gone._replace(late=turn.late_with(gang))


def _join(turn: Turn) -> Iterator[Move]:
    world, run = turn.world, run_of(turn.world.log)
    last_number = run.next_epoch - 1
    if world.cut is not None:
        stores: tuple[restore.StoreSeen, ...] = ()
        unseen = frozenset({world.cut})
    else:
        stores = tuple(_seen(turn, region) for region in sorted(set(turn.bounds.regions)))
        unseen = frozenset()
    top = world.joining or 0
    if not unseen and not top:
        top = restore.top_number(last_number, stores, turn.bounds.margin)
        world = world._replace(joining=top)
    found = turn.rules.adopt(
        last_number, top, carried(world.log), stores, unseen, settled=settled(run)
    )
    match found:
        case restore.Revocations(targets=targets):
            yield _revocations(turn._replace(world=world), targets)
        case restore.Adopted():
            yield _taken_over(turn, stores, found)


def _taken_over(turn: Turn, stores: tuple[restore.StoreSeen, ...], found: restore.Adopted) -> Move:
    world = turn.world
    grants = {grant.epoch: grant for store in stores for grant in store.grants}
    places = {
        one.placement: Place(site=site_of(int(one.placement[1:]), one.region), nodes=())
        for one in (*found.over, *found.open)
    }
    told = taken_over(run_of(world.log), found, grants, places, NOW)
    _, batches = tell(turn.rules.decide, run_of(world.log), *told)
    names = [one.epoch.name for one in found.open]
    return (
        f"the restored broker takes over {names}, next is {found.next_number}",
        world._replace(
            joining=None,
            log=(*world.log, *batches),
            closed=world.closed | {(epoch, True) for epoch in found.closed},
        ),
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
    for slot in turn.owners:
        where, name = slot
        number = name if isinstance(name, int) else name[0]
        if where == region and not isinstance(by_number.get(number), Started):
            by_number[number] = turn.read(slot)
    grants = tuple(
        grant_of(turn.event(epoch))
        for placement, epoch in enumerate(turn.world.grants)
        if epoch is not None and turn.bounds.regions[placement] == region
    )
    return restore.StoreSeen(region=region, owners=by_number, grants=grants)
