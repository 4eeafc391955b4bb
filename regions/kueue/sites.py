"""Where an order is to run, looked up in what is seen of the cluster. Pure.

The rule: a queue or a flavor that is seen not to be there refuses the order for good; one that
cannot be seen now only says to ask again. Read ``site_of`` first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regions.cluster import Queue
from regions.kueue import accelerators, names
from regions.kueue.landing import GKE_ACCELERATOR
from regions.kueue.manifest import CannotQueueError
from regions.kueue.objects.priority_class import PriorityClass
from regions.kueue.objects.resource_flavor import ResourceFlavor
from regions.kueue.profiles import Profiles, Reach
from regions.kueue.queue_view import QueueSettings
from regions.kueue.site import Bucket, Pace, Site
from regions.kueue.snapshot import Seen, Snapshot


class NotSeenError(Exception):
    """What an order needs cannot be seen now; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueSettings:
    """One member cluster, as ops wrote it down.

    ``priority_classes`` names those of the cluster's classes that are for our gangs; empty: those
    that the cluster was set up with for us. Others' classes are never taken.
    ``gate_fresh_s``: how long a gate's count that moved proves that its process is there.
    """

    cluster: str
    region: str
    queues: QueueSettings
    profiles: Profiles
    is_gke: bool = False
    priority_classes: frozenset[str] = frozenset()
    bucket: Bucket | None = None
    store_reach: tuple[Reach, ...] = ()
    pace: Pace = field(default_factory=Pace)
    gate_fresh_s: float = 15.0

    @property
    def namespace(self) -> str:
        """The namespace that is ours."""
        return self.queues.namespace


def site_of(
    queue: Queue, snapshot: Snapshot, classes: Seen[PriorityClass], settings: KueueSettings
) -> Site:
    """Return where an order is to run. Raises CannotQueueError, NotSeenError."""
    flavor = _flavor(queue, snapshot, settings)
    if not (classes.is_known or classes.is_denied):
        # Queued without a class a gang preempts others while it waits, and cannot be given one.
        raise NotSeenError("the priority classes of the cluster cannot be seen now")
    return Site(
        namespace=settings.namespace,
        cluster=settings.cluster,
        region=settings.region,
        is_gke=settings.is_gke,
        node_labels=flavor.node_labels,
        taints=flavor.taints,
        topology=flavor.topology,
        levels=snapshot.levels(flavor),
        priority_classes=priority_classes(classes, settings),
        profile=settings.profiles.of(queue.flavor),
        accelerator_label=_accelerator_label(queue, flavor, snapshot) if settings.is_gke else "",
        bucket=settings.bucket,
        store_reach=settings.store_reach,
        pace=settings.pace,
    )


def priority_classes(classes: Seen[PriorityClass], settings: KueueSettings) -> Mapping[str, int]:
    """Return the classes that are for our gangs, by name."""
    return classes_for(classes.objects.values(), settings.priority_classes)


def classes_for(classes: Iterable[PriorityClass], named: frozenset[str]) -> Mapping[str, int]:
    """Return the classes that are named; without names those that the cluster was set up with."""
    return {
        each.meta.name: each.value
        for each in classes
        if (each.meta.name in named if named else names.is_set_up(each.meta.labels))
    }


def _flavor(queue: Queue, snapshot: Snapshot, settings: KueueSettings) -> ResourceFlavor:
    allowed = settings.queues.queues
    key = f"{settings.namespace}/{queue.queue}"
    local = snapshot.local_queues.objects.get(key)
    if allowed and queue.queue not in allowed:
        raise CannotQueueError(f"queue {queue.queue[:80]!r} is not for the broker")
    if local is None:
        _need(snapshot.local_queues, key, "the queues")
        raise CannotQueueError(f"there is no queue {queue.queue[:80]!r}")
    above = snapshot.cluster_queues.objects.get(local.cluster_queue)
    if above is not None:
        names = {each.flavor for group in above.groups for each in group.flavors}
        if queue.flavor not in names:
            raise CannotQueueError(f"queue {queue.queue} has no flavor {queue.flavor[:80]!r}")
    found = snapshot.flavors.objects.get(queue.flavor)
    if found is None:
        _need(snapshot.flavors, queue.flavor, "the flavors")
        raise CannotQueueError(f"there is no flavor {queue.flavor[:80]!r}")
    return found


def _need(seen: Seen[Any], key: str, what: str) -> None:
    if not seen.is_known or key in seen.unreadable:
        raise NotSeenError(f"{what} of the cluster cannot be seen now")


def _accelerator_label(queue: Queue, flavor: ResourceFlavor, snapshot: Snapshot) -> str:
    """Return what GKE calls the accelerator, as the flavor or one of its nodes has it."""
    if GKE_ACCELERATOR in flavor.node_labels:
        return flavor.node_labels[GKE_ACCELERATOR]
    for node in snapshot.nodes.objects.values():
        labels = node.meta.labels
        is_of_it = all(labels.get(key) == value for key, value in flavor.node_labels.items())
        if is_of_it and accelerators.name(labels) == queue.gang.accelerator:
            return labels.get(GKE_ACCELERATOR, "")
    return ""
