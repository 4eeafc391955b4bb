"""What someone wants to happen: imperatives. ``decide`` turns each into events or a refusal.

The rule: a command holds only what its sender knows; everything that follows from the state is
``decide``'s to find. Loops may send a command again: what already holds yields no events.
"""

from dataclasses import dataclass

from broker.history.beginning_commands import AcceptRun, RejectRun, SubmitRun
from broker.history.checkpoint_commands import (
    BeginRetirement,
    MarkCheckpoint,
    RecordCheckpoint,
    RecordCopy,
    RecordLostCopy,
    RecordPruned,
    RefuseCheckpoint,
)
from broker.history.regional_commands import (
    AcceptStore,
    BeginIncarnation,
    BrokerCommand,
    CarrySpend,
    ClaimStore,
    CordonRegion,
    DoubtStore,
    DrainRegion,
    RecordCopyRate,
    RecordOrphan,
    RecordOrphanGone,
    RecordSurvey,
    RegionCommand,
    RemoveOrphan,
    SetCaps,
    SetPolicy,
    TeamCommand,
    UncordonRegion,
    WaiveRegion,
)
from broker.model.bill import NodesFrom
from broker.model.capacity_seen import ClusterWord
from broker.model.checkpoint import CheckpointRef, EpochId
from broker.model.intent import Terms
from broker.model.reasons import Reason
from broker.model.run import Arrival, CloseRule, Purpose, RankEnd, Site
from broker.model.states import PlacementEnd, PlacementState

