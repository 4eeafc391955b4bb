"""Everything that can happen next in the modelled world, one move at a time.

The rule: what a process or a broker *decides* comes from the rules it is given, on readings built
here; what the network, the clusters and bad luck do is all tried. A message that is late or lost is
one whose move comes late or never. Read ``moves`` first.
"""

from collections.abc import Iterator
from functools import lru_cache

from regions.launcher import restore
from regions.launcher import rules as production
from regions.launcher.layout import (
    EpochId,
    Fence,
    Gate,
    Grant,
    Revoked,
    RunKeys,
    Seal,
    Started,
)
from regions.launcher.reading import Absent, Reading, Unreachable
from regions.launcher.rules import Evidence, GateWatch, Owner, Sighting, Standing, Wish
from tests.model.rules import Rules, sorted_steps
from tests.model.world import (
    AT_GATE,
    OVER,
    PREPARING,
    RANKS,
    TRAINING,
    Bounds,
    Closed,
    Creating,
    Gang,
    Granted,
    Joined,
    Slot,
    Status,
    World,
    fold,
    logged,
    nonce_of,
)

Move = tuple[str, World]
_KEYS = RunKeys("run")
_REVOKED = Revoked(by="broker")
_FENCE = Fence(reason="closed")
_UNKNOWN = "00000000"


def moves(world: World, bounds: Bounds, rules: Rules) -> Iterator[Move]:
    """Yield every move from a state, each with a sentence that says what happens."""
    owners = dict(world.owners)
    for index, gang in enumerate(world.gangs):
        for rank in RANKS:
            yield from _process(world, bounds, rules, owners, index, gang, rank)
        yield from _gang(world, bounds, rules, index, gang)
    yield from _network(world, bounds, owners)
    if world.joining is None:
        yield from _broker(world, bounds, rules, owners)
    else:
        yield from _join(world, bounds, rules, owners)
    yield from _disasters(world, bounds)


# ---- Processes ----------------------------------------------------------------------------------


def _process(
    world: World,
    bounds: Bounds,
    rules: Rules,
    owners: dict[Slot, Owner],
    index: int,
    gang: Gang,
    rank: int,
) -> Iterator[Move]:
    status = gang.ranks[rank]
    if status == OVER:
        return
    name = f"p{gang.placement} rank {rank}" + "'" * gang.generation

    def become(new: Status) -> World:
        return _with_status(world, index, rank, new)

    if world.spent.crashes < bounds.crashes:
        spent = world.spent._replace(crashes=world.spent.crashes + 1)
        yield f"{name} dies", become(OVER)._replace(spent=spent)
        if isinstance(status, Creating):
            slot = _slot(world, bounds, rules, gang.placement)
            late = world.late | {(slot, status.owner)}
            yield (
                f"{name} dies, its create of the owner still on its way",
                become(OVER)._replace(spent=spent, late=late),
            )
    if gang.is_deaf:
        if status == TRAINING:
            yield f"{name} exits, unheard", become(OVER)
        return
    if isinstance(status, Creating):
        slot = _slot(world, bounds, rules, gang.placement)
        landed = become(AT_GATE)
        if slot not in owners:
            landed = landed._replace(owners=world.owners | {(slot, status.owner)})
        yield f"{name} creates the owner, and does not hear whether it won", landed
    elif status == TRAINING:
        yield from _training(world, bounds, rules, gang, rank, name, become(OVER))
    else:
        yield from _at_gate(world, bounds, rules, owners, gang, rank, name, become)


def _at_gate(world, bounds, rules, owners, gang, rank, name, become) -> Iterator[Move]:  # type: ignore[no-untyped-def]
    for is_late in (False, True):
        step = rules.next_step(_standing(world, bounds, rules, owners, gang, rank, is_late))
        match step:
            case production.CreateOwner():
                yield f"{name} sees the gang whole, and lists it", become(Creating(step.owner))
            case production.Prepare():
                yield f"{name} is let pass, and prepares", become(PREPARING)
            case production.Run():
                yield f"{name} trains", become(TRAINING)
            case production.Leave() if step.cause is production.Cause.GATE_TIMEOUT:
                if world.spent.crashes < bounds.crashes:
                    spent = world.spent._replace(crashes=world.spent.crashes + 1)
                    yield f"{name} gives up waiting", become(OVER)._replace(spent=spent)
            case production.Leave():
                yield f"{name} leaves: {step.cause.value}", become(OVER)
            case _:
                continue
        return


