"""A small fleet as a platform team would set it up: flavors, queues in a cohort, priorities, pools.

The rule: labels and taints are GKE's, and each flavor is one capacity type of one accelerator. All
of it is plain objects to apply, so that a test changes what it is about. ``equip`` alone
acts.

Read ``cluster_queue``; ``gang`` makes a JobSet that runs on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.cluster.rig.machines.pools import GPU, Pool
from tests.cluster.rig.region import Region

Object = dict[str, Any]
KUEUE = "kueue.x-k8s.io/v1beta2"
PROVISIONING = "cloud.google.com/gke-provisioning"
ACCELERATOR = "cloud.google.com/gke-accelerator"
H100 = "nvidia-h100-80gb"
SPOT = "cloud.google.com/gke-spot"
# Reserved machines are standard ones too: a label of the platform team's own tells them apart.
OWN = "fleet.example.org/capacity"
QUEUED = "cloud.google.com/gke-queued"
FLEX_CHECK = "flex-start"
A3_HIGH = {"cpu": "208", "memory": "1872Gi", GPU: "8", "pods": "110", "ephemeral-storage": "6Ti"}
PRESENT = {"key": GPU, "value": "present", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A capacity type: its name as a flavor, its nodes' own labels, and the taint of its pools."""

    flavor: str
    labels: Mapping[str, str]
    taint: Mapping[str, str] | None = None
    is_queued: bool = False


KINDS = {
    "RESERVED": Kind(
        flavor="reserved",
        labels={
            PROVISIONING: "standard",
            "cloud.google.com/reservation-name": "training",
            "cloud.google.com/reservation-affinity": "specific",
        },
    ),
    "ON_DEMAND": Kind(flavor="on-demand", labels={PROVISIONING: "standard", OWN: "on-demand"}),
    "SPOT": Kind(
        flavor="spot",
        labels={PROVISIONING: "spot", SPOT: "true"},
        taint={"key": SPOT, "value": "true", "effect": "NoSchedule"},
    ),
    "FLEX": Kind(
        flavor="flex",
        labels={
            PROVISIONING: "flex-start",
            "cloud.google.com/gke-flex-start": "true",
            QUEUED: "true",
        },
        taint={"key": QUEUED, "value": "true", "effect": "NoSchedule"},
        is_queued=True,
    ),
}
# What preempts nobody stands below all; what a run is raised to stands above.
PRIORITIES = {"waiting": -1000, "low": 100, "normal": 200, "high": 300}


def pool(capacity_type: str, zone: str, **fields: Any) -> Pool:
    """Return the node pool of a capacity type in a zone; ``fields`` are those of Pool."""
    kind = KINDS[capacity_type]
    return Pool(
        name=f"{kind.flavor}-{zone}",
        zone=zone,
        labels={
            ACCELERATOR: H100,
            "cloud.google.com/machine-family": "a3",
            "node.kubernetes.io/instance-type": "a3-highgpu-8g",
            "topology.kubernetes.io/region": zone.rsplit("-", 1)[0],
            **kind.labels,
        },
        taints=[PRESENT, *([dict(kind.taint)] if kind.taint else [])],
        capacity=A3_HIGH,
        is_queued=kind.is_queued,
        **fields,
    )


def topology(name: str, levels: Sequence[str]) -> Object:
    """Return a Topology of these node labels, the widest first, down to the host."""
    keys = [*levels, "kubernetes.io/hostname"]
    return named(KUEUE, "Topology", name, {"levels": [{"nodeLabel": key} for key in keys]})


