"""The states of a run, a placement and an epoch, and the legal moves between them.

Absent from a table means illegal: a move that is not listed raises in ``history.evolve``. The
documentation renders these very tables.
"""

from collections.abc import Mapping
from enum import StrEnum


class RunState(StrEnum):
    """Where a run stands; DRAINING is a flag of RUNNING, not a state."""

    SUBMITTED = "SUBMITTED"
    VALIDATING = "VALIDATING"
    REJECTED = "REJECTED"
    QUEUED = "QUEUED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class PlacementState(StrEnum):
    """Where one attempt to start stands."""

    PREPARING = "PREPARING"
    QUEUED = "QUEUED"
    PROVISIONING = "PROVISIONING"
    AT_GATE = "AT_GATE"
    RUNNING = "RUNNING"
    ENDED = "ENDED"


class PlacementEnd(StrEnum):
    """How a placement ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    PREEMPTED = "PREEMPTED"
    WITHDRAWN = "WITHDRAWN"
    LOST = "LOST"
    REVOKED = "REVOKED"


class EpochState(StrEnum):
    """Where a granted start stands. STOPPING: its revocation or fence is ordered."""

    GRANTED = "GRANTED"
    STARTED = "STARTED"
    STOPPING = "STOPPING"
    CLOSED = "CLOSED"


_R, _P, _E = RunState, PlacementState, EpochState

RUN_MOVES: Mapping[RunState, frozenset[RunState]] = {
    _R.SUBMITTED: frozenset({_R.VALIDATING, _R.CANCELLED}),
    _R.VALIDATING: frozenset({_R.REJECTED, _R.QUEUED, _R.CANCELLED}),
    _R.REJECTED: frozenset(),
    # STARTING is the granted run, however long its gang still waits for capacity; QUEUED ends
    # FAILED at max wait or when nothing can ever fit.
    _R.QUEUED: frozenset({_R.STARTING, _R.FAILED, _R.CANCELLED}),
    _R.STARTING: frozenset({_R.RUNNING, _R.QUEUED, _R.SUCCEEDED, _R.FAILED, _R.CANCELLED}),
    _R.RUNNING: frozenset({_R.QUEUED, _R.SUCCEEDED, _R.FAILED, _R.CANCELLED}),
    # ResumeRun brings an ended run back.
    _R.SUCCEEDED: frozenset({_R.QUEUED}),
    _R.FAILED: frozenset({_R.QUEUED}),
    _R.CANCELLED: frozenset({_R.QUEUED}),
}

# Facts can skip states: a gang may be whole when it is first seen, and any wait may fall back to
# the queue when the cluster takes a reservation away without ending the placement.
PLACEMENT_MOVES: Mapping[PlacementState, frozenset[PlacementState]] = {
    _P.PREPARING: frozenset({_P.QUEUED, _P.ENDED}),
    _P.QUEUED: frozenset({_P.PROVISIONING, _P.AT_GATE, _P.RUNNING, _P.ENDED}),
    _P.PROVISIONING: frozenset({_P.QUEUED, _P.AT_GATE, _P.RUNNING, _P.ENDED}),
    _P.AT_GATE: frozenset({_P.QUEUED, _P.PROVISIONING, _P.RUNNING, _P.ENDED}),
    _P.RUNNING: frozenset({_P.ENDED}),
    _P.ENDED: frozenset(),
}

EPOCH_MOVES: Mapping[EpochState, frozenset[EpochState]] = {
    # GRANTED -> CLOSED is an epoch revoked before it started.
    _E.GRANTED: frozenset({_E.STARTED, _E.STOPPING, _E.CLOSED}),
    _E.STARTED: frozenset({_E.STOPPING, _E.CLOSED}),
    # A revocation that lost the race against `owner` finds its epoch started: it stays STOPPING,
    # and ``started_s`` says that it takes a fence now. One that was only recalled has started.
    _E.STOPPING: frozenset({_E.STARTED, _E.CLOSED}),
    _E.CLOSED: frozenset(),
}

RUN_ENDED = frozenset({_R.REJECTED, _R.SUCCEEDED, _R.FAILED, _R.CANCELLED})
