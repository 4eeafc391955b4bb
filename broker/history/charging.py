"""Which limit of a run an end is held against, and whether that is spent now. Pure.

The rule: a failure of the run's own code needs an anchor and a restart left (law 5); any other loss
has a limit of its own; what is nobody's failure is held against none. An attempt that failed at its
gate, before it was granted, is counted as a start is: tried again for ever it would take machines
each time, for what only its user can mend. Read ``spent`` first.
"""

from broker.history.lineage import has_anchor
from broker.model.reasons import FailureClass, Reason
from broker.model.run import Run
from broker.model.states import PlacementEnd, RunState

_AT_THE_GATE = frozenset({Reason.COMMAND_FAILED, Reason.GANG_NOT_WHOLE, Reason.BUNDLE_DAMAGED})


def spent(
    run: Run, failure: FailureClass | None, message: str, *, is_anchored: bool
) -> tuple[Reason, str] | None:
    """Return why and in which words an end is the run's last, None while it may try again."""
    limits = run.terms.limits
    if failure is None:
        return None
    if failure is FailureClass.USER:
        if not is_anchored:
            return (
                Reason.FAILED_BEFORE_CHECKPOINT,
                f"{message}, before its first complete checkpoint",
            )
        if run.user_failures >= limits.user_restarts:
            return (
                Reason.USER_RESTARTS_SPENT,
                f"{message}; {limits.user_restarts} restarts are spent",
            )
        return None
    if run.infrastructure_losses >= limits.infrastructure_losses:
        return (
            Reason.INFRASTRUCTURE_LOSSES_SPENT,
            f"{message}; {limits.infrastructure_losses} losses are spent",
        )
    return None


def is_charged(run: Run, end: PlacementEnd, reason: Reason) -> bool:
    """Return whether an attempt that was not granted is counted as a failed start of its run.

    While another one is granted, or trains, that one says what becomes of the run.
    """
    is_waiting = run.state is RunState.QUEUED and run.open_epoch is None
    return is_waiting and end is PlacementEnd.FAILED and reason in _AT_THE_GATE


def spent_at_the_gate(
    run: Run, failure: FailureClass | None, message: str
) -> tuple[Reason, str] | None:
    """Return why a charged attempt is the run's last, None while it may try again."""
    return spent(run, failure, message, is_anchored=has_anchor(run))
