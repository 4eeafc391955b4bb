"""LocalQueues: the door to a ClusterQueue that a namespace has."""

from dataclasses import dataclass

from regions.kueue.objects.meta import Conditions, Meta, read_conditions, read_meta
from regions.kueue.objects.reading import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    """One LocalQueue."""

    meta: Meta
    cluster_queue: str
    stop_policy: str
    pending: int
    conditions: Conditions


def read_local_queue(fields: Fields, _: str) -> LocalQueue:
    """Read a LocalQueue; what we use of it is the same in both versions."""
    spec, status = fields.inner("spec"), fields.inner("status")
    return LocalQueue(
        meta=read_meta(fields),
        cluster_queue=spec.text("clusterQueue"),
        stop_policy=spec.text("stopPolicy", "None"),
        pending=status.count("pendingWorkloads"),
        conditions=read_conditions(status),
    )