# All commands are offered here: one import serves who sends any.
__all__ = [
    "AcceptRun",
    "AcceptStore",
    "BeginIncarnation",
    "BeginRetirement",
    "BrokerCommand",
    "CarrySpend",
    "ClaimStore",
    "CordonRegion",
    "DoubtStore",
    "DrainRegion",
    "MarkCheckpoint",
    "RecordCheckpoint",
    "RecordCopy",
    "RecordCopyRate",
    "RecordLostCopy",
    "RecordOrphan",
    "RecordOrphanGone",
    "RecordPruned",
    "RecordSurvey",
    "RefuseCheckpoint",
    "RegionCommand",
    "RejectRun",
    "RemoveOrphan",
    "SetCaps",
    "SetPolicy",
    "SubmitRun",
    "TeamCommand",
    "UncordonRegion",
    "WaiveRegion",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AmendTerms:
    """Replace the terms; refused ETAG_MISMATCH unless ``expected_generation`` is the present."""

    terms: Terms
    expected_generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRun:
    """End the run CANCELLED after at most ``grace_s`` seconds of draining."""

    grace_s: float
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailRun:
    """End the run FAILED: a limit was reached. A gang that runs may save for ``grace_s``."""

    reason: Reason
    message: str
    grace_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRun:
    """Bring an ended run back, or restart a running one from a named step.

    ``step`` None and not ``from_start``: the newest checkpoint that counts.
    """

    step: int | None
    from_start: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainWait:
    """Say what the run waits for."""

    reason: Reason
    message: str
    next_action: str
    next_at_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClimbLadder:
    """Go to the last rung of the max-wait ladder."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPlacement:
    """Try to start at a site. Checked against the team's caps in its transaction."""

    placement: str
    purpose: Purpose
    site: Site
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkPrepared:
    """The placement's content stands in its region."""

    placement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPlacement:
    """What the cluster says of a placement.

    ``next_action`` is what follows when it says just that for ``patience_s`` seconds. ``nodes`` is
    how its machines came and went, oldest first, empty when the cluster does not tell the times.
    ``expected_s`` is when the cluster expects what it waits for, ``machines_end_s`` when the first
    of its machines is given back as planned (broker seconds); None: it names no time. ``word`` is
    the cluster's own for what keeps it from its start and only its user can mend, None for nothing.
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
class JudgeStuck:
    """A wait is stuck, on evidence."""

    placement: str
    cause: Reason
    evidence: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawPlacement:
    """Take a waiting placement out. Refused for one that holds the open epoch."""

    placement: str
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPlacement:
    """A placement without an open epoch is over and seen gone; ``nodes`` as in ReportPlacement.

    ``word`` is its cluster's own for how it ended, None where it names nothing that was wrong.
    """

    placement: str
    end: PlacementEnd
    reason: Reason
    message: str
    nodes: tuple[NodesFrom, ...] = ()
    word: ClusterWord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantPlacement:
    """Open the next epoch on a placement; ``decide`` picks the checkpoint it resumes from."""

    placement: str
    nonce: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordStart:
    """The owner record says STARTED. ``report_within_s``: how long its ranks have to report.

    ``nodes`` is as in ReportPlacement.
    """

    epoch: EpochId
    nonces: tuple[str, ...]
    report_within_s: float | None = None
    nodes: tuple[NodesFrom, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRunning:
    """Every listed rank reported running."""

    epoch: EpochId


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordProgress:
    """A listed rank reported a step. ``is_last``: all have ended, so no later one comes."""

    epoch: EpochId
    step: int
    loss: float | None
    is_last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDrain:
    """Ask the open epoch to save and stop."""

    reason: Reason
    message: str
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDrainAck:
    """The training acknowledged the drain."""

    epoch: EpochId
    step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopEpoch:
    """Revoke or fence the open epoch."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceEpoch:
    """Stop the open epoch, and go on without its region while that cannot be reached.

    A person's word: ``by`` is who says so, ``message`` why.
    """

    epoch: EpochId
    by: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseEpoch:
    """The protocol's rules say that the epoch is closed.

    ``found`` is what a scan of the epoch's store found complete, and ``refused`` what has a marker
    and is not; empty when it cannot be read.
    ``cause`` explains an end that is not the command's own (NODE_PREEMPTED, EVICTED, ...);
    None when the exits speak for themselves. ``nodes`` is as in ReportPlacement, ``word`` as in
    EndPlacement.
    """

    epoch: EpochId
    rule: CloseRule
    ends: tuple[RankEnd, ...]
    found: tuple[RecordCheckpoint, ...]
    cause: Reason | None
    message: str
    nodes: tuple[NodesFrom, ...] = ()
    refused: tuple[RefuseCheckpoint, ...] = ()
    word: ClusterWord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PayDebt:
    """The fence owed by a close of rule (d) is written."""

    epoch: EpochId


@dataclass(frozen=True, slots=True, kw_only=True)
class WarnRun:
    """Say a loud thing."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptEpoch:
    """Take over a STARTED epoch above the log (R1, R2); ``nodes`` as in ReportPlacement."""

    epoch: EpochId
    placement: str
    site: Site
    nonces: tuple[str, ...]
    resume_from: CheckpointRef | None
    seals: tuple[CheckpointRef, ...]
    nodes: tuple[NodesFrom, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipEpochs:
    """Start above ``next_epoch - 1`` (R1)."""

    next_epoch: int


RunCommand = (
    SubmitRun
    | AcceptRun
    | RejectRun
    | AmendTerms
    | CancelRun
    | FailRun
    | ResumeRun
    | ExplainWait
    | ClimbLadder
    | AddPlacement
    | MarkPrepared
    | ReportPlacement
    | JudgeStuck
    | WithdrawPlacement
    | EndPlacement
    | GrantPlacement
    | RecordStart
    | RecordRunning
    | RecordProgress
    | RecordCheckpoint
    | RefuseCheckpoint
    | RecordCopy
    | RecordLostCopy
    | MarkCheckpoint
    | RecordPruned
    | BeginRetirement
    | RequestDrain
    | RecordDrainAck
    | StopEpoch
    | ReplaceEpoch
    | CloseEpoch
    | PayDebt
    | WarnRun
    | AdoptEpoch
    | SkipEpochs
)

Command = RunCommand | RegionCommand | TeamCommand | BrokerCommand
