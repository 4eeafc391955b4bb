"""What happened: past participles, one frozen value each. Golden files hold their encoding.

The rule: an event carries all that ``evolve`` needs beside the state, so that old logs load for
ever; a field is added with a default and never changes meaning. ``Recorded`` is the envelope.
"""

from dataclasses import dataclass

from broker.history.checkpoint_events import (
    CheckpointCompleted,
    CheckpointCopied,
    CheckpointLost,
    CheckpointMarked,
    CheckpointPruned,
    CheckpointRefused,
    RetirementBegun,
)
from broker.history.regional_events import BrokerEvent, RegionEvent, TeamEvent
from broker.model.actor import Actor
from broker.model.bill import Bill, NodesFrom
from broker.model.capacity_seen import ClusterWord
from broker.model.checkpoint import Checkpoint, CheckpointRef, EpochId
from broker.model.image import PinnedImage
from broker.model.intent import Intent, Terms
from broker.model.moment import Moment
from broker.model.reasons import FailureClass, Reason
from broker.model.run import Arrival, CloseRule, Purpose, RankEnd, Site
from broker.model.states import PlacementEnd, PlacementState, RunState

__all__ = [
    "CheckpointCompleted",
    "CheckpointCopied",
    "CheckpointLost",
    "CheckpointMarked",
    "CheckpointPruned",
    "CheckpointRefused",
    "RetirementBegun",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A run was accepted into the log; its life begins, VALIDATING."""

    name: str
    uid: str
    intent: Intent
    request_id: str
    body_digest: str
    forked_from: str = ""
    fork_checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """What takes the network was checked and is there; the run waits for its first start.

    ``image`` is what its image means from now on, None where it lies in no registry that is asked.
    """

    image: PinnedImage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The intent cannot run; ``field`` is the proto path of the culprit."""

    reason: Reason
    message: str
    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsAmended:
    """The terms were replaced; ``generation`` is the new etag's number."""

    terms: Terms
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitExplained:
    """What the run waits for changed, with what happens next and when (law 6)."""

    reason: Reason
    message: str
    next_action: str
    next_at_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderClimbed:
    """The wait is running out: every accepted rung is tried from here on."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementAdded:
    """A start is attempted at a site, for a purpose, with the sentence why there."""

    placement: str
    purpose: Purpose
    site: Site
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPrepared:
    """Its content is in the region; it may be queued."""

    placement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSeen:
    """Its cluster reported where it stands. ``cluster_uid`` is the object that was seen.

    ``next_action`` follows once it has stood so for ``patience_s`` seconds. ``nodes`` is since
    when it has how many machines, oldest first; empty: as the arrival counts them, from now on.
    ``expected_s``, ``machines_end_s`` and ``word`` are as in ReportPlacement.
    """

    placement: str
    state: PlacementState
    reason: Reason
    message: str
    arrival: Arrival
    cluster_uid: str
    next_action: str = ""
    patience_s: float | None = None
    nodes: tuple[NodesFrom, ...] = ()
    expected_s: float | None = None
    machines_end_s: float | None = None
    word: ClusterWord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementStuck:
    """The wait was judged stuck for a cause on evidence; ``action`` says what follows."""

    placement: str
    cause: Reason
    evidence: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawalOrdered:
    """The placement is to be taken out of its cluster."""

    placement: str
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementEnded:
    """The placement is over and seen gone.

    ``bill`` is what its machines were paid for. ``gone_s`` is since when the last of them is gone
    as its cluster tells, None for since this event. ``word`` is its cluster's own for its end, None
    where nothing was wrong. ``is_charged``: it is counted as a failed start of its run.
    """

    placement: str
    end: PlacementEnd
    reason: Reason
    message: str
    failure: FailureClass | None
    bill: Bill
    gone_s: float | None = None
    word: ClusterWord | None = None
    is_charged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """Epoch ``epoch`` was opened on a placement (B1: logged before the grant is written)."""

    placement: str
    epoch: EpochId
    resume_from: CheckpointRef | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStarted:
    """The gang's ``owner`` says STARTED with these nonces, rank by rank.

    ``report_by_s`` is until when each of them must report that it runs (B6), broker seconds.
    ``nodes`` is since when it has how many machines; empty: all of them, from now on.
    """

    epoch: EpochId
    nonces: tuple[str, ...]
    report_by_s: float | None = None
    nodes: tuple[NodesFrom, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GangRunning:
    """Every listed rank reported that its command runs (B6)."""

    epoch: EpochId


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """A believed report of training, thinned: the stream of steps is not the log."""

    epoch: EpochId
    step: int
    loss: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequested:
    """The gang is asked to save and stop until ``deadline_s`` (broker time)."""

    epoch: EpochId
    reason: Reason
    message: str
    deadline_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainAcknowledged:
    """The training answered the drain; ``step`` is what it saved, None if nothing."""

    epoch: EpochId
    step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrdered:
    """The epoch is to end: revoked if it has not started, fenced if it has."""

    epoch: EpochId
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementOrdered:
    """A person, ``by`` name, said to go on without the epoch's region if it cannot be reached."""

    epoch: EpochId
    by: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """The epoch is closed (B3). ``checkpoints`` are the refs that count, for ever; ``word`` is its
    cluster's own for how its gang ended, None where nothing was wrong."""

    epoch: EpochId
    rule: CloseRule
    checkpoints: tuple[CheckpointRef, ...]
    ends: tuple[RankEnd, ...]
    is_owed: bool
    reason: Reason
    message: str
    failure: FailureClass | None
    word: ClusterWord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DebtPaid:
    """REVOKED-if-absent and the fence of an epoch closed by rule (d) are written."""

    epoch: EpochId


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued:
    """The run lost its place and waits again, with why."""

    reason: Reason
    message: str
    failure: FailureClass | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndDecided:
    """The run will end so; it waits for its open epoch to close."""

    state: RunState
    reason: Reason
    message: str
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The run is over."""

    state: RunState
    reason: Reason
    message: str
    failure: FailureClass | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A user brought the run back. ``step`` names a checkpoint; None is the newest."""

    step: int | None
    from_start: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """A loud failure that changes no state (law 9)."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAdopted:
    """A restored broker found a STARTED epoch above its log and took it over as open (R1).

    ``seals`` are those that its grant rests on; they come before the log's own (R2). ``nodes`` is
    since when it has how many machines, gone ones too; empty: all of them, from now on.
    """

    epoch: EpochId
    placement: str
    site: Site
    nonces: tuple[str, ...]
    resume_from: CheckpointRef | None
    seals: tuple[CheckpointRef, ...]
    nodes: tuple[NodesFrom, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochsSkipped:
    """A restored broker starts above every number a store may hold (R1)."""

    next_epoch: int


RunEvent = (
    Submitted
    | Validated
    | Rejected
    | TermsAmended
    | WaitExplained
    | LadderClimbed
    | PlacementAdded
    | PlacementPrepared
    | PlacementSeen
    | PlacementStuck
    | WithdrawalOrdered
    | PlacementEnded
    | Granted
    | EpochStarted
    | GangRunning
    | Progressed
    | CheckpointCompleted
    | CheckpointRefused
    | CheckpointCopied
    | CheckpointLost
    | CheckpointMarked
    | CheckpointPruned
    | RetirementBegun
    | DrainRequested
    | DrainAcknowledged
    | StopOrdered
    | ReplacementOrdered
    | Sealed
    | DebtPaid
    | Requeued
    | EndDecided
    | Ended
    | Resumed
    | Warned
    | EpochAdopted
    | EpochsSkipped
)

Event = RunEvent | RegionEvent | TeamEvent | BrokerEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event in the log. ``position`` is its place over all streams, from 1, without gaps.

    ``stream`` is ``teams/T/runs/R``, ``regions/R``, ``teams/T`` or ``broker``;
    ``stream_version`` counts from 1 within it.
    """

    position: int
    stream: str
    stream_version: int
    at: Moment
    actor: Actor
    event: Event
