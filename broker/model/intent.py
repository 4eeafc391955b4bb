"""What the user wants: a workload that never changes and terms that can be amended.

The rule: an intent is plain data, already parsed; ``broker/model/intent_rules.py`` says which
intents are accepted and names the field of each problem. Money is Decimal US dollars, durations
are float seconds, sizes are int bytes, GPU counts are ints.
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class CapacityType(StrEnum):
    """How capacity is bought."""

    RESERVED = "RESERVED"
    ON_DEMAND = "ON_DEMAND"
    SPOT = "SPOT"
    FLEX = "FLEX"


class AfterMaxWait(StrEnum):
    """What happens when ``max_wait_s`` has passed without a start."""

    FAIL = "FAIL"
    KEEP_WAITING = "KEEP_WAITING"
    LAST_RUNG = "LAST_RUNG"


class TopologyWish(StrEnum):
    """How close the nodes of a gang should stand."""

    NONE = "NONE"
    PREFERRED = "PREFERRED"
    REQUIRED = "REQUIRED"


class CheckpointFormat(StrEnum):
    """How completeness of a checkpoint is told: by ``.complete``, by DCP's ``.metadata``, or, of
    trainers that write no marker, by the files they need and by nothing changing for a while."""

    FILES = "FILES"
    PYTORCH_DCP = "PYTORCH_DCP"
    HUGGING_FACE = "HUGGING_FACE"
    LIGHTNING = "LIGHTNING"
    ORBAX = "ORBAX"


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareOption:
    """One acceptable gang shape; the order of options is the user's preference.

    ``accelerators_per_node`` times ``nodes`` GPUs; one launcher (rank) stands on each node.
    ``relative_speed`` is training speed against the user's reference (1.0).
    """

    accelerator: str
    accelerators_per_node: int
    nodes: int
    relative_speed: float = 1.0
    topology: TopologyWish = TopologyWish.NONE

    @property
    def gpus(self) -> int:
        """The accelerators of the whole gang."""
        return self.accelerators_per_node * self.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A data set the run reads: where it is, and whether it may be read from elsewhere."""

    uri: str
    size_bytes: int
    regions: tuple[str, ...]
    remote_reads: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSpec:
    """How the run saves. ``interval_s`` is what the user expects, None when unknown."""

    format: CheckpointFormat = CheckpointFormat.FILES
    interval_s: float | None = None
    keep_last: int = 3
    keep_every_steps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSpec:
    """How life is told. No step within ``timeout_s`` is a hang; None means never judged."""

    timeout_s: float | None = None
    loss_field: str = "loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What each node's process needs beside its accelerators; 0 means no request."""

    cpu_millis: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """A secret by name, shown to the workload as an environment variable or a mounted path."""

    name: str
    env: str = ""
    mount_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What runs. It never changes during a run's life; ForkRun makes a new run of another.

    ``internet``: it may connect out on port 443; ``service_account_token``: it can speak to its
    cluster as its service account. Both are closed unless asked for.
    """

    command: tuple[str, ...]
    hardware: tuple[HardwareOption, ...]
    image: str = ""
    env: tuple[tuple[str, str], ...] = ()
    bundle_digest: str = ""
    resources: Resources = Resources()
    secrets: tuple[SecretRef, ...] = ()
    service_account: str = ""
    inputs: tuple[Input, ...] = ()
    checkpoint: CheckpointSpec = CheckpointSpec()
    progress: ProgressSpec = ProgressSpec()
    internet: bool = False
    service_account_token: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How often a run may be started again, by whose fault the last start ended."""

    user_restarts: int = 3
    infrastructure_losses: int = 100


def lies_within(region: str, residency: tuple[str, ...]) -> bool:
    """Return whether data may stand in the region.

    A jurisdiction is the first whole words of a region's name: ``europe`` holds ``europe-west1``
    and ``europe``, not ``europes-1``; ``eu`` does not hold ``europe-west1``.
    """
    return not residency or any(f"{region}-".startswith(f"{word}-") for word in residency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The conditions of a run; an amendment replaces them whole, guarded by an etag.

    ``regions`` empty means every region the policy allows; ``residency`` names jurisdictions that
    data may not leave, as ``lies_within`` understands them, empty means anywhere. ``max_wait_s``
    bounds the wait for the first start, ``max_requeue_wait_s`` each wait after a start (None: no
    bound).
    ``deadline_wall_s`` is Unix seconds. ``budget`` is US dollars for the machines of the whole run,
    ``copies_budget`` for all copies of its checkpoints between regions (None: no bound).
    """

    capacity_types: tuple[CapacityType, ...]
    regions: tuple[str, ...] = ()
    residency: tuple[str, ...] = ()
    max_wait_s: float | None = None
    after_max_wait: AfterMaxWait = AfterMaxWait.KEEP_WAITING
    max_requeue_wait_s: float | None = None
    deadline_wall_s: float | None = None
    expected_duration_s: float | None = None
    budget: Decimal | None = None
    priority: int = 0
    limits: Limits = Limits()
    copies_budget: Decimal | None = None

    def accepts_region(self, region: str) -> bool:
        """Return whether the user named the region, or left the choice to the policy."""
        return not self.regions or region in self.regions

    def keeps_residency(self, region: str) -> bool:
        """Return whether data may stand in the region."""
        return lies_within(region, self.residency)

    def accepts(self, region: str, capacity_type: CapacityType) -> bool:
        """Return whether a start in the region on this capacity is within the terms."""
        return (
            self.accepts_region(region)
            and self.keeps_residency(region)
            and capacity_type in self.capacity_types
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One training intent as submitted."""

    team: str
    owner: str
    workload: Workload
    terms: Terms
    labels: tuple[tuple[str, str], ...] = ()
