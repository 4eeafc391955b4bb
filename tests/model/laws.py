"""What must hold in every state and over every move of the modelled world.

The rule: the laws watch from outside. They look at what really is, at every life of the broker and
at what it forgot, and not at what it believes. Read ``broken_law`` first.
"""

from regions.launcher.layout import EpochId, Revoked, Started
from tests.model.identity import by_identity
from tests.model.world import (
    OVER,
    TRAINING,
    Closed,
    Gang,
    Granted,
    Joined,
    Slot,
    World,
    fold,
)


def broken_law(before: World, label: str, after: World) -> str | None:
    """Return the sentence of the first law that a move breaks, or None."""
    found = None
    if after.gangs is not before.gangs:
        found = _two_train(after.gangs, after.grants, after.closed)
        if label.endswith(" trains"):
            found = found or _started_after_fence(before, after)
        elif "withdraws" in label:
            found = found or _killed_live(before, after)
    if after.owners is not before.owners or after.log is not before.log:
        found = found or _two_count(after.owners, after.closed) or _not_whole(after)
    if after.log is not before.log and len(after.log) > len(before.log):
        found = found or _bad_event(before, after)
    return found


def _ever_closed(world: World) -> frozenset[EpochId]:
    return frozenset(epoch for epoch, _ in world.closed)


def _two_train(
    gangs: tuple[Gang, ...],
    grants: tuple[EpochId | None, ...],
    closed: frozenset[tuple[EpochId, bool]],
) -> str | None:
    training = [gang for gang in gangs if TRAINING in gang.ranks]
    if len(training) < 2:
        return None
    # One that was closed without proof may train on; that is what the seal is for.
    proven = [gang for gang in training if (grants[gang.placement], False) not in closed]
    return "two gangs of one run train at once" if len(proven) > 1 else None


@by_identity
def _two_count(
    owners: frozenset[tuple[Slot, Started | Revoked]], closed: frozenset[tuple[EpochId, bool]]
) -> str | None:
    over = {epoch for epoch, _ in closed}
    counting = []
    for (_, name), owner in owners:
        if isinstance(owner, Started):
            number = name if isinstance(name, int) else name[0]
            epoch = EpochId(number=number, nonce=owner.grant_nonce)
            if epoch not in over:
                counting.append(epoch.name)
    return f"two epochs count at once: {sorted(counting)}" if len(counting) > 1 else None


def _not_whole(world: World) -> str | None:
    for _, owner in world.owners:
        if isinstance(owner, Started) and len({n.split(".")[1] for n in owner.nonces}) > 1:
            return "a gang starts with a member that was gone before the rest came"
    return None


def _started_after_fence(before: World, after: World) -> str | None:
    was = {(g.placement, g.generation): g.ranks for g in before.gangs}
    for gang in after.gangs:
        former = was.get((gang.placement, gang.generation), ())
        for old, new in zip(former, gang.ranks, strict=False):
            if new == TRAINING != old and after.grants[gang.placement] in before.fences:
                return "a process that can hear begins to train after the fence"
    return None


def _killed_live(before: World, after: World) -> str | None:
    closed = _ever_closed(before)
    was = {(g.placement, g.generation): g for g in before.gangs}
    for gang in after.gangs:
        former = was.get((gang.placement, gang.generation))
        if former is None or former.ranks == gang.ranks:
            continue
        lost = sum(
            o == TRAINING and n == OVER for o, n in zip(former.ranks, gang.ranks, strict=True)
        )
        if lost and not former.is_deaf and after.grants[gang.placement] not in closed:
            return "a withdrawal kills a gang that counts"
    return None


def _bad_event(before: World, after: World) -> str | None:
    event = after.log[-1]
    known = fold(before.log)
    if isinstance(event, Granted) and event.resume is not None:
        sealed = {(seal.epoch, step) for seal in known.seals for step, _ in seal.steps}
        if event.resume not in sealed:
            return "a start resumes from what no seal counts"
    if isinstance(event, Closed) and event.seal is not None:
        complete = {step for epoch, step in after.saved if epoch == event.epoch}
        if not complete.issuperset(step for step, _ in event.seal.steps):
            return "a seal counts what is not complete"
    if isinstance(event, Joined):
        return _other_seal(after, event)
    return None


def _other_seal(world: World, joined: Joined) -> str | None:
    taken = {seal.epoch: seal for seal in joined.seals}
    started = {
        (owner.placement, owner.grant_nonce)
        for _, owner in world.owners
        if isinstance(owner, Started)
    }
    for event in world.granted:
        if world.grants[event.placement] != event.epoch:
            continue
        if (f"p{event.placement}", event.epoch.nonce) not in started:
            continue
        if any(taken.get(seal.epoch) != seal for seal in event.seals):
            return "a restored broker seals anew what a started grant had sealed"
    return None
