"""What an event of a placement makes of the run."""

from typing import assert_never

from broker.history.events import (
    PlacementAdded,
    PlacementEnded,
    PlacementPrepared,
    PlacementSeen,
    PlacementStuck,
    WithdrawalOrdered,
)
from broker.history.moves import move_placement
from broker.history.prospects import LOOK_AGAIN_S, leaving
from broker.history.refusals import IllegalMoveError
from broker.model.bill import NO_MACHINES, Meter, NodesFrom
from broker.model.billing import spend_phase
from broker.model.metering import arrived, booked, told
from broker.model.moment import Moment
from broker.model.reasons import FailureClass, Reason
from broker.model.replacing import replace
from broker.model.run import Placement, Run, Why
from broker.model.states import PlacementState, RunState

PlacementEvent = (
    PlacementSeen
    | PlacementAdded
    | PlacementPrepared
    | PlacementStuck
    | WithdrawalOrdered
    | PlacementEnded
)


def evolve_placement(run: Run, event: PlacementEvent, at: Moment) -> Run:
    """Return the run after an event of one of its placements."""
    if isinstance(event, PlacementAdded):
        return _added(run, event, at)
    placement = placement_of(run, event.placement)
    match event:
        case PlacementSeen():
            return replace(run, placements=put(run, _seen(placement, event, at)))
        case PlacementPrepared():
            why = Why(
                reason=Reason.WAITING_FOR_QUOTA,
                message="Content is there; going into the queue",
                since_s=at.elapsed_s,
                next_action="its cluster is asked to queue it",
                next_at_s=at.elapsed_s,
            )
            return replace(
                run,
                placements=put(run, enter(placement, PlacementState.QUEUED, why, at.elapsed_s)),
            )
        case PlacementStuck():
            stuck = Why(
                reason=event.cause,
                message=event.evidence,
                since_s=at.elapsed_s,
                next_action=event.action,
                next_at_s=at.elapsed_s,
            )
            return replace(run, placements=put(run, replace(placement, stuck=stuck)))
        case WithdrawalOrdered():
            order = leaving(event.reason, event.message, at)
            return replace(run, placements=put(run, replace(placement, withdraw=order)))
        case PlacementEnded():
            return _ended(run, placement, event, at)
        case _:
            assert_never(event)


def placement_of(run: Run, placement: str) -> Placement:
    """Return the placement of that id; raise IllegalMoveError when the run has none."""
    found = run.placements.get(placement)
    if found is None:
        raise IllegalMoveError(f"{run.name}: no placement {placement}")
    return found


def put(run: Run, placement: Placement) -> dict[str, Placement]:
    """Return the run's placements with this one in place of the one of its id."""
    return {**run.placements, placement.id: placement}


def enter(placement: Placement, state: PlacementState, why: Why, since_s: float) -> Placement:
    """Return the placement in another state, the time in the former booked up to ``since_s``."""
    return replace(
        placement,
        state=move_placement(placement, state),
        why=why,
        phases=spend_phase(placement, since_s),
        entered_s=max(placement.entered_s, since_s),
        meter=booked(placement.meter, placement.state, since_s),
    )


def _added(run: Run, event: PlacementAdded, at: Moment) -> Run:
    if event.placement in run.placements:
        raise IllegalMoveError(f"{run.name}: placement {event.placement} exists")
    why = Why(
        reason=Reason.PREPARING_CONTENT,
        message=event.message,
        since_s=at.elapsed_s,
        next_action="it goes into the queue when its content is there",
        next_at_s=at.elapsed_s,
    )
    placement = Placement(
        id=event.placement,
        purpose=event.purpose,
        site=event.site,
        state=PlacementState.PREPARING,
        why=why,
        added_s=at.elapsed_s,
        entered_s=at.elapsed_s,
        meter=Meter(since_ms=round(at.elapsed_s * 1000)),
    )
    # The first leg is what the run now waits for; of several, the policy says which matters.
    is_first = run.state is RunState.QUEUED and not run.waiting_placements
    return replace(run, placements=put(run, placement), why=why if is_first else run.why)


def _seen(placement: Placement, event: PlacementSeen, at: Moment) -> Placement:
    known = _known(placement, event, at)
    since_s = known[event.reason]
    patience_s = LOOK_AGAIN_S if event.patience_s is None else event.patience_s
    why = Why(
        reason=event.reason,
        message=event.message,
        since_s=since_s,
        next_action=event.next_action or "its cluster is asked how far it is",
        next_at_s=since_s + patience_s,
    )
    here = arrived(placement, event.state, event.arrival)
    nodes = event.nodes or (NodesFrom(at_s=at.elapsed_s, nodes=here),)
    counted = replace(placement, meter=told(placement, nodes, at.elapsed_s))
    if event.state is placement.state:
        seen = replace(counted, why=why)
    else:
        moved = enter(counted, event.state, why, at.elapsed_s)
        # It moved, so what it was stuck on is no longer so; one on its way out moves to nowhere.
        seen = moved if placement.withdraw is not None else replace(moved, stuck=None)
    return replace(
        seen,
        first_given=tuple(known.items()),
        arrival=event.arrival,
        cluster_uid=event.cluster_uid or placement.cluster_uid,
        was_queued=True,
        expected_s=event.expected_s,
        machines_end_s=_last_known(event.machines_end_s, placement.machines_end_s),
        word=event.word,
    )


def _known(placement: Placement, event: PlacementSeen, at: Moment) -> dict[Reason, float]:
    """Return since when each reason of a state was given, the one that is given now among them.

    A cloud that has no machine tries again and again: each time it would be another wait.
    """
    if event.state is not placement.state:
        return {event.reason: at.elapsed_s}
    why = placement.why
    return {event.reason: at.elapsed_s, **dict(placement.first_given), why.reason: why.since_s}


def _last_known(told_s: float | None, known_s: float | None) -> float | None:
    """A machine of which nothing is told now ends when it was told to end."""
    return known_s if told_s is None else told_s


def _ended(run: Run, placement: Placement, event: PlacementEnded, at: Moment) -> Run:
    why = Why(reason=event.reason, message=event.message, since_s=at.elapsed_s)
    gone_s = at.elapsed_s if event.gone_s is None else event.gone_s
    ended = replace(
        enter(placement, PlacementState.ENDED, why, gone_s),  # what it was stuck on is remembered
        end=event.end,
        failure=event.failure,
        meter=NO_MACHINES,
        bill=event.bill,
        word=event.word or placement.word,
    )
    is_user = event.failure is FailureClass.USER
    return replace(
        run,
        placements=put(run, ended),
        bill=run.bill + event.bill,
        user_failures=run.user_failures + (event.is_charged and is_user),
        infrastructure_losses=run.infrastructure_losses + (event.is_charged and not is_user),
    )
