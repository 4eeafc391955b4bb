"""The kinds that are watched: where each is served, in which versions, and what reads it.

The rule: an object that cannot be read is there all the same; it is kept as ``Unreadable`` with the
reason, so that nobody takes it for absent. Read ``decode`` first, ``KINDS`` for the table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from regions.kueue.objects.admission_check import (
    read_admission_check,
    read_provisioning_config,
)
from regions.kueue.objects.cluster_queue import read_cluster_queue
from regions.kueue.objects.cohort import read_cohort
from regions.kueue.objects.event import read_event
from regions.kueue.objects.job_set import read_job_set
from regions.kueue.objects.local_queue import read_local_queue
from regions.kueue.objects.node import read_node
from regions.kueue.objects.pod import read_pod
from regions.kueue.objects.priority_class import read_priority_class
from regions.kueue.objects.provisioning_request import (
    read_provisioning_request,
)
from regions.kueue.objects.reading import Fields, UnreadableError
from regions.kueue.objects.resource_flavor import read_resource_flavor
from regions.kueue.objects.topology import read_topology
from regions.kueue.objects.workload import read_workload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

KUEUE = "kueue.x-k8s.io"
_KUEUE_VERSIONS = ("v1beta2", "v1beta1")
_COHORT_VERSIONS = (*_KUEUE_VERSIONS, "v1alpha1")  # cohorts and topologies came later


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[T_co]):
    """One kind. ``versions`` are those that ``read`` knows, the best first; group "" is core."""

    group: str
    plural: str
    versions: tuple[str, ...]
    is_namespaced: bool
    read: Callable[[Fields, str], T_co]

    @property
    def name(self) -> str:
        """Its full name, as kubectl takes it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """An object that is there and cannot be read. ``uid`` is empty where even that is not told."""

    key: str
    uid: str
    reason: str


CLUSTER_QUEUES = Kind(
    group=KUEUE,
    plural="clusterqueues",
    versions=_KUEUE_VERSIONS,
    is_namespaced=False,
    read=read_cluster_queue,
)
LOCAL_QUEUES = Kind(
    group=KUEUE,
    plural="localqueues",
    versions=_KUEUE_VERSIONS,
    is_namespaced=True,
    read=read_local_queue,
)
COHORTS = Kind(
    group=KUEUE,
    plural="cohorts",
    versions=_COHORT_VERSIONS,
    is_namespaced=False,
    read=read_cohort,
)
RESOURCE_FLAVORS = Kind(
    group=KUEUE,
    plural="resourceflavors",
    versions=_KUEUE_VERSIONS,
    is_namespaced=False,
    read=read_resource_flavor,
)
TOPOLOGIES = Kind(
    group=KUEUE,
    plural="topologies",
    versions=_COHORT_VERSIONS,
    is_namespaced=False,
    read=read_topology,
)
ADMISSION_CHECKS = Kind(
    group=KUEUE,
    plural="admissionchecks",
    versions=_KUEUE_VERSIONS,
    is_namespaced=False,
    read=read_admission_check,
)
PROVISIONING_CONFIGS = Kind(
    group=KUEUE,
    plural="provisioningrequestconfigs",
    versions=_KUEUE_VERSIONS,
    is_namespaced=False,
    read=read_provisioning_config,
)
WORKLOADS = Kind(
    group=KUEUE,
    plural="workloads",
    versions=_KUEUE_VERSIONS,
    is_namespaced=True,
    read=read_workload,
)
PRIORITY_CLASSES = Kind(
    group=KUEUE,
    plural="workloadpriorityclasses",
    versions=_KUEUE_VERSIONS,
    is_namespaced=False,
    read=read_priority_class,
)
JOB_SETS = Kind(
    group="jobset.x-k8s.io",
    plural="jobsets",
    versions=("v1alpha2",),
    is_namespaced=True,
    read=read_job_set,
)
PROVISIONING_REQUESTS = Kind(
    group="autoscaling.x-k8s.io",
    plural="provisioningrequests",
    versions=("v1", "v1beta1"),
    is_namespaced=True,
    read=read_provisioning_request,
)
PODS = Kind(group="", plural="pods", versions=("v1",), is_namespaced=True, read=read_pod)
NODES = Kind(group="", plural="nodes", versions=("v1",), is_namespaced=False, read=read_node)
EVENTS = Kind(group="", plural="events", versions=("v1",), is_namespaced=True, read=read_event)

KINDS: tuple[Kind[object], ...] = (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    COHORTS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    ADMISSION_CHECKS,
    PROVISIONING_CONFIGS,
    WORKLOADS,
    PRIORITY_CLASSES,
    JOB_SETS,
    PROVISIONING_REQUESTS,
    PODS,
    NODES,
    EVENTS,
)


def decode(kind: Kind[T], version: str, raw: object) -> T | Unreadable:
    """Read an object; raises nothing, whatever it is."""
    try:
        return kind.read(Fields(raw), version)
    except UnreadableError as error:
        key, uid = _who(raw)
        return Unreadable(key=key, uid=uid, reason=f"{kind.name} {key}: {error}")


def key_of(raw: object) -> str:
    """Return the key of an object that may not be readable otherwise, empty when it has none."""
    return _who(raw)[0]


def _who(raw: object) -> tuple[str, str]:
    meta = raw.get("metadata") if isinstance(raw, dict) else None
    if not isinstance(meta, dict):
        return "", ""
    name, namespace, uid = (meta.get(field) for field in ("name", "namespace", "uid"))
    if not isinstance(name, str) or not name:
        return "", ""
    place = f"{namespace}/" if isinstance(namespace, str) and namespace else ""
    return f"{place}{name}"[:600], uid if isinstance(uid, str) else ""
