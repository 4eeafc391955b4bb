"""Quota that is held by what was put out long ago: anybody's, told to who runs the cluster. Pure.

The rule: Kueue takes quota back once the owner of a Workload has stopped, so one without an owner
that is seen to stop keeps it until somebody deletes it; for us it is quota like any other that is
not free, and only the operators can give it back. Read ``sentences``.
"""

from collections.abc import Iterable

from regions.kueue.objects.quotas import FlavorResource
from regions.kueue.objects.workload import Workload

PATIENCE_S = 600.0
"""Put out, a gang has its grace to save and stop in, which is minutes at most."""
SAID = 10


def sentences(workloads: Iterable[Workload], now_s: float) -> tuple[str, ...]:
    """Name each Workload that holds quota long after it was put out. ``now_s`` in Unix seconds."""
    found = sorted(
        (each for each in workloads if _is_in_vain(each, now_s)), key=lambda each: each.meta.key
    )
    told = tuple(map(_sentence, found[:SAID]))
    more = len(found) - SAID
    return told if more <= 0 else (*told, f"{more} more Workloads were put out and hold quota")


def _is_in_vain(workload: Workload, now_s: float) -> bool:
    # What is switched off still says that it has quota; Kueue counts it no more.
    if not (workload.has_quota and workload.is_active and workload.holds("Evicted")):
        return False
    is_to_come = workload.requeue_at_s is not None and workload.requeue_at_s > now_s
    times = [each.since_s for each in workload.conditions if each.since_s is not None]
    return not is_to_come and bool(times) and now_s - max(times) > PATIENCE_S


def _sentence(workload: Workload) -> str:
    totals: dict[FlavorResource, int] = {}
    for assignment in workload.assignments:
        for what, value in assignment.held.items():
            totals[what] = totals.get(what, 0) + value
    held = ", ".join(f"{value} {what[1]} of {what[0]}" for what, value in sorted(totals.items()))
    return (
        f"Workload {workload.meta.key} was put out and still holds {held or 'quota'} "
        f"in ClusterQueue {workload.admitted_to}"
    )
