"""What must hold in every state and over every move of the modelled world.

The rule: the laws watch from outside. They look at what really is, at every life of the broker and
at what it forgot, and not at what it believes. Read ``broken_law`` first.
"""

from regions.launcher.layout import EpochId, Started
from tests.model.world import OVER, TRAINING, Closed, Granted, Joined, World, fold


def broken_law(before: World, label: str, after: World) -> str | None:
    """Return the sentence of the first law that a move breaks, or None."""
    if after.gangs != before.gangs:
        found = _two_train(after) or _started_after_fence(before, after)
        found = found or _killed_live(before, label, after)
        if found:
            return found
    if after.owners != before.owners or after.log != before.log:
        found = _two_count(after) or _not_whole(after)
        if found:
            return found
    if after.log != before.log and len(after.log) > len(before.log):
        return _bad_event(before, after)
    return None


def _ever_closed(world: World) -> frozenset[EpochId]:
    return frozenset(epoch for epoch, _ in world.closed)


def _two_train(world: World) -> str | None:
    unproven = {epoch for epoch, is_proven in world.closed if not is_proven}
    gangs = [
        (gang.placement, gang.generation)
        for gang in world.gangs
        if TRAINING in gang.ranks and world.grants[gang.placement] not in unproven
    ]
    return "two gangs of one run train at once" if len(gangs) > 1 else None


def _two_count(world: World) -> str | None:
    closed = _ever_closed(world)
    counting = []
    for (_, name), owner in world.owners:
        if isinstance(owner, Started):
            number = name if isinstance(name, int) else name[0]
            epoch = EpochId(number=number, nonce=owner.grant_nonce)
            if epoch not in closed:
                counting.append(epoch)
    return f"two epochs count at once: {counting}" if len(counting) > 1 else None


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


def _killed_live(before: World, label: str, after: World) -> str | None:
    if after.spent != before.spent or "withdraws" not in label:
        return None
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