def flavor(capacity_type: str) -> Object:
    """Return the ResourceFlavor of a capacity type."""
    kind = KINDS[capacity_type]
    chosen = {
        key: value
        for key, value in kind.labels.items()
        if key in (PROVISIONING, SPOT, OWN, "cloud.google.com/reservation-name")
    }
    spec: Object = {"nodeLabels": {ACCELERATOR: H100, **chosen}}
    if kind.taint:
        tolerated = {k: v for k, v in kind.taint.items() if k != "value"}
        spec["tolerations"] = [{**tolerated, "operator": "Exists"}]
    return named(KUEUE, "ResourceFlavor", kind.flavor, spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one queue has of one capacity type, in accelerators; None borrows without a limit."""

    capacity_type: str
    nominal: int
    borrowing: int | None = None
    lending: int | None = None


def cluster_queue(
    name: str,
    shares: Sequence[Share],
    *,
    cohort: str = "",
    preemption: Mapping[str, Any] | None = None,
    checks: Mapping[str, Sequence[str]] | None = None,
    stop: str = "None",
) -> Object:
    """Return a ClusterQueue. ``checks`` are AdmissionChecks, each with the flavors it is for."""
    spec: Object = {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": [GPU],
                "flavors": [
                    {
                        "name": KINDS[share.capacity_type].flavor,
                        "resources": [quota(share, is_shared=bool(cohort))],
                    }
                    for share in shares
                ],
            }
        ],
        "preemption": preemption
        or {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
        "stopPolicy": stop,
    }
    if cohort:
        spec["cohortName"] = cohort
    asked = dict(checks or {})
    if any(share.capacity_type == "FLEX" for share in shares):
        asked.setdefault(FLEX_CHECK, [KINDS["FLEX"].flavor])
    if asked:
        spec["admissionChecksStrategy"] = {
            "admissionChecks": [
                {"name": check, "onFlavors": list(flavors)} for check, flavors in asked.items()
            ]
        }
    return named(KUEUE, "ClusterQueue", name, spec)


def quota(share: Share, *, is_shared: bool) -> Object:
    found: Object = {"name": GPU, "nominalQuota": str(share.nominal)}
    if is_shared and share.borrowing is not None:
        found["borrowingLimit"] = str(share.borrowing)
    if is_shared and share.lending is not None:
        found["lendingLimit"] = str(share.lending)
    return found


def local_queue(name: str, namespace: str, cluster_queue_name: str) -> Object:
    """Return a LocalQueue."""
    spec = {"clusterQueue": cluster_queue_name}
    return named(KUEUE, "LocalQueue", name, spec, namespace=namespace)


def flex_start(*, attempts: int = 1, backoff_s: int = 1) -> list[Object]:
    """Return the check through which flex-start is asked for, and its configuration."""
    config = {
        "provisioningClassName": "queued-provisioning.gke.io",
        "managedResources": [GPU],
        "parameters": {"maxRunDurationSeconds": "604800"},
        "podSetMergePolicy": "IdenticalWorkloadSchedulingRequirements",
        "retryStrategy": {
            "backoffLimitCount": attempts,
            "backoffBaseSeconds": backoff_s,
            "backoffMaxSeconds": 60,
        },
    }
    check = {
        "controllerName": "kueue.x-k8s.io/provisioning-request",
        "parameters": {
            "apiGroup": "kueue.x-k8s.io",
            "kind": "ProvisioningRequestConfig",
            "name": FLEX_CHECK,
        },
    }
    return [
        named(KUEUE, "ProvisioningRequestConfig", FLEX_CHECK, config),
        named(KUEUE, "AdmissionCheck", FLEX_CHECK, check),
    ]


def priorities() -> list[Object]:
    """Return the WorkloadPriorityClasses."""
    return [
        {
            "apiVersion": KUEUE,
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in PRIORITIES.items()
    ]


def everything(cohort: str = "research") -> list[Object]:
    """Return what all queues of a region share: flavors, checks, priorities, and the cohort."""
    return [
        *(flavor(capacity_type) for capacity_type in KINDS),
        *flex_start(),
        *priorities(),
        named(KUEUE, "Cohort", cohort, {}),
    ]


def equip(region: Region, zone: str, nodes: Mapping[str, int]) -> None:
    """Give a region its shared objects and a pool of each kind, with some nodes to begin with."""
    region.api.apply(*everything())
    for capacity_type in KINDS:
        made = pool(capacity_type, zone)
        region.set_pool(made)
        if nodes.get(capacity_type):
            region.add_nodes(made.name, nodes[capacity_type])


def gang(
    name: str,
    namespace: str,
    queue: str,
    command: Sequence[str],
    *,
    ranks: int = 2,
    gpus: int = 8,
    env: Mapping[str, str] | None = None,
    grace_s: int = 10,
    labels: Mapping[str, str] | None = None,
    pod: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
) -> Object:
    """Return a JobSet of one gang, all ranks or none, never started again by itself.

    ``pod`` and ``container`` are put over the specs' first levels.
    """
    master = f"{name}-workers-0-0.{name}"
    rank = {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
    told = {"MASTER_ADDR": master, "MASTER_PORT": "29500", "WORLD_SIZE": str(ranks), **(env or {})}
    process: Object = {
        "name": "main",
        "image": "registry.invalid/trainer@sha256:" + "0" * 64,
        "command": list(command),
        "env": [
            {"name": "RANK", "valueFrom": {"fieldRef": rank}},
            *({"name": key, "value": value} for key, value in told.items()),
        ],
        "resources": {"limits": {GPU: str(gpus)}},
        **(container or {}),
    }
    job: Object = {
        "parallelism": ranks,
        "completions": ranks,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": grace_s,
                "containers": [process],
                **(pod or {}),
            }
        },
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"kueue.x-k8s.io/queue-name": queue, **(labels or {})},
        },
        "spec": {
            "suspend": True,
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": job}}],
        },
    }


def named(api_version: str, kind: str, name: str, spec: Object, *, namespace: str = "") -> Object:
    meta: Object = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}