def _training(world, bounds, rules, gang, rank, name, ended) -> Iterator[Move]:  # type: ignore[no-untyped-def]
    epoch = world.grants[gang.placement]
    fence: Reading[Fence] = _FENCE if epoch in world.fences else Absent()
    if isinstance(rules.next_watch(fence, Absent(), False), production.Stop):
        yield f"{name} hears the fence, and stops", ended
    else:
        yield f"{name} exits", ended
    if rank == 0:
        step = len(sorted_steps(world, epoch)) + 1
        if step <= bounds.checkpoints:
            saved = world.saved | {(epoch, step)}
            yield f"{name} saves step {step}", world._replace(saved=saved)


def _standing(world, bounds, rules, owners, gang, rank, is_late) -> Standing:  # type: ignore[no-untyped-def]
    epoch = world.grants[gang.placement]
    grant: Reading[Grant] = Absent()
    owner: Reading[Owner] = Absent()
    fence: Reading[Fence] = Absent()
    if epoch is not None:
        grant = _grant(_event_of(world, epoch))
        owner = owners.get(_slot(world, bounds, rules, gang.placement), Absent())
        fence = _FENCE if epoch in world.fences else Absent()
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
        grant=grant,
        owner=owner,
        fence=fence,
        is_prepared=gang.ranks[rank] == PREPARING,
        is_told_to_leave=False,
    )


@lru_cache(maxsize=None)
def _watch(gang: Gang) -> GateWatch:
    """What rank 0 of this gang has seen: old records lie still, who stands there moves."""
    sightings = [
        _sighting(gang.placement, generation, rank, None)
        for generation in range(gang.generation)
        for rank in RANKS
    ]
    for rank in RANKS:
        status = gang.ranks[rank]
        is_there = status == AT_GATE or isinstance(status, Creating)
        sightings.append(
            _sighting(gang.placement, gang.generation, rank, 1.0 if is_there else None)
        )
    return GateWatch(tuple(sightings))


def _sighting(placement: int, generation: int, rank: int, moved_at_s: float | None) -> Sighting:
    gate = Gate(rank=rank, nonce=nonce_of(placement, generation, rank), count=1)
    return Sighting(gate=gate, moved_at_s=moved_at_s)


# ---- Clusters and the network -------------------------------------------------------------------


def _gang(world: World, bounds: Bounds, rules: Rules, index: int, gang: Gang) -> Iterator[Move]:
    name = f"p{gang.placement}" + "'" * gang.generation
    if gang.is_deaf:
        healed = _with_gang(world, index, gang._replace(is_deaf=False))
        yield f"{name} hears again", healed
    elif TRAINING in gang.ranks and world.spent.deafenings < bounds.deafenings:
        spent = world.spent._replace(deafenings=world.spent.deafenings + 1)
        deaf = _with_gang(world, index, gang._replace(is_deaf=True))
        yield f"{name} is cut off from everybody", deaf._replace(spent=spent)
    is_newest = all(
        other.generation <= gang.generation
        for other in world.gangs
        if other.placement == gang.placement
    )
    if is_newest and world.spent.recreations < bounds.recreations:
        spent = world.spent._replace(recreations=world.spent.recreations + 1)
        old = gang if gang.is_deaf else _killed(gang)
        fresh = Gang(gang.placement, gang.generation + 1, (AT_GATE, AT_GATE), False)
        gangs = (*_replaced(world.gangs, index, old), fresh)
        yield (
            f"{name} is evicted and brought back",
            _tidy(
                world._replace(gangs=gangs, spent=spent, late=_late_of(world, bounds, rules, gang))
            ),
        )


