"""How long a run that keeps failing by its own fault is left alone before its next start. Pure."""

from broker.model.reasons import FailureClass
from broker.model.run import Placement, Run
from broker.model.states import RunState

FIRST_S = 10.0
MOST_S = 600.0


def ready_at_s(run: Run) -> float | None:
    """Return when a requeued run may start again (broker seconds), None for at once.

    Doubles with each failure of the user's own code, or of what only the user can mend; losing a
    place is not the run's fault and costs no pause.
    """
    if run.state is not RunState.QUEUED or not run.user_failures:
        return None
    last = run.epochs[-1] if run.epochs else None
    closed_s = 0.0 if last is None or last.closed_s is None else last.closed_s
    legs = (leg for leg in run.placements.values() if was_kept(leg))
    times = [leg.entered_s for leg in legs if leg.entered_s >= closed_s]
    placement = None if last is None else run.placements.get(last.placement)
    if placement is not None and placement.failure is FailureClass.USER:
        times.append(closed_s)
    return max(times) + pause_s(run.user_failures) if times else None


def pause_s(failures: int) -> float:
    """Return for how many seconds it is left alone after so many failures, one or more."""
    return min(MOST_S, FIRST_S * 2.0 ** min(failures - 1, 10))


def was_kept(leg: Placement) -> bool:
    """Return whether a placement ended before its start, for what only its user can mend."""
    is_users = leg.failure is FailureClass.USER
    return is_users and not leg.is_live and leg.phases.running == 0.0


def kept_last(run: Run) -> Placement | None:
    """Return the placement that ended last, if it was kept from its start so; None if it was not.

    One that ended at its gate by its own command is among them.
    """
    over = [leg for leg in run.placements.values() if not leg.is_live]
    last = max(reversed(over), key=lambda leg: leg.entered_s, default=None)
    return last if last is not None and was_kept(last) else None
