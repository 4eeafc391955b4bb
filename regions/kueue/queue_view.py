"""What the port shows of the queues that we may use, and of their flavors. Pure.

The rule: a figure that rests on something unseen is None. A flavor of which nobody says what it is
cannot be offered, and is told as a doubt, with what ops can write to end it; it makes nothing else
unknown. Read ``queues_seen`` first.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from regions.capacity import FlavorSeen, KnownSeen, QueueSeen, RoomSeen
from regions.kueue import accelerators, ahead, flavors, landing, machines
from regions.kueue.flavors import Description, FlavorSettings
from regions.kueue.objects import meta
from regions.kueue.objects.admission_check import MULTIKUEUE, PROVISIONING
from regions.kueue.objects.cluster_queue import ClusterQueue
from regions.kueue.objects.local_queue import LocalQueue
from regions.kueue.objects.resource_flavor import ResourceFlavor
from regions.kueue.priced import Priced, PriceOf
from regions.kueue.quota import Tree
from regions.kueue.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Which queues are ours to use, and what ops wrote of their flavors.

    ``queues`` are names of LocalQueues in ``namespace``; empty: all that are there. ``prices`` are
    per GPU and hour, by flavor; where a flavor's is not there ``price_of`` tells it.
    """

    namespace: str
    queues: frozenset[str] = frozenset()
    flavors: Mapping[str, FlavorSettings] = field(default_factory=dict)
    prices: Mapping[str, Decimal] = field(default_factory=dict)
    price_of: PriceOf | None = None

    def price(self, flavor: str, is_: Description) -> Priced:
        """Return what a GPU of a flavor costs for an hour."""
        if flavor in self.prices or self.price_of is None or is_.accelerators_per_node is None:
            return Priced(per_gpu_hour=self.prices.get(flavor))
        return self.price_of(
            is_.capacity_type.word, is_.accelerator.word, is_.accelerators_per_node
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesSeen:
    """The queues, and sentences for ops on what cannot be offered, or contradicts itself.

    ``known`` says where prices are from. ``places``: how many stand before each Workload that
    waits, and their GPUs, by its key.
    """

    queues: tuple[QueueSeen, ...]
    doubts: tuple[str, ...]
    known: tuple[KnownSeen, ...] = ()
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def queues_seen(
    snapshot: Snapshot,
    settings: QueueSettings,
    now_s: float,
    level_of: Callable[[str], str] = lambda _: "",
) -> QueuesSeen:
    """Describe the queues. ``now_s`` is in Unix seconds.

    ``level_of`` returns the level of its Topology that a flavor's gangs can require, or nothing.
    """
    look = _Look(snapshot, settings, now_s, level_of)
    ours = [
        queue
        for queue in snapshot.local_queues.objects.values()
        if queue.meta.namespace == settings.namespace
        and (not settings.queues or queue.meta.name in settings.queues)
    ]
    queues = tuple(look.queue(queue) for queue in sorted(ours, key=lambda each: each.meta.name))
    doubts = tuple(dict.fromkeys(look.doubts))
    return QueuesSeen(
        queues=queues, doubts=doubts, known=tuple(look.known), places=ahead.places(look.lines)
    )


class _Look:
    """One look at all queues: what several of them need is worked out once."""

    def __init__(
        self,
        snapshot: Snapshot,
        settings: QueueSettings,
        now_s: float,
        level_of: Callable[[str], str],
    ) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._now_s = now_s
        self._level_of = level_of
        self.doubts: list[str] = []
        self.known: list[KnownSeen] = []
        trees = (snapshot.cluster_queues, snapshot.cohorts)
        self._tree = Tree(
            self._held_now(),
            snapshot.cohorts.objects.values(),
            is_whole=all(each.is_whole for each in trees),
        )
        self._lost = self._tree.in_circles()
        queue_of = {key: each.cluster_queue for key, each in snapshot.local_queues.objects.items()}
        self.lines = ahead.lines(snapshot.workloads.objects.values(), queue_of)
        self._in_use = machines.taken(snapshot.pods.objects.values())

    def _held_now(self) -> Iterable[ClusterQueue]:
        """The ClusterQueues; what they hold is of now, or is unknown."""
        for each in self._snapshot.cluster_queues.objects.values():
            is_known = self._snapshot.cluster_queues.is_known
            yield each if is_known else replace(each, reservation=None, usage=None)

    def queue(self, queue: LocalQueue) -> QueueSeen:
        """Describe one LocalQueue and the ClusterQueue behind it."""
        above = self._snapshot.cluster_queues.objects.get(queue.cluster_queue)
        if above is not None and above.meta.name in self._lost:
            self.doubts.append(
                f"the cohorts above ClusterQueue {above.meta.name} have no end: Kueue admits"
                f" nothing there"
            )
        pending, gpus = self._pending(queue, above)
        return QueueSeen(
            queue=queue.meta.name,
            is_stopped=_is_stopped(queue) or (above is not None and _is_stopped(above)),
            pending=pending,
            pending_gpus=gpus,
            flavors=tuple(self._flavors(queue, above)) if above is not None else (),
        )

    def _pending(
        self, queue: LocalQueue, above: ClusterQueue | None
    ) -> tuple[int | None, int | None]:
        """What waits for the ClusterQueue, through whichever LocalQueue it came."""
        seen = (self._snapshot.workloads, self._snapshot.local_queues)
        if not all(each.is_whole for each in seen):
            is_told = self._snapshot.cluster_queues.is_known
            return (above.pending if above is not None and is_told else None), None
        line = self.lines.get(queue.cluster_queue, ())
        return len(line), sum(each.gpus for each in line)

    def _flavors(self, local: LocalQueue, queue: ClusterQueue) -> Iterable[FlavorSeen]:
        if any(self._controller(each.name) == MULTIKUEUE for each in queue.checks):
            self.doubts.append(
                f"ClusterQueue {queue.meta.name} hands its workloads on to other clusters "
                f"(MultiKueue): none would start here"
            )
            return
        for group in queue.groups:
            resource = next(
                (each for each in accelerators.RESOURCES if each in group.resources), ""
            )
            for each in group.flavors if resource else ():
                found = self._flavor(local, queue, each.flavor, resource)
                if found is not None:
                    yield found

    def _flavor(
        self, local: LocalQueue, queue: ClusterQueue, name: str, resource: str
    ) -> FlavorSeen | None:
        flavor = self._snapshot.flavors.objects.get(name)
        if flavor is None:
            self.doubts.append(
                f"ClusterQueue {queue.meta.name} names flavor {name}: it is not seen"
            )
            return None
        settings = self._settings.flavors.get(name, FlavorSettings())
        classes = tuple(self._classes(queue, name))
        nodes = self._snapshot.nodes.objects.values()
        is_ = flavors.describe(flavor, nodes, settings, classes)
        self.doubts.extend(is_.doubts)
        if not (is_.capacity_type.word and is_.accelerator.word):
            return None
        if not is_.accelerators_per_node:
            # While no node of it stands only labels or ops could tell.
            what = "how many accelerators a node has"
            self.doubts.append(flavors.untold(name, what, "accelerators_per_node"))
            return None
        standing = self._tree.standing(queue.meta.name, name, resource)
        price = self._settings.price(name, is_)
        if price.doubt:
            mend = "price_per_gpu_hour in [clusters.flavors.NAME] sets it"
            self.doubts.append(f"flavor {name}: {price.doubt}; {mend}")
        if (listed := price.known(local.meta.name, name)) is not None:
            self.known.append(listed)
        free, coming, room = self._nodes(
            flavor,
            is_.capacity_type.word,
            is_.accelerators_per_node,
            is_queued=flavors.FLEX_CLASS in classes,
        )
        return FlavorSeen(
            flavor=name,
            accelerator=is_.accelerator.word,
            accelerators_per_node=is_.accelerators_per_node,
            capacity_type=is_.capacity_type.word,
            zones=is_.zones,
            price_per_gpu_hour=price.per_gpu_hour,
            nominal=standing.nominal if standing is not None else None,
            reserved=standing.reserved if standing is not None else None,
            used=standing.used if standing is not None else None,
            parked=standing.parked if standing is not None else None,
            borrowable=standing.borrowable if standing is not None else None,
            nodes_free=free,
            nodes_coming=coming,
            max_nodes=settings.max_nodes,
            startup_s=settings.startup_s,
            preemption_notice_s=settings.preemption_notice_s,
            max_run_s=is_.max_run_s,
            free=standing.free if standing is not None else None,
            most=standing.most if standing is not None else None,
            room=room,
            not_close=self._not_close(flavor),
        )

    def _not_close(self, flavor: ResourceFlavor) -> str:
        """Say why no gang can be held to machines of a flavor that stand close, or nothing."""
        name, level = flavor.meta.name, self._level_of(flavor.meta.name)
        levels = self._snapshot.levels(flavor)
        why = landing.closeness_problem(name, flavor.topology, levels, level)
        if why and level:
            self.doubts.append(why)  # ops meant to offer it
        return why

    def _nodes(
        self, flavor: ResourceFlavor, capacity_type: str, per_node: int, *, is_queued: bool
    ) -> tuple[int | None, int | None, tuple[RoomSeen, ...] | None]:
        """Return how many nodes stand free, how many are coming, and what fits on them now."""
        nodes, pods = self._snapshot.nodes, self._snapshot.pods
        if not nodes.is_known:
            return None, None, None
        bears = machines.tolerated(flavor, capacity_type)
        close = machines.Close(
            levels=self._snapshot.levels(flavor) or (), level=self._level_of(flavor.meta.name)
        )
        found = machines.room(
            flavor, nodes.objects.values(), self._in_use, bears, close=close, now_s=self._now_s
        )
        if is_queued:
            # Nodes that were asked for all at once are for whoever asked, and for nobody after.
            return 0, found.nodes_coming, ()
        if not pods.is_whole:
            return None, found.nodes_coming, None
        return found.nodes_free, found.nodes_coming, found.fitting(per_node)

    def _controller(self, check: str) -> str:
        found = self._snapshot.checks.objects.get(check)
        return found.controller if found is not None else ""

    def _classes(self, queue: ClusterQueue, flavor: str) -> Iterable[str]:
        """The provisioning classes by which a queue asks for nodes of a flavor."""
        for rule in queue.checks:
            check = self._snapshot.checks.objects.get(rule.name)
            if check is None or check.controller != PROVISIONING:
                continue
            config = self._snapshot.provisioning.objects.get(check.settings)
            if config is not None and (not rule.flavors or flavor in rule.flavors):
                yield config.class_name


def _is_stopped(queue: LocalQueue | ClusterQueue) -> bool:
    """Whether a queue lets nobody in now, by somebody's will or for something that is missing."""
    active = meta.find(queue.conditions, "Active")
    return queue.stop_policy != "None" or (active is not None and active.status is False)
