"""Which node pools a flavor of Kueue gets its nodes from. Pure.

The rule: a pool is a flavor's when the nodes that it would make carry all of the flavor's labels,
with those that GKE puts on by itself. A flavor without labels is of every pool. Read
``pools_of`` first, then ``most_nodes``.
"""

from collections.abc import Iterable, Mapping

from regions.gcp.fleet.clusters import region_of
from regions.gcp.fleet.pools import FLEX, ON_DEMAND, RESERVED, SPOT, Pool

_GKE = "cloud.google.com/gke-"
_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_PROVISIONING = {SPOT: "spot", FLEX: "flex-start", ON_DEMAND: "standard", RESERVED: "standard"}


def pools_of(node_labels: Mapping[str, str], pools: Iterable[Pool]) -> tuple[Pool, ...]:
    """Return the pools whose nodes a flavor with these labels would take."""
    return tuple(each for each in pools if _carries(each, node_labels))


def most_nodes(node_labels: Mapping[str, str], pools: Iterable[Pool]) -> int | None:
    """Return how many nodes a flavor can have at most, None where it has a pool without a cap.

    A flavor of one zone gets what a pool may have in it.
    """
    zone = node_labels.get(_ZONE)
    found = pools_of(node_labels, pools)
    caps = [each.most_per_zone if zone else each.most_nodes for each in found]
    known = [each for each in caps if each is not None]
    return sum(known) if found and len(known) == len(caps) else None


def labels_of(pool: Pool) -> Mapping[str, str]:
    """Return the labels that every node of a pool gets: its own, and GKE's."""
    labels = {
        **pool.labels,
        f"{_GKE}nodepool": pool.name,
        "node.kubernetes.io/instance-type": pool.machine,
        "cloud.google.com/machine-family": pool.machine.partition("-")[0],
    }
    if pool.accelerator_type:
        labels[f"{_GKE}accelerator"] = pool.accelerator_type
    if word := _PROVISIONING.get(pool.capacity_type):
        labels[f"{_GKE}provisioning"] = word
    if pool.capacity_type == SPOT:
        labels[f"{_GKE}preemptible" if pool.is_preemptible else f"{_GKE}spot"] = "true"
        if pool.is_preemptible:
            labels[f"{_GKE}provisioning"] = "preemptible"
    if pool.capacity_type == FLEX:
        labels[f"{_GKE}flex-start"] = "true"
    if pool.reservation:
        labels["cloud.google.com/reservation-name"] = pool.reservation
    if regions := {region_of(each) for each in pool.zones}:
        labels[_REGION] = min(regions)
    return labels


def _carries(pool: Pool, node_labels: Mapping[str, str]) -> bool:
    has = labels_of(pool)
    return all(
        value in pool.zones if key == _ZONE else has.get(key) == value
        for key, value in node_labels.items()
    )