def _network(world: World, bounds: Bounds, owners: dict[Slot, Owner]) -> Iterator[Move]:
    for event in sorted(world.granted, key=_by_epoch):
        if world.grants[event.placement] is None:
            grants = list(world.grants)
            grants[event.placement] = event.epoch
            yield (
                f"the grant of epoch {event.epoch.name} lands at p{event.placement}",
                world._replace(grants=tuple(grants)),
            )
    for slot, owner in sorted(world.late, key=repr):
        late = world.late - {(slot, owner)}
        landed = world.owners if slot in owners else world.owners | {(slot, owner)}
        yield (
            f"a late create of the owner of {slot} lands",
            world._replace(late=late, owners=landed),
        )


def _disasters(world: World, bounds: Bounds) -> Iterator[Move]:
    if world.cut is not None:
        yield f"region {world.cut} answers again", world._replace(cut=None)
    elif world.spent.cuts < bounds.cuts:
        spent = world.spent._replace(cuts=world.spent.cuts + 1)
        for region in sorted(set(bounds.regions)):
            yield f"the broker loses region {region}", world._replace(cut=region, spent=spent)
    if world.spent.restores < bounds.restores:
        spent = world.spent._replace(restores=world.spent.restores + 1)
        for kept in range(len(world.log)):
            yield (
                f"the broker is restored from a backup of {kept} events",
                world._replace(log=world.log[:kept], joining=0, spent=spent),
            )


# ---- The broker ---------------------------------------------------------------------------------


def _broker(
    world: World, bounds: Bounds, rules: Rules, owners: dict[Slot, Owner]
) -> Iterator[Move]:
    known = fold(world.log)
    if not known.open and world.spent.epochs < bounds.epochs:
        yield from _grants(world, bounds, rules)
    for epoch, placement in known.open:
        yield from _judge(world, bounds, rules, owners, epoch, placement)
    for epoch in sorted(known.unproven, key=repr):
        # What was owed when the region did not answer.
        placement = _event_of(world, epoch).placement
        yield from _judge(world, bounds, rules, owners, epoch, placement)
    for index, gang in enumerate(world.gangs):
        yield from _withdraw(world, bounds, rules, owners, index, gang)


def _grants(world: World, bounds: Bounds, rules: Rules) -> Iterator[Move]:
    known = fold(world.log)
    number = known.last_number + 1
    epoch = EpochId(number=number, nonce=f"{world.spent.restores + 1:08x}")
    lineage = {
        event.epoch: _KEYS.checkpoint(*event.resume) if event.resume else None
        for event in world.granted
    }
    resume = rules.resume(known.seals, lineage, world)
    spent = world.spent._replace(epochs=world.spent.epochs + 1)
    # Mirror images are one: where two regions hold one placement each, the first grant goes to p0.
    is_mirrored = bounds.regions == ("A", "B") and not world.granted
    for placement in range(1 if is_mirrored else len(bounds.regions)):
        if placement in known.used or bounds.regions[placement] == world.cut:
            continue
        event = Granted(epoch, placement, resume, known.seals)
        yield (
            f"the broker logs: epoch {epoch.name} opens at p{placement}, from {resume}",
            logged(world._replace(spent=spent), event),
        )


def _judge(
    world: World,
    bounds: Bounds,
    rules: Rules,
    owners: dict[Slot, Owner],
    epoch: EpochId,
    placement: int,
) -> Iterator[Move]:
    region = bounds.regions[placement]
    is_silent = region == world.cut
    slot = (region, rules.owner_name(epoch))
    verdict = rules.judge(_evidence(world, owners.get(slot), epoch, is_silent), Wish.CLOSE)
    match verdict:
        case production.TryRevoke():
            if slot not in owners:
                yield (
                    f"the broker revokes epoch {epoch.name}",
                    world._replace(owners=world.owners | {(slot, _REVOKED)}),
                )
        case production.WriteFence():
            yield (
                f"the broker fences epoch {epoch.name}",
                world._replace(fences=world.fences | {epoch}),
            )
        case production.Closed() if epoch in dict(fold(world.log).open):
            is_proven = verdict.how is not production.How.UNREACHABLE
            for seal in _seals(world, epoch, verdict.how):
                yield (
                    f"the broker logs: epoch {epoch.name} is closed ({verdict.how.value})",
                    logged(world, Closed(epoch, is_proven, seal)),
                )


