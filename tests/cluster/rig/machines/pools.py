"""Node pools as a test orders them, and the nodes and events that a cloud makes of them. Pure.

Read ``Pool``: each field is something that a cloud does to its users.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from tests.cluster.rig.machines.containers import second
from tests.cluster.rig.machines.environment import quantity
from tests.cluster.rig.machines.output import timestamp

Object = dict[str, Any]
LIVE_NODE = "rig.capacity-broker/live"
POOL = "cloud.google.com/gke-nodepool"
ZONE = "topology.kubernetes.io/zone"
REQUEST = "autoscaling.gke.io/provisioning-request"
ENDS_AT = "node.gke.io/machine-termination-datetime"
GPU = "nvidia.com/gpu"

Answer = Literal["nodes", "stockout", "quota", "silent"]
FlexAnswer = Literal["provision", "wait", "fail", "silent"]


@dataclass(slots=True, kw_only=True)
class Pool:
    """One node pool in one zone. A test changes the fields at any time; times in seconds.

    ``supply`` is how many nodes the cloud still gives, None for any number; with fewer than asked
    for, they come in part and the rest is out of stock. ``answer`` is what a scale-up meets.
    ``idle_s`` is how long an empty node stays, None for ever; ``max_run_s`` how long any node does.
    ``is_queued`` pools get nodes through ProvisioningRequests alone, and ``flex`` is what these
    meet, with ``flex_message`` in its condition; ``booking_s`` is how long a booking holds.
    """

    name: str
    zone: str
    labels: dict[str, str]
    taints: list[dict[str, str]]
    capacity: dict[str, str]
    max_nodes: int = 1000
    supply: int | None = None
    delay_s: float = 0.0
    answer: Answer = "nodes"
    backoff_s: float = 5.0
    idle_s: float | None = None
    max_run_s: float | None = None
    is_autoscaled: bool = False
    is_queued: bool = False
    flex: FlexAnswer = "provision"
    flex_message: str = ""
    booking_s: float | None = None
    made: int = 0  # nodes so far, for their names

    @property
    def accelerators(self) -> int:
        """Accelerators of one node."""
        return int(self.capacity.get(GPU, "0"))

    def take(self, count: int) -> int:
        """Take nodes out of the supply and return how many there were."""
        if self.supply is None:
            return count
        given = min(count, self.supply)
        self.supply -= given
        return given

    def group(self, region: str) -> str:
        """Return the name of its instance group, as the autoscaler's events have it."""
        place = f"https://www.googleapis.com/compute/v1/projects/rig/zones/{self.zone}"
        return f"{place}/instanceGroups/gke-{region}-{self.name}-grp"


def new_node(pool: Pool, region: str, request: str = "") -> Object:
    """Return the next node of a pool; ``request`` is the ProvisioningRequest that it is for."""
    pool.made += 1
    digest = hashlib.sha256(f"{region}/{pool.name}".encode()).hexdigest()[:8]
    name = f"gke-{region}-{pool.name}-{digest}-{pool.made:03d}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        LIVE_NODE: "true",
        POOL: pool.name,
        ZONE: pool.zone,
        **pool.labels,
    }
    annotations = {}
    if request:
        labels[REQUEST] = request
    if pool.max_run_s is not None:
        ends = datetime.now(UTC) + timedelta(seconds=pool.max_run_s)
        annotations[ENDS_AT] = timestamp(ends)[:19] + "Z"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"taints": pool.taints, "providerID": f"gce://rig/{pool.zone}/{name}"},
        "status": {"capacity": pool.capacity, "allocatable": pool.capacity},
    }


@dataclass(slots=True, kw_only=True)
class Growth:
    """Nodes on their way into a pool."""

    pool: str
    count: int
    due_s: float  # on the loop's clock
    pods: set[str] = field(default_factory=set)


def fits(pool: Pool, spec: Mapping[str, Any]) -> bool:
    """Whether a pod's selector, tolerations and accelerators suit the nodes of a pool.

    Who asks for accelerators tolerates their taint: admission adds that to pods, and the templates
    of ProvisioningRequests were never admitted.
    """
    labels = {POOL: pool.name, ZONE: pool.zone, **pool.labels}
    wanted = spec.get("nodeSelector") or {}
    tolerations = spec.get("tolerations") or []
    if gpus(spec):
        tolerations = [*tolerations, {"key": GPU, "operator": "Exists"}]
    return (
        all(labels.get(key) == value for key, value in wanted.items() if key != REQUEST)
        and all(is_tolerated(taint, tolerations) for taint in pool.taints)
        and gpus(spec) <= pool.accelerators
    )


def is_tolerated(taint: Mapping[str, str], tolerations: list[Object]) -> bool:
    """Whether one of the tolerations lets a pod onto a node with a taint."""
    return any(
        t.get("effect") in (None, "", taint["effect"])
        and (
            (t.get("operator") == "Exists" and t.get("key") in (None, "", taint["key"]))
            or (t.get("key") == taint["key"] and t.get("value", "") == taint.get("value", ""))
        )
        for t in tolerations
    )


def gpus(spec: Mapping[str, Any]) -> int:
    """Return how many accelerators a pod asks for."""
    limits = (c.get("resources", {}).get("limits", {}) for c in spec.get("containers", []))
    return sum(int(quantity(found.get(GPU, "0"))) for found in limits)


def event(pod: Object, kind: str, reason: str, message: str) -> Object:
    """Return an event about a pod as the cluster autoscaler writes it."""
    meta, now = pod["metadata"], second()
    about = {"kind": "Pod", "apiVersion": "v1", "uid": meta["uid"]}
    about |= {"name": meta["name"], "namespace": meta["namespace"]}
    return {
        "metadata": {"generateName": f"{meta['name']}."},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "type": kind,
        "source": {"component": "cluster-autoscaler"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def node_event(node: str, reason: str, message: str) -> Object:
    """Return an event about a node as its kubelet writes it, which knows it by its name alone."""
    now = second()
    return {
        "metadata": {"generateName": f"{node}."},
        "involvedObject": {"kind": "Node", "name": node, "uid": node},
        "reason": reason,
        "message": message,
        "type": "Normal",
        "source": {"component": "kubelet", "host": node},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def is_unschedulable(pod: Object) -> bool:
    """Whether the scheduler found no node for a pod."""
    return not pod["spec"].get("nodeName") and any(
        c["type"] == "PodScheduled"
        and c["status"] == "False"
        and c.get("reason") == "Unschedulable"
        for c in pod.get("status", {}).get("conditions", [])
    )
