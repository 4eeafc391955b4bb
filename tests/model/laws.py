"""What must hold in every state and over every move of the modelled world.

The rule: the laws watch from outside. They look at what really is, at every life of the broker and
at what it forgot, and not at what it believes. Read ``broken_law`` first.
"""

from broker.history.events import Granted as GrantLogged
from broker.history.events import Sealed
from regions.launcher.layout import EpochId, Revoked, Started
from tests.model.identity import by_identity
from tests.model.logbook import key, seals_of
from tests.model.world import (
    OVER,
    TRAINING,
    Gang,
    Slot,
    World,
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
    counted = {(epoch, step) for epoch, steps in seals_of(before.log).items() for step, _ in steps}
    for event in (event for batch in after.log[len(before.log) :] for event in batch):
        start = event.resume_from if isinstance(event, GrantLogged) else None
        if start is not None and (key(start.epoch), start.step) not in counted:
            return "a start resumes from what no seal counts"
        if isinstance(event, Sealed):
            complete = {step for epoch, step in after.saved if epoch == key(event.epoch)}
            if not complete.issuperset(ref.step for ref in event.checkpoints):
                return "a seal counts what is not complete"
    if before.joining is not None and after.joining is None:
        return _other_seal(after)
    return None


def _other_seal(world: World) -> str | None:
    taken = seals_of(world.log)
    for event in world.granted:
        if world.grants[event.placement] != event.epoch:
            continue
        if any(taken.get(seal.epoch, ()) != seal.steps for seal in event.seals):
            return "a restored broker seals anew what a grant had sealed"
    return None