def _evidence(world: World, owner: Owner | None, epoch: EpochId, is_silent: bool) -> Evidence:
    if is_silent:
        silence = Unreachable("cut")
        return Evidence(
            epoch=epoch,
            owner=silence,
            fence=silence,
            ended=frozenset(),
            gone=frozenset(),
            is_region_silent=True,
            go_on_by="policy",
        )
    listed = owner.nonces if isinstance(owner, Started) else ()
    statuses = {
        nonce_of(gang.placement, gang.generation, rank): gang.ranks[rank]
        for gang in world.gangs
        for rank in RANKS
    }
    over = [nonce for nonce in listed if statuses.get(nonce, OVER) == OVER]
    return Evidence(
        epoch=epoch,
        owner=Absent() if owner is None else owner,
        fence=_FENCE if epoch in world.fences else Absent(),
        # One reports its end, the other is seen gone: the rules must take both.
        ended=frozenset(nonce for nonce in over if nonce.endswith(".0")),
        gone=frozenset(nonce for nonce in over if not nonce.endswith(".0")),
        is_region_silent=False,
        go_on_by=None,
    )


def _seals(world: World, epoch: EpochId, how: production.How) -> tuple[Seal | None, ...]:
    if how is production.How.REVOKED:
        return (None,)
    complete = [(step, f"{step:064x}") for _, step in sorted_steps(world, epoch)]
    if how is not production.How.UNREACHABLE:
        return (production.seal(epoch, (), complete),)
    # What the broker knows of a region that went silent: any part of what is there.
    known = (complete[:count] for count in range(len(complete) + 1))
    return tuple(production.seal(epoch, part, None) for part in known)


def _withdraw(
    world: World,
    bounds: Bounds,
    rules: Rules,
    owners: dict[Slot, Owner],
    index: int,
    gang: Gang,
) -> Iterator[Move]:
    region, known = bounds.regions[gang.placement], fold(world.log)
    if region == world.cut or gang.is_deaf or all(status == OVER for status in gang.ranks):
        return
    if gang.placement in dict((placement, epoch) for epoch, placement in known.open):
        return
    epoch = world.grants[gang.placement]
    grant: Reading[Grant] = Absent() if epoch is None else _grant(_event_of(world, epoch))
    owner: Reading[Owner] = Absent()
    if epoch is not None:
        owner = owners.get((region, rules.owner_name(epoch)), Absent())
    if rules.may_withdraw(grant, owner, epoch in known.closed):
        gone = _with_gang(world, index, _killed(gang))
        yield (
            f"the broker withdraws p{gang.placement}",
            _tidy(gone._replace(late=_late_of(world, bounds, rules, gang))),
        )


def _join(world: World, bounds: Bounds, rules: Rules, owners: dict[Slot, Owner]) -> Iterator[Move]:
    known = fold(world.log)
    stores = tuple(_seen(world, bounds, owners, region) for region in sorted(set(bounds.regions)))
    unseen = frozenset() if world.cut is None else frozenset({world.cut})
    if world.joining == 0 and not unseen:
        top = restore.top_number(known.last_number, stores, bounds.margin)
        world = world._replace(joining=top)
    found = rules.adopt(known.last_number, world.joining, known.seals, stores, unseen)
    match found:
        case restore.Revocations():
            yield _revocations(world, bounds, rules, found.targets)
        case restore.Adopted():
            joined = Joined(
                open=tuple((one.epoch, int(one.placement[1:])) for one in found.open),
                closed=frozenset(found.closed),
                next_number=found.next_number,
                seals=found.seals,
            )
            yield (
                f"the restored broker takes over {joined.open}, next is {found.next_number}",
                logged(world._replace(joining=None), joined),
            )


