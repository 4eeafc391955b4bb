"""What a queue holds and could still reserve, through the tree of its cohorts. Pure.

The rule: it is Kueue's own arithmetic (``pkg/cache/scheduler/resource_node.go``), so that "free" is
what Kueue would admit now without taking anything from anybody. Quota is not capacity: that nodes
are there is another question. Read ``Tree.standing`` first.

Each node of the tree, a ClusterQueue or a cohort, keeps for itself what its lending limit does not
let out, and lends the rest to its parent; what it uses beyond what it keeps is used in the parent.
A node can have what it keeps and does not use, and what its parent can have, as far as its
borrowing limit lets it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from regions.kueue.objects.cluster_queue import ClusterQueue
from regions.kueue.objects.cohort import Cohort
from regions.kueue.objects.quotas import FlavorResource, Quota, by_flavor

_NO_QUOTA = Quota(nominal=0)
MOST_LEVELS = 50
"""Of cohorts above each other: no tree of people who share quota is so deep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The quota of one flavor and resource in one ClusterQueue, in units of the resource.

    ``reserved`` is held by all with quota, ``used`` by the admitted, ``parked`` by those that wait
    for a check. ``free`` could be reserved now without preempting anybody; ``borrowable`` is how
    much of that, together with what is borrowed already, is above ``nominal``. ``most`` is what one
    workload could ever get, were nothing in use. None: it was not seen.
    """

    nominal: int
    reserved: int | None
    used: int | None
    parked: int | None
    free: int | None
    borrowable: int | None
    most: int | None


@dataclass(slots=True)
class _Node:
    """A ClusterQueue or a cohort. ``held`` None: what its workloads hold was not seen."""

    quotas: Mapping[FlavorResource, Quota]
    held: Mapping[FlavorResource, int] | None
    parent: str
    children: list["_Node"] = field(default_factory=list)


class Tree:
    """The queues and cohorts of one cluster, as of one moment.

    A cohort that is only named is one without quota of its own. In one whose parents go in a circle
    Kueue admits nothing. ``is_whole`` False: there are queues or cohorts that could not be read,
    and they may stand in any tree.
    """

    def __init__(
        self,
        queues: Iterable[ClusterQueue],
        cohorts: Iterable[Cohort],
        *,
        is_whole: bool = True,
    ) -> None:
        self._is_whole = is_whole
        self._queues = {queue.meta.name: queue for queue in queues}
        self._cohorts = {
            each.meta.name: _Node(quotas=by_flavor(each.groups), held={}, parent=each.parent)
            for each in cohorts
        }
        self._leaves = {
            name: _Node(quotas=by_flavor(each.groups), held=each.reservation, parent=each.cohort)
            for name, each in self._queues.items()
        }
        for node in [*self._leaves.values(), *self._cohorts.values()]:
            if node.parent and self._path(node) is not None:
                self._cohort(node.parent).children.append(node)

    def standing(self, queue: str, flavor: str, resource: str) -> Standing | None:
        """Return how a ClusterQueue stands with a resource of a flavor, None when it has none."""
        leaf = self._leaves.get(queue)
        what = (flavor, resource)
        if leaf is None or what not in leaf.quotas:
            return None
        nominal = leaf.quotas[what].nominal
        reserved = _count(leaf.held, what)
        used = _count(self._queues[queue].usage, what)
        path = self._path(leaf)
        is_known = path is not None and (self._is_whole or not leaf.parent)
        # A total that is late by a moment may be above the other; nothing is parked by that.
        parked = max(0, reserved - used) if reserved is not None and used is not None else None
        free = borrowable = most = None
        if path is not None and is_known:
            most = max(0, _potential(path, what))
            if reserved is not None and _is_seen(path[-1]):
                free = max(0, _available(path, what))
                borrowable = max(0, free + reserved - nominal)
        return Standing(
            nominal=nominal,
            reserved=reserved,
            used=used,
            parked=parked,
            free=free,
            borrowable=borrowable,
            most=most,
        )

    def in_circles(self) -> frozenset[str]:
        """Return the ClusterQueues above which cohorts go in a circle, or up without an end."""
        return frozenset(name for name, leaf in self._leaves.items() if self._path(leaf) is None)

    def _cohort(self, name: str) -> _Node:
        if name not in self._cohorts:
            self._cohorts[name] = _Node(quotas={}, held={}, parent="")
        return self._cohorts[name]

    def _path(self, leaf: _Node) -> list[_Node] | None:
        """Return the nodes from one to its root, None when they go in a circle or too far."""
        path, seen = [leaf], set[str]()
        while parent := path[-1].parent:
            if parent in seen or len(path) > MOST_LEVELS:
                return None
            seen.add(parent)
            path.append(self._cohort(parent))
        return path


def _available(path: list[_Node], what: FlavorResource) -> int:
    """What the first node of a path to the root can have now; below nothing when it owes."""
    node, *above = path
    subtree, used = _subtree(node, what), _used(node, what)
    if not above:
        return subtree - used
    keeps = _keeps(node, what, subtree)
    from_parent = _available(above, what)
    limit = node.quotas.get(what, _NO_QUOTA).borrowing_limit
    if limit is not None:
        lent, used_there = subtree - keeps, max(0, used - keeps)
        from_parent = min(lent - used_there + limit, from_parent)
    return max(0, keeps - used) + from_parent


def _potential(path: list[_Node], what: FlavorResource) -> int:
    """What the first node of a path to the root could have, were nothing in use."""
    node, *above = path
    subtree = _subtree(node, what)
    if not above:
        return subtree
    most = _keeps(node, what, subtree) + _potential(above, what)
    limit = node.quotas.get(what, _NO_QUOTA).borrowing_limit
    return most if limit is None else min(subtree + limit, most)


def _subtree(node: _Node, what: FlavorResource) -> int:
    """A node's own quota, and what its children lend."""
    lent = 0
    for child in node.children:
        subtree = _subtree(child, what)
        lent += subtree - _keeps(child, what, subtree)
    return node.quotas.get(what, _NO_QUOTA).nominal + lent


def _used(node: _Node, what: FlavorResource) -> int:
    """What a node uses: its workloads', and what its children use beyond what they keep."""
    beyond = 0
    for child in node.children:
        keeps = _keeps(child, what, _subtree(child, what))
        beyond += max(0, _used(child, what) - keeps)
    return max(0, (node.held or {}).get(what, 0)) + beyond


def _keeps(node: _Node, what: FlavorResource, subtree: int) -> int:
    """What a node never lends."""
    limit = node.quotas.get(what, _NO_QUOTA).lending_limit
    return 0 if limit is None else max(0, subtree - limit)


def _is_seen(node: _Node) -> bool:
    """Whether it was seen what everybody in a tree holds."""
    return node.held is not None and all(_is_seen(child) for child in node.children)


def _count(held: Mapping[FlavorResource, int] | None, what: FlavorResource) -> int | None:
    return None if held is None else max(0, held.get(what, 0))
