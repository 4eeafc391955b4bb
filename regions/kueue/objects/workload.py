"""Workloads: what everybody asks of the queues, and what they hold.

There can be thousands, so that of a pod's template only what it asks for is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from regions.kueue.objects import meta
from regions.kueue.objects.meta import Conditions, Meta, read_conditions, read_meta
from regions.kueue.objects.pod_spec import read_requests
from regions.kueue.objects.quotas import FlavorResource
from regions.kueue.objects.reading import Fields

V1BETA1 = "v1beta1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """Pods that are alike. ``requests`` is of one pod."""

    name: str
    count: int
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a pod set was given: ``held`` of all its ``count`` pods together."""

    pod_set: str
    count: int
    held: Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckState:
    """How far an admission check is. ``state``: Pending, Ready, Retry, Rejected."""

    name: str
    state: str
    message: str
    since_s: float | None
    requeue_after_s: int | None
    retries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One Workload.

    ``admitted_to`` is the ClusterQueue whose quota it holds, empty for none. ``asked`` is what
    Kueue counted for each pod set when it did not get quota, by the pod set's name. ``reclaimable``
    are pods that need no quota any more. ``requeue_at_s``: not tried again before. ``evictions``
    are the reasons of all times that it was put out, each once.
    """

    meta: Meta
    queue: str
    priority: int
    priority_class: str
    is_active: bool
    pod_sets: tuple[PodSet, ...]
    admitted_to: str
    assignments: tuple[Assignment, ...]
    asked: Mapping[str, Mapping[str, int]]
    reclaimable: Mapping[str, int]
    checks: tuple[CheckState, ...]
    requeue_at_s: float | None
    requeues: int
    evictions: tuple[str, ...]
    conditions: Conditions

    def holds(self, condition: str) -> bool:
        """Whether a condition is there and true."""
        return meta.holds(self.conditions, condition)

    @property
    def is_finished(self) -> bool:
        """Whether it is over, and holds nothing any more."""
        return self.holds("Finished")

    @property
    def has_quota(self) -> bool:
        """Whether it holds quota, running or not."""
        return bool(self.admitted_to) and self.holds("QuotaReserved") and not self.is_finished


def read_workload(fields: Fields, version: str) -> Workload:
    """Read a Workload as the version has it."""
    spec, status = fields.inner("spec"), fields.inner("status")
    pod_sets = tuple(_pod_set(each) for each in spec.each("podSets"))
    admission = status.inner("admission")
    counts = {each.name: each.count for each in pod_sets}
    requeue = status.inner("requeueState")
    return Workload(
        meta=read_meta(fields),
        queue=spec.text("queueName"),
        priority=spec.integer("priority") or 0,
        priority_class=_priority_class(spec, version),
        is_active=spec.flag("active", default=True),
        pod_sets=pod_sets,
        admitted_to=admission.text("clusterQueue"),
        assignments=tuple(
            _assignment(each, counts) for each in admission.each("podSetAssignments")
        ),
        asked={
            each.text("name"): each.amounts("resources") for each in status.each("resourceRequests")
        },
        reclaimable={
            each.text("name"): each.count("count") for each in status.each("reclaimablePods")
        },
        checks=tuple(_check(each) for each in status.each("admissionChecks")),
        requeue_at_s=requeue.time_s("requeueAt"),
        requeues=requeue.count("count"),
        evictions=_evictions(status.inner("schedulingStats")),
        conditions=read_conditions(status),
    )


def _pod_set(fields: Fields) -> PodSet:
    spec = fields.inner("template").inner("spec")
    return PodSet(
        name=fields.text("name"),
        count=fields.count("count"),
        requests=read_requests(spec),
    )


def _assignment(fields: Fields, counts: Mapping[str, int]) -> Assignment:
    pod_set = fields.text("name")
    flavors = fields.pairs("flavors")
    usage = fields.amounts("resourceUsage")
    return Assignment(
        pod_set=pod_set,
        count=fields.count("count", counts.get(pod_set, 0)),
        # A resource that no flavor covers is not counted against any quota.
        held={(flavors[name], name): held for name, held in usage.items() if name in flavors},
    )


def _check(fields: Fields) -> CheckState:
    return CheckState(
        name=fields.text("name"),
        state=fields.text("state"),
        message=fields.message("message"),
        since_s=fields.time_s("lastTransitionTime"),
        requeue_after_s=fields.integer("requeueAfterSeconds"),
        retries=fields.count("retryCount"),
    )


def _evictions(stats: Fields) -> tuple[str, ...]:
    """Return the reasons as the condition ``Evicted`` gives them."""
    found: dict[str, None] = {}
    for each in stats.each("evictions"):
        reason, cause = each.text("reason"), each.text("underlyingCause")
        # Of Deactivated alone the cause is part of the condition's reason.
        is_for_good = bool(cause) and reason == "Deactivated"
        found[f"{reason}DueTo{cause}" if is_for_good else reason] = None
    return tuple(found)


def _priority_class(spec: Fields, version: str) -> str:
    """Return the WorkloadPriorityClass, empty when its priority comes from elsewhere."""
    if version == V1BETA1:
        is_own = spec.text("priorityClassSource") == "kueue.x-k8s.io/workloadpriorityclass"
        return spec.text("priorityClassName") if is_own else ""
    named = spec.inner("priorityClassRef")
    return named.text("name") if named.text("kind") == "WorkloadPriorityClass" else ""
