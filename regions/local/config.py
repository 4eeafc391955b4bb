"""What an embedded cluster is made of, as its configuration file says it.

The rule: a field that is not known is refused by name, and so is a value that could not work.
Quota and machines are configured apart, because quota is not machines. Read ``WorldConfig`` first.
"""

import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from regions.launcher.store import InvalidKey, location_of
from regions.local.faults import Fault

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")]
Seconds = Annotated[float, Meta(ge=0, le=10_000_000)]
Pause = Annotated[float, Meta(ge=0.02, le=3600)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Gpus = Annotated[int, Meta(ge=0, le=1_000_000)]

MAX_CONFIG_BYTES = 1 << 20


class ConfigError(Exception):
    """The configuration cannot be used; the message names the field."""


class FlavorConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of machine, and how it comes and goes.

    ``max_nodes`` can exist at once; ``warm_nodes`` stand from the start and are never scaled down.
    A bought node is up ``startup_s`` later, each further one of the same purchase ``spread_s``
    after the one before, and is given back after ``scale_down_s`` idle. ``stock`` is how many can
    be bought before the flavor is out of stock (None: no end). FLEX: the reservation waits
    ``flex_wait_s`` booked, is called silent when nothing is heard of it for ``flex_silent_s``, and
    its nodes are taken back ``max_run_s`` after they came. ``mean_life_s`` is the mean of the
    seeded, exponential life of a node (None: it stays).
    """

    name: Name
    accelerator: Name
    accelerators_per_node: Annotated[int, Meta(ge=1, le=64)] = 1
    capacity_type: Literal["RESERVED", "ON_DEMAND", "SPOT", "FLEX"]
    zones: tuple[Name, ...] = ()
    price_per_gpu_hour: Annotated[Decimal, Meta()] = Decimal(0)
    max_nodes: Count
    warm_nodes: Count = 0
    stock: Count | None = None
    startup_s: Seconds = 5.0
    spread_s: Seconds = 0.0
    scale_down_s: Seconds = 60.0
    preemption_notice_s: Seconds = 0.0
    flex_wait_s: Seconds = 0.0
    flex_silent_s: Seconds = 1800.0
    max_run_s: Seconds | None = None
    mean_life_s: Seconds | None = None


class QuotaConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A queue's quota of one flavor in GPUs; ``borrowing_limit`` is what it may take on top of
    ``nominal`` from what the cluster's other queues leave unused."""

    flavor: Name
    nominal: Gpus
    borrowing_limit: Gpus = 0


class QueueConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One queue, first in first out within a priority. ``is_foreign``: jobs of others only; the
    broker does not see it, but its quota can be borrowed and is taken back."""

    name: Name
    quotas: tuple[QuotaConfig, ...]
    is_foreign: bool = False


class ScheduledFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault that comes by itself ``at_s`` after the cluster's first start, again every
    ``every_s`` (None: once)."""

    at_s: Seconds
    every_s: Annotated[float, Meta(ge=1, le=10_000_000)] | None = None
    fault: Fault


class LauncherConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often launchers look, and how long they try, in seconds; see ``launcher.settings``."""

    gate_poll_s: Pause = 0.3
    gate_fresh_s: Pause = 5.0
    control_poll_s: Pause = 1.0
    report_s: Pause = 1.0
    end_retry_s: Pause = 60.0


class WorldConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One embedded cluster.

    ``store`` is the region's store: a directory, or ``gs://bucket/folder``, with what opens it for
    gangs in ``store_tokens`` and ``store_endpoint``, see ``launcher.settings``. A rank's output
    keeps its first ``log_head_bytes`` and its last ``log_tail_bytes``. ``keep_ended`` over
    placements stay visible; of their logs the newest ``keep_logs_bytes`` are kept, for
    ``keep_logs_s``.
    Gangs meet on a port of ``master_ports``.
    """

    cluster: Name
    region: Name
    store: str
    store_tokens: str = ""
    store_endpoint: str = ""
    flavors: tuple[FlavorConfig, ...]
    queues: tuple[QueueConfig, ...]
    schedule: tuple[ScheduledFault, ...] = ()
    launcher: LauncherConfig = LauncherConfig()
    seed: int = 0
    log_head_bytes: Annotated[int, Meta(ge=4096, le=1 << 30)] = 1 << 20
    log_tail_bytes: Annotated[int, Meta(ge=4096, le=1 << 34)] = 16 << 20
    keep_ended: Annotated[int, Meta(ge=1, le=2000)] = 200
    keep_logs_bytes: Annotated[int, Meta(ge=4096, le=1 << 40)] = 256 << 20
    keep_logs_s: Seconds = 7 * 86_400.0
    master_ports: tuple[int, int] = (20_000, 29_999)

    def __post_init__(self) -> None:
        """Refuse what contradicts itself. Raises ValueError, which decoding reports."""
        flavors = [flavor.name for flavor in self.flavors]
        queues = [queue.name for queue in self.queues]
        for what, names in (("flavor", flavors), ("queue", queues)):
            if len(set(names)) != len(names):
                raise ValueError(f"a {what} is named twice")
        for queue in self.queues:
            for quota in queue.quotas:
                if quota.flavor not in flavors:
                    raise ValueError(f"queue {queue.name}: there is no flavor {quota.flavor}")
        try:
            location_of(self.store)
        except InvalidKey as error:
            raise ValueError(f"store: {error}") from error
        low, high = self.master_ports
        if not 1024 <= low <= high <= 65_535:
            raise ValueError("master_ports is not a range of ports from 1024 on")

    def flavor(self, name: str) -> FlavorConfig | None:
        """The flavor of that name, or None."""
        return next((flavor for flavor in self.flavors if flavor.name == name), None)

    def queue(self, name: str) -> QueueConfig | None:
        """The queue of that name, or None."""
        return next((queue for queue in self.queues if queue.name == name), None)

    def quota(self, queue: str, flavor: str) -> QuotaConfig | None:
        """The quota of a flavor in a queue, or None when the queue does not have it."""
        found = self.queue(queue)
        quotas = found.quotas if found is not None else ()
        return next((quota for quota in quotas if quota.flavor == flavor), None)


def load(path: Path) -> WorldConfig:
    """Read a configuration file, TOML or JSON by its suffix. Raises ConfigError."""
    try:
        raw = path.read_bytes()[: MAX_CONFIG_BYTES + 1]
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if len(raw) > MAX_CONFIG_BYTES:
        raise ConfigError(f"{path}: longer than {MAX_CONFIG_BYTES} bytes")
    try:
        if path.suffix == ".json":
            return msgspec.json.decode(raw, type=WorldConfig)
        values = tomllib.loads(raw.decode("utf-8"))
        return msgspec.convert(values, WorldConfig)
    except (msgspec.MsgspecError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def dump(config: WorldConfig) -> bytes:
    """Write a configuration as JSON; ``load`` reads it back equal."""
    return msgspec.json.format(msgspec.json.encode(config), indent=2)
