"""What the nodes of a flavor could hold now, node by node. Pure.

The rule: a gang needs its nodes at one moment, so that what counts is how many of its ranks fit on
single nodes, not how many GPUs are free in all. A node counts when it is ready, not cordoned, not
on its way out, and has no taint that our pods do not bear. Read ``room`` first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
class Shape:
    """What one rank takes of one node."""

    accelerators: int
    cpu_millis: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The nodes of one flavor.

    ``nodes_free`` stand whole and unused, ``by_zone`` says where. ``free`` is what each usable node
    has left. ``nodes_coming`` are up and not ready yet.
    """

    nodes_free: int
    nodes_coming: int
    nodes: int
    by_zone: Mapping[str, int]
    free: tuple[Mapping[str, int], ...]

    def ranks(self, shape: Shape) -> int:
        """Return the most ranks of a gang that fit now, each on one node."""
        wants = {"cpu": shape.cpu_millis, "memory": shape.memory_bytes}
        return sum(_times(left, shape.accelerators, wants) for left in self.free)


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
    now_s: float,
) -> Room:
    """Return what the nodes of a flavor could hold.

    ``in_use`` is what pods take of each node, ``bears`` what our pods tolerate there, and ``now_s``
    is in Unix seconds.
    """
    own = [each for each in nodes if is_of(each, flavor)]
    usable = [each for each in own if _is_usable(each, bears)]
    left = [(each, _left(each, in_use.get(each.meta.name, {}))) for each in usable]
    by_zone: dict[str, int] = {}
    for node, free in left:
        has = accelerators.count(node.allocatable)
        if has and accelerators.count(free) == has:
            by_zone[node.zone] = by_zone.get(node.zone, 0) + 1
    return Room(
        nodes_free=sum(by_zone.values()),
        nodes_coming=sum(1 for each in own if _is_coming(each, now_s)),
        nodes=len(own),
        by_zone=by_zone,
        free=tuple(free for _, free in left),
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


def _left(node: Node, used: Mapping[str, int]) -> Mapping[str, int]:
    return {
        resource: max(0, has - used.get(resource, 0)) for resource, has in node.allocatable.items()
    }


def _times(left: Mapping[str, int], gpus: int, wants: Mapping[str, int]) -> int:
    """How many times one rank fits into what is left of a node."""
    fits = [accelerators.count(left) // gpus] if gpus else []
    fits += [left.get(resource, 0) // want for resource, want in wants.items() if want]
    return min(fits, default=0)
