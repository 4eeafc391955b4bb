"""A node pool: what capacity it buys, how much at most, and what is wrong with it. Pure.

The rule: a message is hostile and enums grow, so a number that is not known keeps its number, and
two words that exclude each other make no capacity type but a doubt. Read ``read_pool`` first.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regions.kueue import accelerators

RESERVED, ON_DEMAND, SPOT, FLEX = "RESERVED", "ON_DEMAND", "SPOT", "FLEX"
GKE_ACCELERATOR = "cloud.google.com/gke-accelerator"
MAX_NODES = 100_000
MAX_CONDITIONS = 50
MAX_ZONES = 50
USUAL_SHUTDOWN_S, USUAL_CRITICAL_S, MAX_WINDOW_S = 30, 15, 600
"""Of the last seconds of a node that is taken back, all and those of the system's own pods."""
_TEXT, _WORD = 1000, 200
_ZONE = re.compile(r"[a-z][a-z0-9-]{0,62}")

STATUSES = {
    1: "PROVISIONING",
    2: "RUNNING",
    3: "RUNNING_WITH_ERROR",
    4: "RECONCILING",
    5: "STOPPING",
    6: "ERROR",
}
GCE_STOCKOUT, GCE_QUOTA_EXCEEDED = "GCE_STOCKOUT", "GCE_QUOTA_EXCEEDED"
CODES = {
    1: GCE_STOCKOUT,
    2: "GKE_SERVICE_ACCOUNT_DELETED",
    3: GCE_QUOTA_EXCEEDED,
    4: "SET_BY_OPERATOR",
    7: "CLOUD_KMS_KEY_ERROR",
    9: "CA_EXPIRING",
    10: "NODE_SERVICE_ACCOUNT_MISSING_PERMISSIONS",
    11: "CLOUD_KMS_KEY_DESTROYED",
}
_RESOURCE_EXHAUSTED = 8  # of google.rpc.Code, which takes the place of the codes above
_ANY_RESERVATION_THEN_FAIL, _SPECIFIC_RESERVATION = 4, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What a pool says is wrong. ``code`` is Google's word, or UNKNOWN with its number."""

    code: str
    message: str
    is_exhausted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One node pool. ``most_nodes`` and ``most_per_zone`` are its autoscaler's caps, None without
    one: how many nodes stand is not told here. ``max_run_s`` None: nodes stay. ``window_s`` is how
    long a node that is taken back leaves to its pods, None: as is usual. ``capacity_type``
    empty: what is told contradicts itself. ``accelerator`` is what users call what Google calls
    ``accelerator_type``. ``labels`` are those that ops gave its nodes.
    """

    name: str
    machine: str
    accelerator: str
    accelerator_type: str
    accelerators_per_node: int | None
    capacity_type: str
    is_preemptible: bool
    is_queued: bool
    reservation: str
    zones: tuple[str, ...]
    most_nodes: int | None
    most_per_zone: int | None
    max_run_s: float | None
    window_s: float | None
    status: str
    conditions: tuple[Condition, ...]
    labels: Mapping[str, str]
    doubts: tuple[str, ...]


def read_pool(message: Any) -> Pool:
    """Read a ``google.container.v1.NodePool`` in protobuf's own form."""
    config = message.config
    doubts: list[str] = []
    zones = tuple(each for each in message.locations[:MAX_ZONES] if _ZONE.fullmatch(each))
    accelerator, count = _accelerators(config.accelerators, doubts)
    total, per_zone = _caps(message.autoscaling, len(zones), doubts)
    return Pool(
        name=message.name[:_WORD],
        machine=config.machine_type[:_WORD],
        accelerator=accelerators.name({GKE_ACCELERATOR: accelerator}),
        accelerator_type=accelerator,
        accelerators_per_node=count,
        capacity_type=_capacity_type(message, doubts),
        is_preemptible=config.preemptible,
        is_queued=message.queued_provisioning.enabled,
        reservation=_reservation(config.reservation_affinity),
        zones=zones,
        most_nodes=total,
        most_per_zone=per_zone,
        max_run_s=_max_run_s(config),
        window_s=_window_s(config.kubelet_config),
        status=STATUSES.get(message.status, f"UNKNOWN_{message.status}"),
        conditions=tuple(_condition(each) for each in message.conditions[:MAX_CONDITIONS]),
        labels={key[:_WORD]: value[:_WORD] for key, value in config.labels.items()},
        doubts=tuple(doubts),
    )


