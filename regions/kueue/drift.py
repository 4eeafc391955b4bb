"""Where Kueue's own count of what is held differs from the Workloads that hold it. Pure.

The rule: Kueue admits by its own count, so that is what counts for us too; but quota that nobody
holds is lost until somebody restarts Kueue, and they are told. A difference is told only when it
lasts: the two are written one after the other. Read ``lasting`` first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from regions.kueue.objects.cluster_queue import ClusterQueue
from regions.kueue.objects.quotas import FlavorResource, by_flavor
from regions.kueue.objects.workload import Assignment, Workload

PATIENCE_S = 60.0
"""Kueue writes a queue's status within a second or two; a restart of it takes longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A difference in one resource of a flavor. ``told`` is Kueue's count, ``counted`` ours."""

    queue: str
    flavor: str
    resource: str
    told: int
    counted: int

    def sentence(self) -> str:
        """Say it to whoever runs the cluster."""
        return (
            f"ClusterQueue {self.queue} counts {self.told} {self.resource} of {self.flavor} as "
            f"held, its Workloads hold {self.counted}"
        )


def held(workloads: Iterable[Workload]) -> dict[str, dict[FlavorResource, int]]:
    """Sum what Workloads hold, by ClusterQueue."""
    found: dict[str, dict[FlavorResource, int]] = {}
    for workload in workloads:
        # What is switched off still says that it has quota; Kueue counts it no more.
        if not (workload.has_quota and workload.is_active):
            continue
        totals = found.setdefault(workload.admitted_to, {})
        for assignment in workload.assignments:
            for what, value in _held_still(workload, assignment).items():
                totals[what] = totals.get(what, 0) + value
    return found


def differences(
    queues: Iterable[ClusterQueue], counted: Mapping[str, Mapping[FlavorResource, int]]
) -> frozenset[Drift]:
    """Compare the queues' own counts with those of their Workloads, now."""
    found = set()
    for queue in queues:
        if queue.reservation is None:
            continue
        name = queue.meta.name
        for what in by_flavor(queue.groups).keys() | queue.reservation.keys():
            told, ours = queue.reservation.get(what, 0), counted.get(name, {}).get(what, 0)
            if told != ours:
                found.add(
                    Drift(queue=name, flavor=what[0], resource=what[1], told=told, counted=ours)
                )
    return frozenset(found)


def lasting(
    since: Mapping[Drift, float], found: Iterable[Drift], now_s: float
) -> dict[Drift, float]:
    """Return since when each difference is the same: what was not there before begins now.

    One whose figures move is another: on a busy queue the two counts are never of one moment.
    """
    return {drift: since.get(drift, now_s) for drift in found}


def settled(since: Mapping[Drift, float], now_s: float) -> tuple[Drift, ...]:
    """Return the differences that have lasted, in a fixed order."""
    return tuple(
        sorted(
            (drift for drift, at_s in since.items() if now_s - at_s >= PATIENCE_S),
            key=lambda drift: (drift.queue, drift.flavor, drift.resource),
        )
    )


def _held_still(workload: Workload, assignment: Assignment) -> Mapping[FlavorResource, int]:
    """What an assignment holds without the pods that need it no more, as Kueue counts them."""
    wanted = next(
        (each.count for each in workload.pod_sets if each.name == assignment.pod_set), None
    )
    if wanted is None or not assignment.count:
        return assignment.held
    left = max(0, wanted - workload.reclaimable.get(assignment.pod_set, 0))
    if left >= assignment.count:
        return assignment.held
    return {what: value // assignment.count * left for what, value in assignment.held.items()}
