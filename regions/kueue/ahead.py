"""Who waits in a queue, in the order in which Kueue will look at them. Pure.

The rule: a place in the line orders, and promises nothing: Kueue passes over whom it cannot place
(unless the queue is strict), and one that does not fit may stand first for ever. The order is that
of Kueue: priority, then since when it waits anew, then its uid. Read ``lines`` first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from regions.kueue import accelerators
from regions.kueue.objects import meta
from regions.kueue.objects.workload import PodSet, Workload

WAITS_ANEW = ("PodsReadyTimeout", "AdmissionCheck")
"""Reasons of an eviction after which a workload goes to the end of its priority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One that waits. ``gpus`` is what it asks for in all."""

    key: str
    uid: str
    priority: int
    since_s: float
    gpus: int


def lines(
    workloads: Iterable[Workload], queue_of: Mapping[str, str]
) -> dict[str, tuple[Waiting, ...]]:
    """Return who waits, first first, by ClusterQueue; one for which nobody waits is left out.

    ``queue_of`` names the ClusterQueue of each LocalQueue, by namespace and name.
    """
    found: dict[str, list[Waiting]] = {}
    for each in workloads:
        queue = queue_of.get(f"{each.meta.namespace}/{each.queue}", "")
        if queue and is_waiting(each):
            found.setdefault(queue, []).append(_waiting(each))
    return {
        queue: tuple(sorted(waiting, key=lambda each: (-each.priority, each.since_s, each.uid)))
        for queue, waiting in found.items()
    }


def is_waiting(workload: Workload) -> bool:
    """Whether a workload still has to be given quota."""
    return workload.is_active and not workload.admitted_to and not workload.is_finished


def places(lines: Mapping[str, Iterable[Waiting]]) -> dict[str, tuple[int, int]]:
    """Return how many stand before each who waits in its line, and their GPUs, by its key."""
    found = {}
    for line in lines.values():
        gpus = 0
        for place, each in enumerate(line):
            found[each.key] = (place, gpus)
            gpus += each.gpus
    return found


def gpus(workload: Workload) -> int:
    """Return the accelerators that a workload asks for in all."""
    return sum(_asked(workload, each) for each in workload.pod_sets)


def _asked(workload: Workload, pod_set: PodSet) -> int:
    told = workload.asked.get(pod_set.name)
    if told is not None:
        return accelerators.count(told)
    return accelerators.count(pod_set.requests) * pod_set.count


def _waiting(workload: Workload) -> Waiting:
    since_s = workload.meta.created_s or 0.0
    evicted = meta.find(workload.conditions, "Evicted")
    if evicted is not None and evicted.status and evicted.reason in WAITS_ANEW:
        since_s = evicted.since_s or since_s
    return Waiting(
        key=workload.meta.key,
        uid=workload.meta.uid,
        priority=workload.priority,
        since_s=since_s,
        gpus=gpus(workload),
    )
