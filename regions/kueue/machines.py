"""What the nodes of a flavor could hold now, node by node. Pure.

The rule: a gang needs its nodes at one moment, so that what counts is how many of its ranks fit on
single nodes, not how many GPUs are free in all. A node counts when it is ready, not cordoned, not
on its way out, and has no taint that our pods do not bear. Read ``room`` first.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from regions.capacity import RoomSeen
from regions.kueue import accelerators, landing
from regions.kueue.flavors import FLEX, SPOT, is_of
from regions.kueue.objects.node import Node
from regions.kueue.objects.pod import Pod
from regions.kueue.objects.resource_flavor import ResourceFlavor
from regions.kueue.objects.taints import Toleration, in_the_way

_TAINTED = {SPOT: (landing.GKE_SPOT,), FLEX: (landing.GKE_FLEX, landing.GKE_QUEUED)}

STARTING_TAINTS = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.kubernetes.io/network-unavailable",
        "node.cilium.io/agent-not-ready",
        "startup-taint.cluster-autoscaler.kubernetes.io/node",
    }
)
COMING_S = 1800.0
"""A node that is not ready and is younger than this is coming; an older one is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeNode:
    """What a usable node has left, and the ``domain`` of its topology that it stands in."""

    zone: str
    domain: tuple[str, ...]
    accelerators: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """How a flavor's machines stand together: the ``levels`` of its Topology, the widest first, and
    the one that its gangs can require, empty for none.

    Kueue knows only machines that carry the label of each level.
    """

    levels: tuple[str, ...]
    level: str

    def knows(self, node: Node) -> bool:
        """Whether Kueue puts anything on a node of a flavor with this Topology."""
        return all(level in node.meta.labels for level in self.levels)

    def domain(self, node: Node) -> tuple[str, ...]:
        """Return the domain that a node stands in: two racks of one name are not the same one when
        their blocks are not."""
        if self.level not in self.levels:
            return ()
        above = self.levels[: self.levels.index(self.level) + 1]
        return tuple(node.meta.labels.get(level, "") for level in above)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The nodes of one flavor.

    ``nodes_free`` stand whole and unused, ``nodes_coming`` are up and not ready yet. ``free`` is
    what each usable node has left. ``is_told_close``: whether it is known which of them stand as
    close as a gang can require it.
    """

    nodes_free: int
    nodes_coming: int
    free: tuple[FreeNode, ...]
    is_told_close: bool

    def fitting(self, most: int) -> tuple[RoomSeen, ...]:
        """Return how many ranks fit now by zone and size, of ``most`` accelerators and less."""
        return tuple(
            RoomSeen(
                zone=zone,
                accelerators=size,
                ranks=sum(domains.values()),
                ranks_close=max(domains.values()) if self.is_told_close else None,
            )
            for zone in sorted({each.zone for each in self.free})
            for size in _sizes(most)
            if (domains := self._domains(zone, size))
        )

    def _domains(self, zone: str, size: int) -> Counter[tuple[str, ...]]:
        """Return how many ranks of a size fit into each domain of a zone, those with any."""
        found: Counter[tuple[str, ...]] = Counter()
        for each in self.free:
            if each.zone == zone and each.accelerators >= size:
                found[each.domain] += each.accelerators // size
        return found


def _sizes(most: int) -> Iterable[int]:
    """Yield a whole node's accelerators, and below them the halves that gangs ask for."""
    yield most
    size = 1 << max(0, most - 1).bit_length()
    while size > 1:
        size //= 2
        if size < most:
            yield size


def taken(pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    """Return what pods take of each node. One that is over takes nothing."""
    found: dict[str, dict[str, int]] = {}
    for pod in pods:
        if not pod.node or pod.is_over:
            continue
        total = found.setdefault(pod.node, {})
        for resource, value in pod.requests.items():
            total[resource] = total.get(resource, 0) + value
    return found


def tolerated(flavor: ResourceFlavor, capacity_type: str) -> tuple[Toleration, ...]:
    """Return what pods of ours bear on a flavor's nodes: as ``landing.tolerations`` sends it, and
    what Kueue adds of the flavor's own."""
    keys = (*accelerators.RESOURCES, *_TAINTED.get(capacity_type, ()))
    sent = (Toleration(key=key, operator="Exists", effect="NoSchedule") for key in keys)
    own = (
        Toleration(key=taint.key, value=taint.value, effect=taint.effect) for taint in flavor.taints
    )
    return (*sent, *own, *flavor.tolerations)


def room(
    flavor: ResourceFlavor,
    nodes: Iterable[Node],
    in_use: Mapping[str, Mapping[str, int]],
    bears: tuple[Toleration, ...],
    *,
    close: Close,
    now_s: float,
) -> Room:
    """Return what the nodes of a flavor could hold.

    ``in_use`` is what pods take of each node, ``bears`` what our pods tolerate there, and ``now_s``
    is in Unix seconds.
    """
    own = [each for each in nodes if is_of(each, flavor)]
    usable = [each for each in own if _is_usable(each, bears) and close.knows(each)]
    left = [(each, _left(each, in_use.get(each.meta.name, {}))) for each in usable]
    has = [accelerators.count(each.allocatable) for each in usable]
    return Room(
        nodes_free=sum(0 < free == all_ for (_, free), all_ in zip(left, has, strict=True)),
        nodes_coming=sum(1 for each in own if _is_coming(each, now_s)),
        free=tuple(
            FreeNode(zone=each.zone, domain=close.domain(each), accelerators=free)
            for each, free in left
        ),
        is_told_close=close.level in close.levels,
    )


def _is_usable(node: Node, bears: tuple[Toleration, ...]) -> bool:
    is_there = node.is_ready and not node.is_cordoned and node.meta.deleting_s is None
    return is_there and not in_the_way(node.taints, bears)


def _is_coming(node: Node, now_s: float) -> bool:
    """Whether a node will be usable soon: it is young, and its kubelet or driver on the way."""
    created_s = node.meta.created_s
    is_young = created_s is not None and now_s - created_s < COMING_S
    is_starting = not node.is_ready or any(each.key in STARTING_TAINTS for each in node.taints)
    is_leaving = node.is_cordoned or node.meta.deleting_s is not None
    return is_young and not is_leaving and (is_starting or not accelerators.count(node.allocatable))


def _left(node: Node, used: Mapping[str, int]) -> int:
    """Return the accelerators that nobody has of a node."""
    return accelerators.count(
        {name: max(0, has - used.get(name, 0)) for name, has in node.allocatable.items()}
    )
