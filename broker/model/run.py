"""A run and everything it holds: placements, epochs, checkpoints. The state that events rebuild.

The rule: these values are only ever made by ``history.evolve``; every other room reads them.
Points in time are on the broker's elapsed axis (seconds) unless the name says ``wall``.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from broker.model.bill import NO_MACHINES, NOTHING_PAID, Bill, Meter
from broker.model.capacity import FlavorKey
from broker.model.capacity_seen import ClusterWord
from broker.model.checkpoint import Checkpoint, CheckpointRef, EpochId, RefusedCheckpoint
from broker.model.copying import CopySpend
from broker.model.image import PinnedImage
from broker.model.intent import CapacityType, HardwareOption, Intent, Terms
from broker.model.moment import Moment
from broker.model.reasons import FailureClass, Reason
from broker.model.states import (
    RUN_ENDED,
    EpochState,
    PlacementEnd,
    PlacementState,
    RunState,
)


class Purpose(StrEnum):
    """Why a placement was added."""

    FIRST = "FIRST"
    HEDGE = "HEDGE"
    REQUEUE = "REQUEUE"
    SUCCESSOR = "SUCCESSOR"


class CloseRule(StrEnum):
    """By which rule of B2 an epoch was closed."""

    NEVER_STARTED = "NEVER_STARTED"  # (a)
    SEEN_ENDED = "SEEN_ENDED"  # (b)
    FENCE_HEARD = "FENCE_HEARD"  # (c)
    UNREACHABLE = "UNREACHABLE"  # (d)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The offer a placement was made on, as it was then."""

    key: FlavorKey
    region: str
    capacity_type: CapacityType
    hardware_index: int
    nodes: int
    gpus: int
    price_per_gpu_hour: Decimal
    forecast_p50_s: float | None
    forecast_p90_s: float | None
    forecast_chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """A reason with its sentence, since when, and what happens next and when (law 6)."""

    reason: Reason
    message: str
    since_s: float
    next_action: str = ""
    next_at_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """How far a placement has come in its cluster. None means not seen."""

    ahead: int | None = None
    ahead_gpus: int | None = None
    nodes_here: int | None = None
    nodes_wanted: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSeconds:
    """Broker seconds spent in each state of a placement, whatever machines it had there."""

    preparing: float = 0.0
    queued: float = 0.0
    provisioning: float = 0.0
    at_gate: float = 0.0
    running: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One attempt to start the run at one site.

    ``stuck`` is what its wait was judged to be, and stays when it ends in that wait. ``withdraw``
    is set once its removal is ordered; ``end`` once it is over and seen gone.
    ``cluster_uid`` names the very object in the cluster, empty until seen. ``meter`` counts its
    machines while it is live, ``bill`` is what they came to once it has ended. ``expected_s`` is
    when its cluster expects what it waits for, ``machines_end_s`` when the first of its machines is
    given back as planned; None: no time was named. ``first_given`` is since when each reason of its
    present state is known. ``word`` is its cluster's own for its end, None where nothing was wrong;
    until then for what keeps it from its start and only its user can mend, None for nothing.
    """

    id: str
    purpose: Purpose
    site: Site
    state: PlacementState
    why: Why
    added_s: float
    entered_s: float
    phases: PhaseSeconds = PhaseSeconds()
    arrival: Arrival = Arrival()
    meter: Meter = NO_MACHINES
    cluster_uid: str = ""
    was_queued: bool = False
    stuck: Why | None = None
    withdraw: Why | None = None
    end: PlacementEnd | None = None
    failure: FailureClass | None = None
    epoch: EpochId | None = None
    bill: Bill = NOTHING_PAID
    expected_s: float | None = None
    machines_end_s: float | None = None
    first_given: tuple[tuple[Reason, float], ...] = ()
    word: ClusterWord | None = None

    @property
    def cost(self) -> Decimal:
        """US dollars that it cost, 0 while it is live: ``model.billing`` tells of those."""
        return self.bill.cost.total

    @property
    def is_live(self) -> bool:
        """Whether it is not over, whatever was ordered."""
        return self.state is not PlacementState.ENDED

    @property
    def is_waiting(self) -> bool:
        """Whether it could still be granted."""
        return (
            self.withdraw is None
            and self.epoch is None
            and self.state
            in (
                PlacementState.PREPARING,
                PlacementState.QUEUED,
                PlacementState.PROVISIONING,
                PlacementState.AT_GATE,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOrder:
    """A request to save and stop; ``acked_step`` is what the training answered."""

    reason: Reason
    message: str
    ordered_s: float
    deadline_s: float
    is_acked: bool = False
    acked_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnd:
    """How one listed process ended. ``exit_code`` None: it was seen gone, nothing more is known.

    ``cause`` is why its launcher ended it ("drained", "preempted", "fenced", ...), empty when the
    command ended by itself.
    """

    rank: int
    exit_code: int | None
    signal: int | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One granted start of the run, from its grant to its seal.

    ``go_on_by`` is the person who said to go on without its region, with why; empty for nobody.
    ``is_owed`` after a close by rule (d): REVOKED-if-absent and the fence are still to be written.
    ``let_go`` are the steps that it saved and that retention took, kept in mind while it is open: a
    look that began before still shows them, and they are never complete again.
    """

    id: EpochId
    placement: str
    cluster: str
    region: str
    state: EpochState
    granted_s: float
    resume_from: CheckpointRef | None
    nonces: tuple[str, ...] = ()
    started_s: float | None = None
    running_s: float | None = None
    drain: DrainOrder | None = None
    stop: Why | None = None
    go_on_by: str = ""
    close_rule: CloseRule | None = None
    closed_s: float | None = None
    is_owed: bool = False
    ends: tuple[RankEnd, ...] = ()
    let_go: frozenset[int] = frozenset()

    @property
    def is_open(self) -> bool:
        """Whether it still counts (law 1: at most one of a run does)."""
        return self.state is not EpochState.CLOSED

    @property
    def is_recalled(self) -> bool:
        """Whether its grant is only to be taken back, for a gang that was whole before it started.

        One that starts all the same is as good as that other one, and nothing stops it for it.
        """
        return self.stop is not None and self.stop.reason is Reason.OTHER_LEG_STARTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end that was decided for the run and waits for its open epoch to be closed."""

    state: RunState
    reason: Reason
    message: str
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The last believed report. ``loss`` None: not reported."""

    epoch: int
    step: int
    loss: float | None
    at_s: float
    at_wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeWish:
    """A user's named start point: the step of a checkpoint, or None for from the beginning."""

    step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One training intent and its whole life.

    ``wait_began_s`` is when the present wait began (None while it runs or has ended);
    ``climbed`` says that max wait's ladder is at its last rung. ``next_epoch`` is the number the
    next grant takes. ``bill`` is the sum over ended placements only. ``warnings`` are the last
    loud failures, oldest first. ``request_id`` and ``body_digest`` are those of the submit.
    ``refused`` are the latest saves whose marker does not hold, oldest first.
    ``resumed_at`` is what ``next_epoch`` was when a person last asked for a start, 0 for never.
    ``image`` is what runs, None where it is run by the name that its intent has.
    ``is_retiring``: its time in the log is over, and what it left in stores is being removed.
    ``copy_spends`` is what copies of its checkpoints have cost, by the region they went to.
    """

    name: str
    uid: str
    intent: Intent
    request_id: str
    created: Moment
    updated: Moment
    stream_version: int
    state: RunState
    why: Why
    terms_generation: int = 1
    placements: dict[str, Placement] = field(default_factory=dict)
    epochs: tuple[Epoch, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    progress: Progress | None = None
    first_step_s: float | None = None
    wait_began_s: float | None = None
    has_started: bool = False
    climbed: bool = False
    user_failures: int = 0
    infrastructure_losses: int = 0
    ending: Ending | None = None
    resume_wish: ResumeWish | None = None
    next_epoch: int = 1
    bill: Bill = NOTHING_PAID
    ended: Moment | None = None
    forked_from: str = ""
    body_digest: str = ""
    warnings: tuple[Why, ...] = ()
    refused: tuple[RefusedCheckpoint, ...] = ()
    resumed_at: int = 0
    is_retiring: bool = False
    image: PinnedImage | None = None
    copy_spends: tuple[CopySpend, ...] = ()

    @property
    def copies_usd(self) -> Decimal:
        """US dollars that copies of its checkpoints have cost."""
        return sum((one.usd for one in self.copy_spends), Decimal(0))

    @property
    def copies_left(self) -> Decimal | None:
        """US dollars that further copies may cost, None for no bound."""
        budget = self.terms.copies_budget
        return None if budget is None else max(Decimal(0), budget - self.copies_usd)

    @property
    def spent(self) -> Decimal:
        """US dollars that its ended placements cost."""
        return self.bill.cost.total

    @property
    def terms(self) -> Terms:
        """The terms now in force."""
        return self.intent.terms

    @property
    def is_ended(self) -> bool:
        """Whether the run is over, unless a user resumes it."""
        return self.state in RUN_ENDED

    @property
    def open_epoch(self) -> Epoch | None:
        """The one epoch that counts, or None."""
        last = self.epochs[-1] if self.epochs else None
        return last if last is not None and last.is_open else None

    def epoch(self, epoch_id: EpochId) -> Epoch | None:
        """Return the epoch of that number and nonce, or None."""
        return next((e for e in reversed(self.epochs) if e.id == epoch_id), None)

    def hardware(self, placement: Placement) -> HardwareOption:
        """The hardware option a placement was made for."""
        return self.intent.workload.hardware[placement.site.hardware_index]

    @property
    def live_placements(self) -> tuple[Placement, ...]:
        """Placements that are not over, in the order they were added."""
        return tuple(p for p in self.placements.values() if p.is_live)

    @property
    def waiting_placements(self) -> tuple[Placement, ...]:
        """Placements that could still be granted, in the order they were added."""
        return tuple(p for p in self.placements.values() if p.is_waiting)
