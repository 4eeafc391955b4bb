"""The port to a cluster: what can be seen of it, what can be asked of it. Knows no broker.

The rule: unknown is None and unreadable is said; a partial answer is never read as an absence.
Commands may be repeated, name the very object they mean, and say on failure whether trying again
can help. One contract suite holds ``local`` and ``kueue``. Read ``Cluster`` first, at the end.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from regions.capacity import KnownSeen, QueueSeen, SignalSeen
from regions.gang import Gang, SealRecord


class Stage(StrEnum):
    """Where a placement stands in its cluster."""

    QUEUED = "QUEUED"
    PROVISIONING = "PROVISIONING"
    STANDING = "STANDING"  # every member's process is up: at the gate, or past it
    ENDED = "ENDED"  # the cluster holds no member of it any more, and will bring none


class Cause(StrEnum):
    """What a cluster says of a placement, in the port's words."""

    NONE = "NONE"
    WAITING_FOR_QUOTA = "WAITING_FOR_QUOTA"
    QUOTA_NEVER_FITS = "QUOTA_NEVER_FITS"
    QUEUE_STOPPED = "QUEUE_STOPPED"
    WAITING_FOR_FLEX = "WAITING_FOR_FLEX"
    FLEX_SILENT = "FLEX_SILENT"  # asked for, and nothing of the request has moved for long
    FLEX_FAILED = "FLEX_FAILED"
    BOOKING_EXPIRED = "BOOKING_EXPIRED"  # its machines came, and were given up unused
    CAPACITY_REVOKED = "CAPACITY_REVOKED"
    WAITING_FOR_CHECK = "WAITING_FOR_CHECK"
    NODES_COMING = "NODES_COMING"
    STOCKOUT = "STOCKOUT"
    PARTIAL_ARRIVAL = "PARTIAL_ARRIVAL"
    PODS_STARTING = "PODS_STARTING"
    IMAGE_PULL_FAILING = "IMAGE_PULL_FAILING"
    NODE_PREEMPTED = "NODE_PREEMPTED"
    NODE_LOST = "NODE_LOST"
    EVICTED = "EVICTED"
    MEMBER_EXITED = "MEMBER_EXITED"
    WITHDRAWN = "WITHDRAWN"
    REFUSED = "REFUSED"
    WEDGED = "WEDGED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSeen:
    """One process of a gang. ``member`` names the very process (a pod's uid), never reused."""

    rank: int
    member: str
    is_alive: bool
    exit_code: int | None
    signal: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WordSeen:
    """What a cluster's own words for a placement mean: a stable word, and what follows.

    ``sentence`` says it shortly, without its period. ``fault``: NONE, USER, TRANSIENT, RESOURCE or
    ORCHESTRATION. ``deed`` is what is done about it without anybody, ``advice`` what a person can
    do. ``look_at`` is the object that shows it, and ``raw`` what the cluster itself says.
    ``unknown``: where it said what nobody has a word for, and that; empty: there is a word.
    ``last_lines`` are what the process that it is about printed last, empty where nobody kept it.
    """

    word: str
    sentence: str
    fault: str
    deed: str
    advice: str
    look_at: str
    raw: str
    unknown: str = ""
    last_lines: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSeen:
    """One object of ours in the cluster.

    ``uid`` is the object, never reused. ``is_whole_at_gate``: every rank stands at the gate with a
    fresh count, by the observer's clock. ``standing`` are those ranks' nonces by rank. ``members``
    are oldest first; of a gang that was created again, the former ones are among them. ``eta_s``:
    in how many seconds the cluster expects what it waits for; None: it names no time.
    ``first_exit``: with MEMBER_EXITED, the member whose end made the cluster end the others; empty:
    it cannot tell. ``history``: (seconds ago, nodes from then on), oldest first; empty: untold.
    ``ends_s``: in how many seconds the first of its machines is taken back as planned, whatever
    else befalls them; None: none is, or nobody told. ``said`` None: its cause says it all.
    ``warning`` is what its cluster refuses it and it goes on without, empty for nothing.
    """

    placement: str
    run_key: str
    uid: str
    queue: str
    flavor: str
    stage: Stage
    cause: Cause
    message: str
    ahead: int | None
    ahead_gpus: int | None
    nodes_here: int | None
    nodes_wanted: int | None
    members: tuple[MemberSeen, ...]
    standing: Mapping[int, str]
    is_whole_at_gate: bool
    is_granted: bool
    labels: Mapping[str, str]
    eta_s: float | None = None
    first_exit: str = ""
    history: tuple[tuple[float, int], ...] = ()
    ends_s: float | None = None
    said: WordSeen | None = None
    warning: str = ""


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class EpochKey:
    """An epoch in a store: its run's key, its number and its grant's nonce."""

    run_key: str
    number: int
    nonce: str