def _revocations(
    world: World, bounds: Bounds, rules: Rules, targets: tuple[tuple[str, int], ...]
) -> Move:
    """Revoke the first target; those that no grant ever named cannot be raced, and come along."""
    named = {(bounds.regions[event.placement], event.epoch.number) for event in world.granted}
    chosen = [*(t for t in targets if t in named)][:1] + [t for t in targets if t not in named]
    slots = {
        (region, rules.owner_name(EpochId(number=number, nonce=_UNKNOWN)))
        for region, number in chosen
    }
    return (
        f"the restored broker revokes {chosen}",
        world._replace(owners=world.owners | {(slot, _REVOKED) for slot in slots}),
    )


def _seen(
    world: World, bounds: Bounds, owners: dict[Slot, Owner], region: str
) -> restore.StoreSeen:
    by_number: dict[int, Reading[Owner]] = {}
    for (where, name), owner in owners.items():
        number = name if isinstance(name, int) else name[0]  # type: ignore[index]
        if where == region and not isinstance(by_number.get(number), Started):
            by_number[number] = owner
    grants = tuple(
        _grant(_event_of(world, epoch))
        for placement, epoch in enumerate(world.grants)
        if epoch is not None and bounds.regions[placement] == region
    )
    return restore.StoreSeen(region=region, owners=by_number, grants=grants)


# ---- Small parts --------------------------------------------------------------------------------


def _by_epoch(event: Granted) -> tuple[int, str]:
    return event.epoch.number, event.epoch.nonce


def _event_of(world: World, epoch: EpochId) -> Granted:
    return next(event for event in world.granted if event.epoch == epoch)


@lru_cache(maxsize=None)
def _grant(event: Granted) -> Grant:
    return Grant(
        placement=f"p{event.placement}",
        epoch=event.epoch,
        world_size=len(RANKS),
        incarnation=int(event.epoch.nonce, 16),
        resume_from=_KEYS.checkpoint(*event.resume) if event.resume else None,
        bundle=None,
        seals=event.seals,
    )


def _slot(world: World, bounds: Bounds, rules: Rules, placement: int) -> Slot:
    epoch = world.grants[placement]
    assert epoch is not None
    return (bounds.regions[placement], rules.owner_name(epoch))


def _late_of(
    world: World, bounds: Bounds, rules: Rules, gang: Gang
) -> frozenset[tuple[Slot, Started]]:
    """What is still on its way when a gang is killed in mid-write."""
    creating = [status for status in gang.ranks if isinstance(status, Creating)]
    slots = {_slot(world, bounds, rules, gang.placement) for _ in creating}
    return world.late | {(slot, status.owner) for slot in slots for status in creating}


def _killed(gang: Gang) -> Gang:
    return gang._replace(ranks=tuple(OVER for _ in gang.ranks))


def _with_status(world: World, index: int, rank: int, status: Status) -> World:
    gang = world.gangs[index]
    ranks = (*gang.ranks[:rank], status, *gang.ranks[rank + 1 :])
    return _with_gang(world, index, gang._replace(ranks=ranks))


def _with_gang(world: World, index: int, gang: Gang) -> World:
    return _tidy(world._replace(gangs=_replaced(world.gangs, index, gang)))


def _replaced(gangs: tuple[Gang, ...], index: int, gang: Gang) -> tuple[Gang, ...]:
    return (*gangs[:index], gang, *gangs[index + 1 :])


def _tidy(world: World) -> World:
    """Forget gangs that are over and were brought back: nothing can come of them."""
    newest: dict[int, int] = {}
    for gang in world.gangs:
        newest[gang.placement] = max(newest.get(gang.placement, 0), gang.generation)
    kept = tuple(
        gang
        for gang in world.gangs
        if gang.generation == newest[gang.placement] or not all(s == OVER for s in gang.ranks)
    )
    return world._replace(gangs=tuple(sorted(kept, key=lambda g: (g.placement, g.generation))))
