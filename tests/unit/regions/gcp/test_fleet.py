"""A project's clusters over the wire, and what their pools say of capacity."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.cloud import container_v1

from regions.gcp.calls import ask
from regions.gcp.errors import AccessError, BusyError, GoogleError, RefusedError, SilentError
from regions.gcp.fleet.clusters import ClusterKey, Fleet, merged, read_fleet, region_of
from regions.gcp.fleet.hearing import (
    AGAIN_S,
    CLOUD_QUOTA,
    STOCKOUT,
    Heard,
    PoolSignal,
    felt,
    hear,
)
from regions.gcp.fleet.listing import FleetLister
from regions.gcp.fleet.pools import Condition, Pool, read_pool
from tests.fakes.google import google
from tests.unit.regions.gcp.making import make_cluster, make_listing, make_pool

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
STATUS = container_v1.StatusCondition.Code


def pool_of(**fields: Any) -> Pool:
    return read_pool(container_v1.NodePool.pb(make_pool(**fields)))


def fleet_of(*clusters: container_v1.Cluster, missing: tuple[str, ...] = ()) -> Fleet:
    listing = make_listing(*clusters, missing=missing)
    return read_fleet("p", container_v1.ListClustersResponse.pb(listing))


def key(name: str, location: str) -> ClusterKey:
    return ClusterKey(project="p", location=location, name=name)


def test_a_pool_is_read_whole() -> None:
    found = pool_of(
        config={
            "spot": True,
            "labels": {"team": "ml"},
            "max_run_duration": {"seconds": 3600},
        },
        autoscaling={"enabled": True, "max_node_count": 4},
        status=3,
        conditions=[{"code": STATUS.GCE_STOCKOUT, "message": "no room"}],
    )
    assert found == Pool(
        name="h100",
        machine="a3-highgpu-8g",
        accelerator="H100",
        accelerator_type="nvidia-h100-80gb",
        accelerators_per_node=8,
        capacity_type="SPOT",
        is_preemptible=False,
        is_queued=False,
        reservation="",
        zones=("us-central1-a", "us-central1-c"),
        most_nodes=8,
        most_per_zone=4,
        max_run_s=3600.0,
        window_s=None,
        status="RUNNING_WITH_ERROR",
        conditions=(Condition(code="GCE_STOCKOUT", message="no room", is_exhausted=False),),
        labels={"team": "ml"},
        doubts=(),
    )


@pytest.mark.parametrize(
    ("fields", "capacity_type"),
    [
        ({}, "ON_DEMAND"),
        ({"config": {"spot": True}}, "SPOT"),
        ({"config": {"preemptible": True}}, "SPOT"),
        ({"config": {"flex_start": True}}, "FLEX"),
        ({"config": {"flex_start": False}}, "ON_DEMAND"),
        ({"queued_provisioning": {"enabled": True}}, "FLEX"),
        ({"config": {"flex_start": True}, "queued_provisioning": {"enabled": True}}, "FLEX"),
        ({"config": {"reservation_affinity": {"consume_reservation_type": 1}}}, "ON_DEMAND"),
        ({"config": {"reservation_affinity": {"consume_reservation_type": 2}}}, "ON_DEMAND"),
        ({"config": {"reservation_affinity": {"consume_reservation_type": 3}}}, "RESERVED"),
        ({"config": {"reservation_affinity": {"consume_reservation_type": 4}}}, "RESERVED"),
        ({"config": {"spot": True, "flex_start": True}}, ""),
    ],
)
def test_a_pool_says_which_capacity_it_buys(fields: dict[str, Any], capacity_type: str) -> None:
    found = pool_of(**fields)
    assert found.capacity_type == capacity_type
    assert bool(found.doubts) is (capacity_type == "")


@pytest.mark.parametrize(
    ("kubelet", "window_s"),
    [
        ({}, None),
        ({"shutdown_grace_period_seconds": 120}, 105.0),
        ({"shutdown_grace_period_seconds": 0}, 0.0),
        ({"shutdown_grace_period_critical_pods_seconds": 10}, 20.0),
        (
            {
                "shutdown_grace_period_seconds": 120,
                "shutdown_grace_period_critical_pods_seconds": 0,
            },
            120.0,
        ),
        ({"shutdown_grace_period_seconds": 2**31 - 1}, 600.0),
    ],
)
def test_a_pool_says_how_long_a_node_leaves_its_pods(
    kubelet: dict[str, int], window_s: float | None
) -> None:
    assert pool_of(config={"spot": True, "kubelet_config": kubelet}).window_s == window_s


def test_a_specific_reservation_has_its_name() -> None:
    affinity = {"consume_reservation_type": 3, "key": "compute.googleapis.com/reservation-name"}
    found = pool_of(config={"reservation_affinity": {**affinity, "values": ["h100s"]}})
    assert found.reservation == "h100s"


@pytest.mark.parametrize(
    ("autoscaling", "most", "per_zone"),
    [
        ({}, None, None),
        ({"enabled": False, "max_node_count": 4}, None, None),
        ({"enabled": True, "max_node_count": 4}, 8, 4),
        ({"enabled": True, "total_max_node_count": 6}, 6, 6),
        ({"enabled": True, "total_max_node_count": 6, "max_node_count": 4}, 6, 6),
        ({"enabled": True}, None, None),
        ({"enabled": True, "max_node_count": -4}, None, None),
        ({"enabled": True, "max_node_count": 2_000_000_000}, None, None),
    ],
)
def test_caps_are_per_zone_or_for_the_pool(
    autoscaling: dict[str, Any], most: int | None, per_zone: int | None
) -> None:
    found = pool_of(autoscaling=autoscaling)
    assert (found.most_nodes, found.most_per_zone) == (most, per_zone)


def test_numbers_that_are_not_known_keep_their_number() -> None:
    raw = container_v1.NodePool.pb(make_pool(conditions=[{"message": "new"}]))
    raw.status = 42
    raw.conditions[0].code = 77
    found = read_pool(raw)
    assert (found.status, found.conditions[0].code) == ("UNKNOWN_42", "UNKNOWN_77")


def test_accelerators_that_cannot_be_are_doubted() -> None:
    two = [{"accelerator_count": 1, "accelerator_type": each} for each in ("a", "b")]
    assert pool_of(config={"accelerators": two}).accelerators_per_node is None
    many = [{"accelerator_count": 9_000, "accelerator_type": "a"}]
    assert pool_of(config={"accelerators": many}).accelerators_per_node is None
    assert pool_of(config={"accelerators": []}).doubts == ()


def test_a_cluster_is_reached_by_what_is_told_of_it() -> None:
    auth = {"cluster_ca_certificate": base64.b64encode(PEM.encode()).decode()}
    (found,) = fleet_of(make_cluster(master_auth=auth)).clusters.values()
    assert (found.host, found.ca_pem, found.region) == ("https://10.0.0.1", PEM, "us-central1")
    assert (found.status, found.doubts) == ("RUNNING", ())


@pytest.mark.parametrize("certificate", ["%%%", base64.b64encode(b"no pem").decode(), "w6k="])
def test_what_cannot_reach_a_cluster_is_said(certificate: str) -> None:
    hostile = make_cluster(
        endpoint="evil@host/path?", master_auth={"cluster_ca_certificate": certificate}
    )
    (found,) = fleet_of(hostile).clusters.values()
    assert (found.host, found.ca_pem) == ("", "")
    assert found.doubts == (
        "its endpoint is 'evil@host/path?'",
        "its certificate cannot be read",
    )


def test_a_name_that_cannot_be_and_one_that_is_told_twice_are_no_clusters() -> None:
    found = fleet_of(make_cluster(), make_cluster(status=5), make_cluster(name="../x"))
    assert [each.status for each in found.clusters.values()] == ["RUNNING"]
    assert found.doubts == (
        "one in us-central1 is listed twice; the first is believed",
        "a cluster is called '../x' in 'us-central1'",
    )


@pytest.mark.parametrize(
    ("location", "missing", "is_kept"),
    [
        ("us-central1-a", (), False),
        ("us-central1-a", ("us-central1-a",), True),
        ("us-central1-a", ("us-central1-c",), False),
        ("us-central1-a", ("us-central1",), True),
        ("us-central1-a", ("us-east4-a",), False),
        ("us-central1", ("us-central1-c",), True),
        ("us-central1", ("us-central1",), True),
        ("us-central1", ("europe-west4-a",), False),
        ("us-central1", ("-",), True),
    ],
)
def test_only_a_zone_that_answered_says_that_a_cluster_is_gone(
    location: str, missing: tuple[str, ...], is_kept: bool
) -> None:
    before = fleet_of(make_cluster("one", location))
    now = merged(before, fleet_of(make_cluster("two", "asia-east1"), missing=missing))
    assert (key("one", location) in now.clusters) is is_kept
    assert now.is_whole is (missing == ())
    if is_kept:
        assert now.clusters[key("one", location)] == replace(
            before.clusters[key("one", location)], is_stale=True
        )


def test_a_zone_has_a_region() -> None:
    at = ["us-central1-a", "us-central1", "europe-west4-b", "a", ""]
    assert [region_of(each) for each in at] == [
        *("us-central1", "us-central1", "europe-west4"),
        *("a", ""),
    ]


async def test_what_a_look_could_not_tell_of_is_kept_until_its_zone_answers() -> None:
    async with google() as fake:
        zone = "us-central1-a"
        fake.listings = [
            make_listing(make_cluster("one", zone), make_cluster("two", "us-east4")),
            make_listing(make_cluster("two", "us-east4"), missing=[zone]),
            grpc.StatusCode.UNAVAILABLE,
            make_listing(missing=[zone]),
            make_listing(),
        ]
        lister = FleetLister(fake.fleet, "p")
        first, second = await lister.look(), await lister.look()
        with pytest.raises(BusyError):
            await lister.look()
        third, last = await lister.look(), await lister.look()
    assert [(len(each.clusters), each.is_whole) for each in (first, second, third, last)] == [
        *((2, True), (2, False)),
        *((1, False), (0, True)),
    ]
    assert second.clusters[key("one", zone)].is_stale
    assert not second.clusters[key("two", "us-east4")].is_stale
    assert {each.parent for each in fake.asked} == {"projects/p/locations/-"}


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (grpc.StatusCode.UNAVAILABLE, BusyError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, BusyError),
        (grpc.StatusCode.PERMISSION_DENIED, AccessError),
        (grpc.StatusCode.NOT_FOUND, RefusedError),
        (grpc.StatusCode.UNIMPLEMENTED, RefusedError),
        (grpc.StatusCode.INTERNAL, BusyError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, SilentError),
    ],
)
async def test_a_failure_is_told_once_and_not_asked_again(
    status: grpc.StatusCode, error: type[GoogleError]
) -> None:
    async with google() as fake:
        fake.listings = [status]
        with pytest.raises(error, match=status.name):
            await FleetLister(fake.fleet, "p").look()
    assert len(fake.asked) == 1


async def test_an_answer_that_does_not_come_is_waited_for_no_longer_than_its_deadline() -> None:
    with pytest.raises(SilentError, match="no answer within"):
        await ask(asyncio.Event().wait(), 0.01)


def sick(*codes: Any, location: str = "us-central1") -> Fleet:
    conditions = [{"code": code, "message": f"says {code}"} for code in codes]
    return fleet_of(make_cluster(location=location, node_pools=[make_pool(conditions=conditions)]))


def test_a_condition_becomes_a_signal_and_its_age_is_counted_from_when_it_was_seen() -> None:
    fleet = sick(STATUS.GCE_STOCKOUT)
    heard, first = hear(Heard(), fleet, 100.0)
    assert first == (
        PoolSignal(
            cluster=key("one", "us-central1"),
            pool="h100",
            machine="a3-highgpu-8g",
            capacity_type="ON_DEMAND",
            zones=("us-central1-a", "us-central1-c"),
            kind=STOCKOUT,
            age_s=0.0,
            stands_s=0.0,
            source="GKE node pool condition",
            detail="says 1",
        ),
    )
    heard, none = hear(heard, fleet, 100.0 + AGAIN_S - 1)
    assert none == ()
    heard, again = hear(heard, fleet, 100.0 + AGAIN_S)
    assert [each.stands_s for each in again] == [AGAIN_S]
    heard, none = hear(heard, sick(), 800.0)
    assert (heard, none) == (Heard(), ())
    _, anew = hear(heard, fleet, 900.0)
    assert [each.stands_s for each in anew] == [0.0]


def test_one_kind_is_told_once_a_pool_and_what_is_no_capacity_is_not() -> None:
    fleet = sick(1, STATUS.GCE_QUOTA_EXCEEDED, 1, STATUS.CA_EXPIRING, 0)
    assert [each.kind for each in hear(Heard(), fleet, 0.0)[1]] == [STOCKOUT, CLOUD_QUOTA]


@pytest.mark.parametrize(
    ("message", "kind"),
    [("Quota 'NVIDIA_H100_GPUS' exceeded", CLOUD_QUOTA), ("the zone has none", STOCKOUT)],
)
def test_the_newer_code_is_told_apart_by_its_words(message: str, kind: str) -> None:
    pool = make_pool(conditions=[{"canonical_code": 8, "message": message}])
    fleet = fleet_of(make_cluster(node_pools=[pool]))
    assert [each.kind for each in hear(Heard(), fleet, 0.0)[1]] == [kind]


def test_a_cluster_that_was_not_seen_anew_says_nothing_and_forgets_nothing() -> None:
    zone = "us-central1-a"
    seen = sick(STATUS.GCE_STOCKOUT, location=zone)
    heard, _ = hear(Heard(), seen, 0.0)
    silent = merged(seen, fleet_of(missing=(zone,)))
    heard, none = hear(heard, silent, AGAIN_S * 2)
    assert none == ()
    _, again = hear(heard, seen, AGAIN_S * 3)
    assert [each.stands_s for each in again] == [AGAIN_S * 3]


def test_a_flavor_is_out_of_stock_when_all_of_its_pools_are() -> None:
    def pool(name: str, *codes: Any, **config: Any) -> container_v1.NodePool:
        return make_pool(name=name, config=config, conditions=[{"code": each} for each in codes])

    out, full = STATUS.GCE_STOCKOUT, STATUS.GCE_QUOTA_EXCEEDED
    pools = [pool("a", out, spot=True), pool("b", out, full, spot=True), pool("c", out), pool("d")]
    fleet = fleet_of(make_cluster(node_pools=pools))
    (cluster,) = fleet.clusters.values()
    signals = hear(Heard(), fleet, 0.0)[1]
    spot, standard, none = (
        {f"cloud.google.com/gke-{key}": value}
        for key, value in (("spot", "true"), ("provisioning", "standard"), ("nodepool", "x"))
    )
    assert [(each.pool, each.kind) for each in felt(spot, cluster, signals)] == [("a", STOCKOUT)]
    assert felt(standard, cluster, signals) == ()
    assert felt(none, cluster, signals) == ()
    other = replace(cluster, key=key("other", "us-central1"))
    assert felt(spot, other, signals) == ()
