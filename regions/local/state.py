"""All that an embedded cluster remembers, as it is written to disk.

The rule: this is the whole of it. A daemon that reads it back goes on where the former stopped;
what it wants of processes is an order on a member here, so that a crash between writing and acting
is repaired by looking again. Times are seconds of the machine's monotonic clock, which goes on
over a restart of the daemon and begins anew with the machine (``boot_id``). Read ``State`` first.
"""

from enum import StrEnum
from typing import Literal

from msgspec import Struct, field

from regions.cluster import Cause

SCHEMA_VERSION = 1
MAX_SIGNALS = 200
"""Signals age within hours; the last two hundred of a cluster say all that a forecast needs."""
MAX_FORGOTTEN = 20_000
"""Names that stay occupied after their object was forgotten: weeks of placements."""


class Phase(StrEnum):
    """Where a job stands. BOOKED: it holds quota, and flex capacity is to come."""

    WAITING = "WAITING"
    BOOKED = "BOOKED"
    PROVISIONING = "PROVISIONING"
    STANDING = "STANDING"
    STOPPING = "STOPPING"
    ENDED = "ENDED"


HOLDS_QUOTA = frozenset({Phase.BOOKED, Phase.PROVISIONING, Phase.STANDING, Phase.STOPPING})
HOLDS_NODES = frozenset({Phase.PROVISIONING, Phase.STANDING, Phase.STOPPING})


class GangSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a placement wants to run, as it was queued. Durations in seconds."""

    placement: str
    run_key: str
    run_name: str
    queue: str
    flavor: str
    ranks: int
    accelerator: str
    accelerators_per_node: int
    command: tuple[str, ...]
    env: dict[str, str]
    priority: int
    gate_timeout_s: float
    stop_grace_s: float
    labels: dict[str, str]

    @property
    def gpus(self) -> int:
        """GPUs of the whole gang."""
        return self.ranks * self.accelerators_per_node


class WithdrawOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which object to remove: ``uid`` names the very one, empty means whatever has the name."""

    placement: str
    run_key: str
    uid: str


Order = Literal["RUN", "TERM", "KILL"]


class Member(Struct, kw_only=True):
    """One process of a gang. ``pid`` 0: not started yet; ``start_ticks`` tells it from another
    process that got its number. ``is_termed``: SIGTERM was sent."""

    id: str
    rank: int
    node: str
    order: Order = "RUN"
    pid: int = 0
    start_ticks: int = 0
    is_termed: bool = False
    is_gone: bool = False
    exit_code: int | None = None
    signal: int | None = None


class Job(Struct, kw_only=True):
    """One object in a queue: a gang of ours, or a job of others (``spec`` None, no processes).

    ``turn`` orders the queue within a priority, ``admitted_turn`` the granting of nodes.
    ``generation`` counts the gangs it was given. ``is_recreating``: once stopped it starts again.
    ``take_cause``: some of its nodes are being taken away, and for what. ``term_grace_s`` is from
    SIGTERM to SIGKILL. ``first_exit`` is the member whose end ended the gang, empty when none did.
    ``history`` is since when it has how many nodes, of the last changes. ``silent_at_s`` is when
    a booking of which nothing is heard is called silent.
    """

    uid: str
    name: str
    run_key: str
    queue: str
    flavor: str
    gpus: int
    nodes_wanted: int
    priority: int
    turn: int
    queued_s: float
    spec: GangSpec | None
    phase: Phase = Phase.WAITING
    cause: Cause = Cause.WAITING_FOR_QUOTA
    message: str = ""
    never_fits: bool = False
    admitted_turn: int = 0
    admitted_s: float | None = None
    eta_s: float | None = None
    silent_at_s: float | None = None
    generation: int = 0
    master_port: int = 0
    members: list[Member] = field(default_factory=list)
    is_recreating: bool = False
    take_cause: Cause | None = None
    term_grace_s: float = 0.0
    kill_at_s: float | None = None
    signal_again_s: float = 0.0
    duration_s: float | None = None
    ended_s: float | None = None
    history: list[tuple[float, int]] = field(default_factory=list)
    first_exit: str = ""

    @property
    def alive(self) -> list[Member]:
        """The members that are not gone."""
        return [member for member in self.members if not member.is_gone]


class Node(Struct, kw_only=True):
    """One machine. ``holder`` is a job's uid or empty. Once ``takes_at_s`` is set it will vanish
    then, for ``take_cause``; ``dies_at_s`` is when its notice begins by its own, and ``ends_at_s``
    when it is given back as planned, whatever becomes of it before."""

    id: str
    flavor: str
    zone: str
    bought_s: float
    ready_at_s: float
    is_ready: bool = False
    is_warm: bool = False
    holder: str = ""
    idle_since_s: float | None = None
    dies_at_s: float | None = None
    ends_at_s: float | None = None
    takes_at_s: float | None = None
    take_cause: Cause = Cause.NODE_PREEMPTED


class Signal(Struct, frozen=True, kw_only=True):
    """One observation about capacity."""

    serial: int
    at_s: float
    queue: str
    flavor: str
    kind: str
    source: str
    detail: str
    gpus: int
    wait_s: float | None


class State(Struct, kw_only=True):
    """The cluster. ``stock`` holds only flavors that can run out; ``names`` maps a placement to
    its job's uid; ``forgotten`` are names that stay occupied; ``fired`` counts each scheduled
    fault; ``counter`` numbers turns and nodes; of flavors in ``silent_flex`` no request is
    answered."""

    schema_version: int = SCHEMA_VERSION
    boot_id: str
    began_s: float
    counter: int = 0
    signal_serial: int = 0
    jobs: dict[str, Job] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    forgotten: dict[str, float] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    stock: dict[str, int] = field(default_factory=dict)
    held_queues: list[str] = field(default_factory=list)
    silent_flex: list[str] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    fired: list[int] = field(default_factory=list)

    def next_number(self) -> int:
        """A number that this cluster never gave before."""
        self.counter += 1
        return self.counter

    def live_jobs(self) -> list[Job]:
        """Jobs that are not over, in no special order."""
        return [job for job in self.jobs.values() if job.phase is not Phase.ENDED]

    def signal(
        self,
        kind: str,
        now_s: float,
        *,
        queue: str,
        flavor: str,
        source: str,
        detail: str = "",
        gpus: int = 0,
        wait_s: float | None = None,
    ) -> None:
        """Note one observation about capacity; the oldest are dropped."""
        self.signal_serial += 1
        self.signals.append(
            Signal(
                serial=self.signal_serial,
                at_s=now_s,
                queue=queue,
                flavor=flavor,
                kind=kind,
                source=source,
                detail=detail,
                gpus=gpus,
                wait_s=wait_s,
            )
        )
        del self.signals[:-MAX_SIGNALS]
