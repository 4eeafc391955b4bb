"""What stands at gates, and what must leave its machines as planned.

The rule: a hedge is bounded in minutes too. When a team has spent its minutes at gates, every leg
but the run's most advanced one is given back; a gang on bounded machines is drained in time to
save before they go.
"""

from broker.history.commands import RequestDrain, RunCommand, WithdrawPlacement
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Epoch, Run
from broker.model.states import PlacementState
from broker.placement.succession import leaves_at_s, saves_within_s, stands_ready
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
    """Ask a gang to save before its machines go, or once the next one stands ready.

    What stands at its gate is paid for, so that the sooner it is handed over to the less is paid
    twice; but a gang that saved nothing yet is left its time.
    """
    at_s, epoch = leaves_at_s(view, run), run.open_epoch
    if at_s is None or epoch is None or epoch.stop is not None or epoch.drain is not None:
        return ()
    ready = stands_ready(run) if epoch.running_s is not None and _has_saved(run, epoch) else None
    if now.elapsed_s < at_s and ready is None:
        return ()
    message = f"its machines in {epoch.region} are given back as planned"
    if ready is not None:
        message += f"; its successor stands ready in {ready.site.region}"
    return (
        RequestDrain(
            reason=Reason.PLANNED_END,  # no loss
            message=message,
            grace_s=saves_within_s(view, run, epoch),
        ),
    )


def _has_saved(run: Run, epoch: Epoch) -> bool:
    return any(
        c.ref.epoch == epoch.id and not c.is_bad and bool(c.regions) for c in run.checkpoints
    )
