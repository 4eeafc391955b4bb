"""Which machines a gang may land on, and how close they should stand. Pure.

The rule: an offer names one flavor, so the gang is held to that flavor's own labels: Kueue compares
just those with its flavors, and gives no other. What a flavor leaves open is filled in from what
GKE writes on its nodes, so that a gang that is to be on-demand does not come to stand on a spot
node. Read ``node_selector`` and ``tolerations`` first.
"""

from regions.cluster import Queue
from regions.kueue.flavors import PROVISIONING, RESERVATION
from regions.kueue.site import Site

GKE_SPOT, GKE_FLEX = "cloud.google.com/gke-spot", "cloud.google.com/gke-flex-start"
GKE_QUEUED = "cloud.google.com/gke-queued"
GKE_ACCELERATOR = "cloud.google.com/gke-accelerator"

_SELECTED = {
    "SPOT": {GKE_SPOT: "true"},
    "FLEX": {GKE_FLEX: "true"},
    "ON_DEMAND": {PROVISIONING: "standard"},
    # Reserved nodes are standard ones; which reservation it is, only the flavor's labels tell.
    "RESERVED": {PROVISIONING: "standard"},
}
_TAINTED = {"SPOT": (GKE_SPOT,), "FLEX": (GKE_FLEX, GKE_QUEUED)}
_TELLS_CAPACITY = frozenset(
    {
        GKE_SPOT,
        GKE_FLEX,
        GKE_QUEUED,
        PROVISIONING,
        RESERVATION,
        "cloud.google.com/gke-preemptible",
    }
)

REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
ANY_TOPOLOGY = "kueue.x-k8s.io/podset-unconstrained-topology"


def node_selector(queue: Queue, site: Site) -> dict[str, str]:
    """Return the node labels that the gang's machines have; the flavor's own cannot be replaced."""
    filled: dict[str, str] = {}
    if site.is_gke:
        if not _TELLS_CAPACITY & site.node_labels.keys():
            filled |= _SELECTED.get(queue.capacity_type, {})
        if site.accelerator_label and queue.gang.accelerators_per_node:
            filled[GKE_ACCELERATOR] = site.accelerator_label
    return {**filled, **site.profile.node_selector, **site.node_labels}


def tolerations(queue: Queue, site: Site) -> list[dict[str, str]]:
    """Return what the gang puts up with on its machines, each once.

    The flavor's own taints are among them: they keep off whoever does not ask for it by name.
    """
    # Machines with accelerators are kept for those who ask for them, by the resource's own name.
    keys = [site.profile.accelerator_resource] if queue.gang.accelerators_per_node else []
    found = [
        {"key": key, "operator": "Exists", "effect": "NoSchedule"}
        for key in (*keys, *_TAINTED.get(queue.capacity_type, ()))
    ]
    found += [_toleration(one.key, one.value, one.effect) for one in site.taints]
    found += [_toleration(one.key, one.value, one.effect) for one in site.profile.tolerations]
    return [one for at, one in enumerate(found) if one not in found[:at]]


def topology_annotations(queue: Queue, site: Site) -> dict[str, str]:
    """Return Kueue's request for machines that stand close, on the pods' template.

    A flavor with a Topology takes only gangs that say something of it; without one, none does. A
    wish that cannot be kept is left out: Kueue would refuse it. It is one that is preferred, or of
    a single process; see ``topology_problem``.
    """
    level = site.profile.topology_level
    if not site.topology:
        return {}
    is_there = not closeness_problem(queue.flavor, site.topology, site.levels, level)
    match queue.gang.topology:
        case "REQUIRED" if is_there:
            return {REQUIRED_TOPOLOGY: level}
        case "PREFERRED" if is_there:
            return {PREFERRED_TOPOLOGY: level}
        case _:
            return {ANY_TOPOLOGY: "true"}


def topology_problem(queue: Queue, site: Site) -> str:
    """Say why the wish for machines that stand close cannot be kept here, or nothing."""
    if queue.gang.topology != "REQUIRED" or queue.gang.ranks == 1:
        return ""
    return closeness_problem(queue.flavor, site.topology, site.levels, site.profile.topology_level)


def closeness_problem(
    flavor: str, topology: str, levels: tuple[str, ...] | None, level: str
) -> str:
    """Say why no gang can be held to machines of a flavor that stand close together, or nothing.

    ``levels`` are those of its Topology, None where it is not seen; ``level`` is the one that the
    flavor's profile names.
    """
    if not topology:
        return f"flavor {flavor} does not know which of its machines stand close together"
    there = f"; its topology {topology} has {', '.join(levels)}" if levels else ""
    if not level:
        return f"the profile of flavor {flavor} names no level of its topology{there}"
    if levels is None or level in levels:
        return ""
    if not levels:
        return f"flavor {flavor} has topology {topology}, and there is none of that name"
    return f"the profile of flavor {flavor} names level {level}{there}"


def _toleration(key: str, value: str, effect: str) -> dict[str, str]:
    found = {"key": key, "operator": "Equal", "value": value} if value else {"key": key}
    found.setdefault("operator", "Exists")
    return {**found, "effect": effect} if effect else found
