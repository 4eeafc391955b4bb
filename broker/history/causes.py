"""Whose fault an end was, by its reason: what is counted against which limit.

The rule: a reason that is not in ``LOSS_CLASS`` is nobody's failure (a planned move, a user's
word) and is counted against no limit. Read ``loss_class`` first.
"""

from collections.abc import Mapping

from broker.model.reasons import FailureClass, Reason
from broker.model.states import PlacementEnd

LOSS_CLASS: Mapping[Reason, FailureClass] = {
    # Capacity was taken back.
    Reason.NODE_PREEMPTED: FailureClass.RESOURCE,
    Reason.EVICTED: FailureClass.RESOURCE,
    Reason.STOCKOUT: FailureClass.RESOURCE,
    Reason.PARTIAL_ARRIVAL: FailureClass.RESOURCE,
    Reason.NODES_DO_NOT_COME: FailureClass.RESOURCE,
    Reason.FLEX_SILENT: FailureClass.RESOURCE,
    Reason.FLEX_FAILED: FailureClass.RESOURCE,
    Reason.BOOKING_EXPIRED: FailureClass.RESOURCE,
    Reason.CAPACITY_REVOKED: FailureClass.RESOURCE,
    Reason.QUOTA_EXHAUSTED: FailureClass.RESOURCE,
    # Machines and networks break.
    Reason.NODE_LOST: FailureClass.TRANSIENT,
    Reason.CLUSTER_SILENT: FailureClass.TRANSIENT,
    Reason.CLUSTER_UNREACHABLE: FailureClass.TRANSIENT,
    Reason.STORE_UNREACHABLE: FailureClass.TRANSIENT,
    Reason.REPLACED_UNREACHABLE: FailureClass.TRANSIENT,
    # What runs the gang did not do its part.
    Reason.GANG_RECREATED: FailureClass.ORCHESTRATION,
    Reason.GANG_NOT_WHOLE: FailureClass.ORCHESTRATION,
    Reason.START_NOT_REPORTED: FailureClass.ORCHESTRATION,
    Reason.GATE_TIMEOUT: FailureClass.ORCHESTRATION,
    Reason.REFUSED_BY_CLUSTER: FailureClass.ORCHESTRATION,
    Reason.IMAGE_PULL_FAILING: FailureClass.ORCHESTRATION,
    Reason.BUNDLE_DAMAGED: FailureClass.ORCHESTRATION,
    Reason.WEDGED: FailureClass.ORCHESTRATION,
    # What was saved was not kept.
    Reason.COPY_NOT_VERIFIED: FailureClass.ORCHESTRATION,
    Reason.CHECKPOINT_LOST: FailureClass.ORCHESTRATION,
    # Of a start that has saved nothing it is the run's own (``deciding_close``).
    Reason.TRANSIENT_FAULT: FailureClass.TRANSIENT,
    # The run's own code.
    Reason.COMMAND_FAILED: FailureClass.USER,
    Reason.NO_PROGRESS: FailureClass.USER,
}

OWN_ENDS = frozenset({Reason.COMMAND_FAILED, Reason.TRANSIENT_FAULT})
"""A process ended by itself, and its gang with it: nothing that was done to them explains it."""

_LOST = frozenset(
    {
        Reason.NODE_LOST,
        Reason.CLUSTER_SILENT,
        Reason.CLUSTER_UNREACHABLE,
        Reason.STORE_UNREACHABLE,
        Reason.REPLACED_UNREACHABLE,
        Reason.GANG_RECREATED,
    }
)


def loss_class(cause: Reason) -> FailureClass | None:
    """Return whose fault it was, None for what is nobody's."""
    return LOSS_CLASS.get(cause)


def placement_end(cause: Reason) -> PlacementEnd:
    """Return how a placement ended whose started epoch was closed for this cause."""
    if cause in _LOST:
        return PlacementEnd.LOST
    match loss_class(cause):
        case FailureClass.RESOURCE:
            return PlacementEnd.PREEMPTED
        case FailureClass.USER | FailureClass.ORCHESTRATION | FailureClass.TRANSIENT:
            return PlacementEnd.FAILED
        case None:
            return PlacementEnd.WITHDRAWN
