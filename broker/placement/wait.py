"""How long a run has waited and how much of its wait is left."""

from broker.model.moment import Moment
from broker.model.run import Run


def waited_s(run: Run, now: Moment) -> float:
    """Return the seconds of the present wait; 0 when it does not wait."""
    return 0.0 if run.wait_began_s is None else now.since(run.wait_began_s)


def limit_s(run: Run) -> float | None:
    """Return the bound of the present wait in seconds, None when there is none."""
    return run.terms.max_requeue_wait_s if run.has_started else run.terms.max_wait_s


def ends_s(run: Run) -> float | None:
    """Return when the present wait reaches its bound (broker seconds), None for never."""
    bound_s = limit_s(run)
    if bound_s is None or run.wait_began_s is None:
        return None
    return run.wait_began_s + bound_s


def remaining_wait_s(run: Run, now: Moment) -> float | None:
    """Return what is left of the present wait in seconds, None for no bound."""
    bound_s = limit_s(run)
    return None if bound_s is None else max(0.0, bound_s - waited_s(run, now))
