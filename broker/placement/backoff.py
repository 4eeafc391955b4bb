"""How long a run that keeps failing by its own fault is left alone before its next start."""

from broker.model.reasons import FailureClass
from broker.model.run import Run
from broker.model.states import RunState

FIRST_S = 10.0
MOST_S = 600.0


def ready_at_s(run: Run) -> float | None:
    """Return when a requeued run may start again (broker seconds), None for at once.

    Doubles with each failure of the user's own code; losing a place is not the run's fault and
    costs no pause.
    """
    last = run.epochs[-1] if run.epochs else None
    if run.state is not RunState.QUEUED or last is None or last.closed_s is None:
        return None
    placement = run.placements.get(last.placement)
    if placement is None or placement.failure is not FailureClass.USER or not run.user_failures:
        return None
    return last.closed_s + min(MOST_S, FIRST_S * 2.0 ** min(run.user_failures - 1, 10))
