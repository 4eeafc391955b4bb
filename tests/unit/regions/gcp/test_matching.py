"""Which pools a flavor gets its nodes from, how many, and how their cluster is reached."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from google.cloud import container_v1

from regions.gcp.entering import endpoint
from regions.gcp.errors import AccessError
from regions.gcp.fleet.clusters import GkeCluster, read_fleet
from regions.gcp.fleet.matching import labels_of, most_nodes, pools_of
from regions.gcp.fleet.pools import Pool, read_pool
from regions.kueue import flavors
from tests.unit.regions.gcp.making import make_cluster, make_listing, make_pool

ZONE = "topology.kubernetes.io/zone"
GKE = "cloud.google.com/gke-"
CAPPED = {"enabled": True, "max_node_count": 4}


def pool_of(name: str, **config: Any) -> Pool:
    made = make_pool(name=name, autoscaling=CAPPED, config=config)
    return read_pool(container_v1.NodePool.pb(made))


POOLS = (
    pool_of("standard"),
    pool_of("spot", spot=True, labels={"team": "ml"}),
    pool_of("old-spot", preemptible=True),
    pool_of("flex", flex_start=True),
    pool_of("kept", reservation_affinity={"consume_reservation_type": 3, "values": ["h100s"]}),
)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ({}, ["standard", "spot", "old-spot", "flex", "kept"]),
        ({f"{GKE}spot": "true"}, ["spot"]),
        ({f"{GKE}preemptible": "true"}, ["old-spot"]),
        ({f"{GKE}flex-start": "true"}, ["flex"]),
        ({f"{GKE}provisioning": "standard"}, ["standard", "kept"]),
        ({f"{GKE}nodepool": "flex"}, ["flex"]),
        ({f"{GKE}accelerator": "nvidia-h100-80gb", "team": "ml"}, ["spot"]),
        ({f"{GKE}accelerator": "nvidia-l4"}, []),
        ({"cloud.google.com/reservation-name": "h100s"}, ["kept"]),
        ({f"{GKE}spot": "true", ZONE: "us-central1-a"}, ["spot"]),
        ({f"{GKE}spot": "true", ZONE: "us-central1-f"}, []),
        ({"topology.kubernetes.io/region": "us-central1", "team": "ml"}, ["spot"]),
        ({"cloud.google.com/machine-family": "a3", "team": "ml"}, ["spot"]),
        ({"cloud.google.com/machine-family": "g2"}, []),
    ],
)
def test_a_flavor_takes_the_nodes_that_carry_its_labels(
    labels: dict[str, str], names: list[str]
) -> None:
    assert [each.name for each in pools_of(labels, POOLS)] == names


def test_what_a_pool_buys_is_what_its_nodes_will_say() -> None:
    told = [flavors.capacity_of(labels_of(each)).word for each in POOLS]
    assert told == [each.capacity_type for each in POOLS]


@pytest.mark.parametrize(
    ("labels", "most"),
    [
        ({f"{GKE}spot": "true"}, 8),
        ({f"{GKE}spot": "true", ZONE: "us-central1-a"}, 4),
        ({f"{GKE}provisioning": "standard"}, 16),
        ({f"{GKE}nodepool": "none"}, None),
    ],
)
def test_a_flavor_has_at_most_what_its_pools_may_have(
    labels: dict[str, str], most: int | None
) -> None:
    assert most_nodes(labels, POOLS) == most


def test_a_pool_without_a_cap_leaves_the_most_unknown() -> None:
    fixed = replace(POOLS[0], name="fixed", most_nodes=None, most_per_zone=None)
    assert most_nodes({}, (*POOLS, fixed)) is None


async def token() -> str:
    return "a-token"


def cluster_of(**fields: Any) -> GkeCluster:
    listing = make_listing(make_cluster(**fields))
    found = read_fleet("p", container_v1.ListClustersResponse.pb(listing))
    return next(iter(found.clusters.values()))


def dns(name: str, *, is_open: bool = True) -> dict[str, Any]:
    config = {"endpoint": name, "allow_external_traffic": is_open}
    return {"control_plane_endpoints_config": {"dns_endpoint_config": config}}


def test_a_cluster_is_reached_by_its_name_where_that_answers_from_everywhere() -> None:
    found = endpoint(cluster_of(**dns("gke-1.us-central1.gke.goog")), token)
    assert (found.host, found.ca_pem) == ("https://gke-1.us-central1.gke.goog", "")
    assert found.token is token


@pytest.mark.parametrize("fields", [dns("gke-1.gke.goog", is_open=False), dns("gke.evil.example")])
def test_another_name_is_not_believed(fields: dict[str, Any]) -> None:
    with pytest.raises(AccessError, match="no certificate"):
        endpoint(cluster_of(**fields), token)


def test_a_cluster_is_reached_by_its_address_with_its_certificate() -> None:
    found = endpoint(replace(cluster_of(), ca_pem="PEM"), token)
    assert (found.host, found.ca_pem) == ("https://10.0.0.1", "PEM")


def test_a_cluster_without_an_address_is_told() -> None:
    with pytest.raises(AccessError, match="one tells no address"):
        endpoint(cluster_of(endpoint=""), token)