class OwnerState(StrEnum):
    """What an epoch's ``owner`` record says."""

    UNREADABLE = "UNREADABLE"
    ABSENT = "ABSENT"
    STARTED = "STARTED"
    REVOKED = "REVOKED"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """The last heartbeat of one listed process; ``trouble`` is why it cannot save, or empty."""

    rank: int
    nonce: str
    beat: int
    is_running: bool
    step: int | None
    loss: float | None
    is_drain_acked: bool
    drain_step: int | None
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnded:
    """The end report of one listed process, create-if-absent and so final.

    ``was_asked``: it had heard that its gang should leave before its command ended.
    """

    rank: int
    nonce: str
    kind: str  # LEFT_GATE, STOPPED, EXITED
    cause: str
    exit_code: int | None
    signal: int | None
    was_asked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSeen:
    """What a store says of one epoch. Only listed nonces are reported (B4).

    ``gone`` are ranks whose very process the cluster saw gone without an end report.
    ``checkpoints`` are the steps whose marker is there.
    """

    key: EpochKey
    placement: str
    owner: OwnerState
    nonces: tuple[str, ...]
    reports: tuple[RankReport, ...]
    ends: tuple[RankEnded, ...]
    gone: frozenset[int]
    is_drain_written: bool
    is_fence_written: bool
    checkpoints: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreClaims:
    """Who a region's store says that it is, and which lives of brokers showed themselves in it.

    ``identity`` is what the first broker called it, empty when no broker did. ``lives`` are by
    number, as each wrote itself down. Anybody who can write to the store can write both: who reads
    them believes only what proves itself.
    """

    identity: str
    lives: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObservation:
    """All there is to know of a cluster, as of ``seen_at_s`` on the observer's monotonic clock.

    ``is_whole`` False: some of it could not be seen, ``blind`` says what; then what is missing
    here is unknown, not absent. ``changed`` names the placements and runs (by key) that differ
    from the observation before; None means everything may. ``keeps_secrets``: a gang here can be
    shown a secret by its name. ``claims`` is who the store says that it is, None when not read;
    ``unread`` are runs, by key, of which it holds what cannot be read, and why: all as last known.
    ``notes`` are sentences for ops: what contradicts itself, and what cannot be offered.
    """

    cluster: str
    region: str
    seen_at_s: float
    is_whole: bool
    is_store_readable: bool
    blind: tuple[str, ...]
    queues: tuple[QueueSeen, ...]
    placements: Mapping[str, PlacementSeen]
    epochs: Mapping[EpochKey, EpochSeen]
    signals: tuple[SignalSeen, ...]
    changed: frozenset[str] | None
    keeps_secrets: bool
    claims: StoreClaims | None = None
    unread: Mapping[str, str] = field(default_factory=dict)
    known: tuple[KnownSeen, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Put a placement's gang into a queue, gated. Repeated: nothing happens. Durations in seconds.

    ``command`` runs behind the launcher, ``bundle_digest`` must stand in the region's store,
    ``priority`` preempts nobody until the grant; with ``is_granted`` that was decided before, and
    ``granted_priority`` counts from the first. ``max_run_s``: how long booked capacity should stay
    (None: as it is given). Only if asked does the gang reach the internet or get a token.
    """

    placement: str
    run_key: str
    run_name: str
    queue: str
    flavor: str
    gang: Gang
    command: tuple[str, ...]
    env: Mapping[str, str]
    image: str
    bundle_digest: str
    secrets: tuple[tuple[str, str, str], ...]  # name, env, mount path
    service_account: str
    priority: int
    granted_priority: int
    gate_timeout_s: float
    stop_grace_s: float
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity_type: str = ""  # RESERVED, ON_DEMAND, SPOT, FLEX
    max_run_s: float | None = None
    internet: bool = False
    service_account_token: bool = False
    is_granted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Write the grant of a placement. ``resume_path`` is relative to the store, or None."""

    placement: str
    epoch: EpochKey
    incarnation: int
    world_size: int
    resume_path: str | None
    bundle_digest: str
    seals: tuple[SealRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke:
    """Create the epoch's ``owner`` as REVOKED if it is absent; the observation tells who won."""

    epoch: EpochKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Ask the epoch to save and stop within ``grace_s``."""

    epoch: EpochKey
    reason: str
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Tell the epoch to stop. Written once, never removed."""

    epoch: EpochKey
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw:
    """Remove a placement's object, in the foreground. ``uid`` is the one that is meant.

    ``uid`` empty: whatever object of ours has this name and holds no started epoch, and the name
    stays occupied so that a late Queue cannot bring it back. With ``epoch`` the owner record is
    read first, and a STARTED one is not touched unless ``is_closed`` says that it is closed.
    """

    placement: str
    run_key: str
    uid: str
    epoch: EpochKey | None
    is_closed: bool


Action = Queue | Grant | Revoke | Drain | Fence | Withdraw


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one action. ``retry_after_s`` None: trying again cannot help."""

    is_done: bool
    cause: Cause = Cause.NONE
    message: str = ""
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is sent for an order to queue: ``objects`` in order of their creation, as plain data.

    Secrets are in it by name alone. ``notes`` are what is worth saying of it; ``refusal`` is why
    the order cannot be sent, and then there is nothing else; empty when it can.
    """

    objects: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    refusal: str = ""


class ClusterUnreachableError(Exception):
    """The cluster did not answer within the call's deadline; says nothing else.

    ``observation`` is what the region's store alone still tells, or None: it has no placement, but
    the epochs, so that a start behind a silent cluster can be fenced and closed.
    """

    def __init__(self, message: str, observation: ClusterObservation | None = None) -> None:
        super().__init__(message)
        self.observation = observation


class NoSuchLogError(Exception):
    """The cluster holds no output of that placement: it never came, or was let go since."""


class Cluster(Protocol):
    """One cluster. Every call has a deadline of its own; observing and reading logs raise
    ClusterUnreachableError, an action that met silence has an outcome that says so."""

    async def observe(self) -> ClusterObservation:
        """Return all that can be seen now; cheap when little changed."""
        ...

    async def apply(self, actions: tuple[Action, ...]) -> tuple[Outcome, ...]:
        """Carry out the actions in order and return one outcome for each."""
        ...

    def manifest(self, order: Queue) -> Manifest:
        """Return what is sent for an order, by what is known of the cluster; asks it nothing."""
        ...

    def logs(
        self, placement: str, rank: int, offset: int, follow: bool
    ) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (offset after, chunk) of a rank's output from a byte offset on.

        Negative: so many bytes before its end. Raises NoSuchLogError where nothing is kept.
        """
        ...
