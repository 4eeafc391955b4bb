"""Which limit of a run an end is held against, and whether that is spent now. Pure.

The rule: a failure of the run's own code needs an anchor and a restart left (law 5); any other loss
has a limit of its own; what is nobody's failure is held against none. An attempt that failed at its
gate, before it was granted, is counted as a start is: tried again for ever it would take machines
each time, for what only its user can mend. So is one that never came to its gate, because of an
image, a secret or an account that is not there. Read ``spent`` first, then ``is_kept_from_start``.
"""

from broker.history.causes import loss_class
from broker.history.lineage import has_anchor
from broker.model.capacity_seen import ClusterWord
from broker.model.reasons import FailureClass, Reason
from broker.model.run import Placement, Run
from broker.model.states import PlacementEnd, RunState

_NOT_ITS_OWN = frozenset({FailureClass.RESOURCE, FailureClass.ORCHESTRATION})
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


def is_kept_from_start(placement: Placement, reason: Reason, word: ClusterWord | None) -> bool:
    """Return whether what only its user can mend kept a placement from its start, to its end.

    ``reason`` is why it ends, and ``word`` its cluster's own for that. Of one that was told to go
    the last word before counts: what is said of processes that are stopped is no news. Whatever
    was planned, such as another leg's start, is nobody's failure.
    """
    if placement.phases.running > 0.0 or loss_class(reason) not in _NOT_ITS_OWN:
        return False
    last = word if placement.withdraw is None else placement.word
    return last is not None and last.failure is FailureClass.USER


def may_be_kept(run: Run) -> bool:
    """Return whether a run counts what is kept from its start: not where a gang has started."""
    is_looking = run.state in (RunState.QUEUED, RunState.STARTING) and run.ending is None
    epoch = run.open_epoch
    return is_looking and (epoch is None or epoch.started_s is None)


def spent_before_start(run: Run, placement: Placement, message: str) -> tuple[Reason, str] | None:
    """Return why a placement that was kept from its start is the run's last, None while it is not.

    Nothing ran, so no checkpoint is asked for: what one region lacks another may have. And a leg
    that nothing is known to be amiss with decides first, in whatever region it waits.
    """
    others = (leg for leg in run.waiting_placements if leg.id != placement.id)
    if run.open_epoch is not None or any(not is_for_the_user(leg) for leg in others):
        return None
    return spent(run, FailureClass.USER, message, is_anchored=True)


def is_for_the_user(leg: Placement) -> bool:
    """Return whether a leg waits for what only the run's user can mend, by its cluster's word."""
    return leg.word is not None and leg.word.failure is FailureClass.USER


def last_word(run: Run, placement: Placement, told: ClusterWord | None) -> ClusterWord | None:
    """Return the word that counts of a placement, of which ``told`` is said now.

    Once it is told to go it is the last from before.
    """
    epoch = run.open_epoch
    is_stopped = epoch is not None and epoch.placement == placement.id and epoch.stop is not None
    return placement.word if is_stopped or placement.withdraw is not None else told
