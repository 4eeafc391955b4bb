"""What stands at gates, and what must leave its machines as planned.

The rule: a hedge is bounded in minutes too. When a team has spent its minutes at gates, every leg
but the run's most advanced one is given back; a gang on bounded machines is drained in time to
save before they go.
"""

from broker.history.commands import RequestDrain, RunCommand, WithdrawPlacement
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.model.states import PlacementState
from broker.placement.hedge import planned_end_s
from broker.placement.view import View

_ORDER = (
    PlacementState.PREPARING,
    PlacementState.QUEUED,
    PlacementState.PROVISIONING,
    PlacementState.AT_GATE,
)


def judge_gates(view: View, run: Run, now: Moment) -> tuple[RunCommand, ...]:
    """Return the legs to give back, and the drain that a planned end asks for."""
    return (*_minutes(view, run), *_planned_end(view, run, now))


def leaves_at_s(view: View, run: Run) -> float | None:
    """Return when a gang on bounded machines is asked to save (broker seconds), or None."""
    end_s, epoch = planned_end_s(view, run), run.open_epoch
    if end_s is None or epoch is None:
        return None
    return end_s - view.region(epoch.region).policy.drain_s


def _minutes(view: View, run: Run) -> tuple[RunCommand, ...]:
    standing = view.teams.get(run.intent.team)
    legs = run.waiting_placements
    if standing is None or len(legs) < 2:
        return ()
    minutes = standing.caps.gate_gpu_minutes_per_day
    if minutes is None or standing.gate_gpu_minutes_today < minutes:
        return ()
    best = max(legs, key=lambda leg: (_ORDER.index(leg.state), -leg.added_s))
    message = f"the team has spent its {minutes:g} GPU-minutes at gates of today"
    return tuple(
        WithdrawPlacement(placement=leg.id, reason=Reason.TEAM_GATE_MINUTES_SPENT, message=message)
        for leg in legs
        if leg is not best
    )


def _planned_end(view: View, run: Run, now: Moment) -> tuple[RunCommand, ...]:
    at_s, epoch = leaves_at_s(view, run), run.open_epoch
    if at_s is None or epoch is None or epoch.stop is not None or epoch.drain is not None:
        return ()
    if now.elapsed_s < at_s:
        return ()
    return (
        RequestDrain(
            reason=Reason.DRAINING,  # planned, so no loss
            message=f"its machines in {epoch.region} are given back as planned",
            grace_s=view.region(epoch.region).policy.drain_s,
        ),
    )
