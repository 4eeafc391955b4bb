"""What comes next and when, in the words of the log's own moves (law 6).

The rule: whatever waits says what happens next by itself and when. A time is an upper bound: news
comes sooner, and when it passes unheard somebody says more. Only training goes on without one,
for it ends when its command does. Read ``starting`` for an example.
"""

from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Epoch, Why

STOP_HEARD_S = 60.0  # a launcher looks at its control every few seconds, then ends its processes
LOOK_AGAIN_S = 300.0  # where nobody named a patience: every wait is looked at at least so often

NEWS_DECIDES = frozenset({Reason.TRAINING})  # waits for nothing, so no time can be named


def starting(epoch_region: str, report_by_s: float | None, at: Moment) -> Why:
    """Say that a gang passed its gate; ``report_by_s`` None: nobody said how long it has."""
    return Why(
        reason=Reason.STARTING,
        message=f"Its gang has started in {epoch_region}; the ranks report in",
        since_s=at.elapsed_s,
        next_action="it trains as soon as every rank has reported, and is stopped if one does not",
        next_at_s=at.elapsed_s + LOOK_AGAIN_S if report_by_s is None else report_by_s,
    )


def training(region: str, at: Moment) -> Why:
    """Say that every rank runs its command."""
    return Why(
        reason=Reason.TRAINING,
        message=f"Training in {region}",
        since_s=at.elapsed_s,
        next_action="it trains until its command ends or its place is lost",
    )


def stopping(epoch: Epoch, message: str, at: Moment) -> Why:
    """Say that an epoch is told to end: at once when it has not started, else by its fence."""
    is_started = epoch.started_s is not None
    return Why(
        reason=Reason.STOPPING,
        message=message,
        since_s=at.elapsed_s,
        next_action=(
            "its gang is fenced, and the run goes on when each rank has stopped or is seen gone"
            if is_started
            else "its start is revoked in its store, and the run goes on"
        ),
        next_at_s=at.elapsed_s + (STOP_HEARD_S if is_started else 0.0),
    )


def leaving(reason: Reason, message: str, at: Moment) -> Why:
    """Say that a placement is to be taken out of its cluster."""
    return Why(
        reason=reason,
        message=message,
        since_s=at.elapsed_s,
        next_action="it is taken out of its cluster",
        next_at_s=at.elapsed_s,
    )