def _capacity_type(message: Any, doubts: list[str]) -> str:
    config = message.config
    # flex_start is optional: a message from before it existed does not say False, it says nothing.
    is_flex = config.HasField("flex_start") and config.flex_start
    told = set()
    if is_flex or message.queued_provisioning.enabled:
        told.add(FLEX)
    if config.spot or config.preemptible:
        told.add(SPOT)
    affinity = config.reservation_affinity.consume_reservation_type
    if affinity in (_SPECIFIC_RESERVATION, _ANY_RESERVATION_THEN_FAIL):
        told.add(RESERVED)
    if len(told) > 1:
        doubts.append(f"it calls itself {' and '.join(sorted(told))} at once")
        return ""
    return told.pop() if told else ON_DEMAND


def _accelerators(told: Any, doubts: list[str]) -> tuple[str, int | None]:
    if len(told) > 1:
        doubts.append("it has accelerators of more than one kind")
        return "", None
    if not told:
        return "", None
    first = told[0]
    if not 0 < first.accelerator_count <= 64:
        doubts.append(f"it has {first.accelerator_count} accelerators on a node")
        return first.accelerator_type[:_WORD], None
    if first.gpu_partition_size:
        doubts.append(f"its accelerators are divided ({first.gpu_partition_size[:_WORD]})")
    return first.accelerator_type[:_WORD], first.accelerator_count


def _caps(autoscaling: Any, zones: int, doubts: list[str]) -> tuple[int | None, int | None]:
    """Return the most nodes of the pool, and of one of its zones.

    ``max_node_count`` is per zone and ``total_max_node_count`` for all; only one of them is set.
    """
    if not autoscaling.enabled:
        return None, None
    total, each = autoscaling.total_max_node_count, autoscaling.max_node_count
    if not (0 <= total <= MAX_NODES and 0 <= each <= MAX_NODES):
        doubts.append("its autoscaler's caps cannot be")
        return None, None
    if total:
        return total, total
    if each and zones:
        return each * zones, each
    doubts.append("it has an autoscaler without a cap")
    return None, None


def _max_run_s(config: Any) -> float | None:
    if not config.HasField("max_run_duration"):
        return None
    seconds = config.max_run_duration.seconds
    return float(seconds) if 0 < seconds <= 365 * 86_400 else None


def _window_s(kubelet: Any) -> float | None:
    """Return what of a node's last seconds is for ordinary pods: those of the system have the rest.

    A field that is not there says that GKE's own value holds, not that it is zero.
    """
    total, critical = "shutdown_grace_period_seconds", "shutdown_grace_period_critical_pods_seconds"
    if not (kubelet.HasField(total) or kubelet.HasField(critical)):
        return None
    whole_s = getattr(kubelet, total) if kubelet.HasField(total) else USUAL_SHUTDOWN_S
    system_s = getattr(kubelet, critical) if kubelet.HasField(critical) else USUAL_CRITICAL_S
    return float(min(MAX_WINDOW_S, max(0, whole_s - system_s)))


def _reservation(affinity: Any) -> str:
    if affinity.consume_reservation_type != _SPECIFIC_RESERVATION or not affinity.values:
        return ""
    return str(affinity.values[0])[:_WORD]


def _condition(message: Any) -> Condition:
    return Condition(
        code=CODES.get(message.code, f"UNKNOWN_{message.code}" if message.code else "UNKNOWN"),
        message=message.message[:_TEXT],
        is_exhausted=message.canonical_code == _RESOURCE_EXHAUSTED,
    )
