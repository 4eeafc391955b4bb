"""What is shown of queues and flavors, and what of it is unknown when something is not seen."""

import dataclasses
from decimal import Decimal
from typing import TypeVar

import pytest

from regions.capacity import FlavorSeen, KnownSeen, QueueSeen, RoomSeen
from regions.kueue import snapshot as snapshots
from regions.kueue.cache import Health
from regions.kueue.flavors import FlavorSettings
from regions.kueue.objects import kinds
from regions.kueue.objects.kinds import Kind, Unreadable, decode
from regions.kueue.priced import Priced
from regions.kueue.queue_view import QueueSettings, queues_seen
from regions.kueue.snapshot import STALE_S, Seen, Snapshot, absent, seen
from tests.unit.regions.kueue import kube

T = TypeVar("T")
NOW_S = 1793491200.0
GKE = "cloud.google.com/"
SPOT = {GKE + "gke-spot": "true", GKE + "gke-accelerator": "nvidia-h100-80gb"}
FLEX = {
    GKE + "gke-flex-start": "true",
    GKE + "gke-accelerator": "nvidia-h100-80gb",
    "node.kubernetes.io/instance-type": "a3-highgpu-8g",
}
SETTINGS = QueueSettings(namespace="team", prices={"spot": Decimal("2.10")})


def known(kind: Kind[T], *raws: kube.Json, health: Health | None = None) -> Seen[T]:
    objects, unreadable = {}, {}
    for raw in raws:
        each = decode(kind, kind.versions[0], raw)
        if isinstance(each, Unreadable):
            unreadable[each.key] = each
        else:
            objects[kinds.key_of(raw)] = each
    return seen(kind, objects, unreadable, health or Health(heard_s=100.0), 100.0)


def local_queue(
    name: str = "lq", *, queue: str = "cq", namespace: str = "team", **spec: object
) -> kube.Json:
    return {
        "metadata": kube.meta(name, namespace=namespace),
        "spec": {"clusterQueue": queue, **spec},
        "status": {"conditions": [kube.condition("Active")]},
    }


CHECK = {
    "metadata": kube.meta("dws"),
    "spec": {
        "controllerName": "kueue.x-k8s.io/provisioning-request",
        "parameters": {"kind": "ProvisioningRequestConfig", "name": "queued"},
    },
}
CONFIG = {
    "metadata": kube.meta("queued"),
    "spec": {"provisioningClassName": "queued-provisioning.gke.io"},
}


def picture(**more: object) -> Snapshot:
    """A cluster with one queue of two flavors: spot with two nodes, flex by request."""
    on_check = {"admissionChecks": [{"name": "dws", "onFlavors": ["flex"]}]}
    found = Snapshot(
        cluster_queues=known(
            kinds.CLUSTER_QUEUES,
            kube.cluster_queue(
                "cq",
                cohort="all",
                quotas={"spot": {"nominalQuota": 16}, "flex": {"nominalQuota": 64}},
                reserved={"spot": 12, "flex": 16},
                used={"spot": 8, "flex": 0},
                admissionChecksStrategy=on_check,
            ),
            kube.cluster_queue("other", cohort="all", reserved={"spot": 4}, used={"spot": 4}),
        ),
        local_queues=known(
            kinds.LOCAL_QUEUES, local_queue(), local_queue("theirs", namespace="other")
        ),
        cohorts=absent(),
        flavors=known(
            kinds.RESOURCE_FLAVORS,
            kube.flavor("spot", labels=SPOT),
            kube.flavor("flex", labels=FLEX),
        ),
        topologies=absent(),
        checks=known(kinds.ADMISSION_CHECKS, CHECK),
        provisioning=known(kinds.PROVISIONING_CONFIGS, CONFIG),
        workloads=known(
            kinds.WORKLOADS,
            kube.workload("a", admitted_to="cq"),
            kube.workload("b"),
            kube.workload("c", namespace="other", queue="theirs"),
        ),
        nodes=known(
            kinds.NODES,
            kube.node("n1", labels=SPOT, zone="us-east4-a"),
            kube.node("n2", labels=SPOT, zone="us-east4-b"),
            kube.node("booked", labels=FLEX, zone="us-east4-b"),
        ),
        pods=known(kinds.PODS, kube.pod("p", node_name="n1")),
    )
    return dataclasses.replace(found, **more)  # type: ignore[arg-type]


SPOT_SEEN = FlavorSeen(
    flavor="spot",
    accelerator="H100",
    accelerators_per_node=8,
    capacity_type="SPOT",
    zones=("us-east4-a", "us-east4-b"),
    price_per_gpu_hour=Decimal("2.10"),
    nominal=16,
    reserved=12,
    used=8,
    parked=4,
    borrowable=12,
    nodes_free=1,
    nodes_coming=0,
    max_nodes=None,
    startup_s=None,
    preemption_notice_s=None,
    free=16,
    most=32,
    room=tuple(
        RoomSeen(zone="us-east4-b", accelerators=size, ranks=8 // size) for size in (8, 4, 2, 1)
    ),
    not_close="flavor spot does not know which of its machines stand close together",
)
FLEX_SEEN = dataclasses.replace(
    SPOT_SEEN,
    flavor="flex",
    capacity_type="FLEX",
    zones=("us-east4-b",),
    price_per_gpu_hour=None,
    nominal=64,
    reserved=16,
    used=0,
    parked=16,
    borrowable=0,
    nodes_free=0,
    free=48,
    most=64,
    room=(),
    not_close="flavor flex does not know which of its machines stand close together",
)


def test_a_queue_is_shown_with_all_that_waits_for_its_quota() -> None:
    found = queues_seen(picture(), SETTINGS, NOW_S)
    assert found.doubts == ()
    assert found.queues == (
        QueueSeen(
            queue="lq", is_stopped=False, pending=2, pending_gpus=32, flavors=(SPOT_SEEN, FLEX_SEEN)
        ),
    )


def flavors_of(shown: Snapshot) -> tuple[FlavorSeen, ...]:
    (queue,) = queues_seen(shown, SETTINGS, NOW_S).queues
    return queue.flavors


RACKS = {"metadata": kube.meta("racks"), "spec": {"levels": [{"nodeLabel": "block"}]}}


def close_in(shown: Snapshot, level: str) -> tuple[FlavorSeen, tuple[str, ...]]:
    """The spot flavor whose profile names a level, and what ops are told."""
    found = queues_seen(shown, SETTINGS, NOW_S, lambda _: level)
    return found.queues[0].flavors[0], tuple(one for one in found.doubts if "level" in one)


@pytest.mark.parametrize("version", kinds.TOPOLOGIES.versions)
def test_what_stands_close_is_told_by_the_levels_of_the_topology(version: str) -> None:
    racks = decode(kinds.TOPOLOGIES, version, RACKS)
    assert not isinstance(racks, Unreadable)
    shown = picture(
        topologies=dataclasses.replace(known(kinds.TOPOLOGIES), objects={"racks": racks}),
        flavors=known(
            kinds.RESOURCE_FLAVORS,
            kube.flavor("spot", labels=SPOT, topologyName="racks"),
            kube.flavor("flex", labels=FLEX),
        ),
        nodes=known(
            kinds.NODES,
            *(
                kube.node(name, labels=SPOT | ({"block": block} if block else {}))
                for name, block in (("n2", "a"), ("n3", "a"), ("n4", "b"), ("unlabelled", ""))
            ),
        ),
    )
    spot, doubts = close_in(shown, "block")
    assert (spot.not_close, doubts) == ("", ())
    assert spot.room is not None
    assert (spot.room[0].ranks, spot.room[0].ranks_close) == (3, 2)
    spot, doubts = close_in(shown, "row")
    assert doubts == (spot.not_close,)
    assert spot.not_close.endswith("names level row; its topology racks has block")
    unseen = dataclasses.replace(shown, topologies=known(kinds.TOPOLOGIES, health=Health()))
    spot, doubts = close_in(unseen, "row")
    assert (spot.not_close, doubts) == ("", ())


def test_without_the_nodes_their_number_is_unknown_and_the_quota_is_not() -> None:
    never = known(kinds.NODES, health=Health(is_denied=True))
    settings = {each: FlavorSettings(accelerators_per_node=8) for each in ("spot", "flex")}
    wishes = dataclasses.replace(SETTINGS, flavors=settings)
    (queue,) = queues_seen(picture(nodes=never), wishes, NOW_S).queues
    assert queue.flavors == tuple(
        dataclasses.replace(each, zones=(), nodes_free=None, nodes_coming=None, room=None)
        for each in (SPOT_SEEN, FLEX_SEEN)
    )


@pytest.mark.parametrize(
    "pods",
    [
        known(kinds.PODS, health=Health()),
        known(kinds.PODS, health=Health(heard_s=100.0, scope="team")),
        known(kinds.PODS, health=Health(heard_s=100.0 - STALE_S)),
        known(kinds.PODS, kube.pod("odd", node_name="n2", phase=7)),  # type: ignore[arg-type]
    ],
)
def test_without_the_pods_of_all_nobody_knows_which_nodes_are_free(pods: Seen[object]) -> None:
    spot, _ = flavors_of(picture(pods=pods))
    assert spot == dataclasses.replace(SPOT_SEEN, nodes_free=None, room=None)


def test_without_the_workloads_what_waits_is_what_the_queue_says() -> None:
    raw = kube.cluster_queue("cq")
    raw["status"]["pendingWorkloads"] = 7
    shown = picture(
        workloads=known(kinds.WORKLOADS, health=Health()),
        cluster_queues=known(kinds.CLUSTER_QUEUES, raw),
    )
    (queue,) = queues_seen(shown, SETTINGS, NOW_S).queues
    assert (queue.pending, queue.pending_gpus) == (7, None)


def test_of_queues_that_were_not_heard_of_for_long_nobody_knows_what_they_hold() -> None:
    old = dataclasses.replace(picture().cluster_queues, is_known=False)
    alone = {key: dataclasses.replace(each, cohort="") for key, each in old.objects.items()}
    unseen = known(kinds.WORKLOADS, health=Health())
    for queues in (old, dataclasses.replace(old, objects=alone)):
        (queue,) = queues_seen(
            picture(cluster_queues=queues, workloads=unseen), SETTINGS, NOW_S
        ).queues
        assert queue.pending is None
        figures = {
            (each.reserved, each.used, each.parked, each.borrowable, each.free)
            for each in queue.flavors
        }
        assert figures == {(None, None, None, None, None)}


def test_a_workload_that_cannot_be_read_leaves_open_who_waits() -> None:
    bad = kube.workload("bad")
    bad["spec"]["priority"] = "high"
    (queue,) = queues_seen(
        picture(workloads=known(kinds.WORKLOADS, kube.workload("b"), bad)), SETTINGS, NOW_S
    ).queues
    assert (queue.pending, queue.pending_gpus) == (0, None)


def test_a_cohort_that_is_not_wholly_seen_lends_nothing_that_is_known() -> None:
    queues = picture().cluster_queues
    bad = {"bad": Unreadable(key="bad", uid="u", reason="no")}
    for shown in (
        picture(cluster_queues=dataclasses.replace(queues, unreadable=bad)),
        picture(cohorts=known(kinds.COHORTS, health=Health(is_denied=True))),
    ):
        spot, _ = flavors_of(shown)
        assert spot == dataclasses.replace(SPOT_SEEN, borrowable=None, free=None, most=None)


def test_a_queue_whose_cohorts_go_in_a_circle_is_doubted() -> None:
    ring = known(kinds.COHORTS, {"metadata": kube.meta("all"), "spec": {"parentName": "all"}})
    found = queues_seen(picture(cohorts=ring), SETTINGS, NOW_S)
    assert found.doubts == (
        "the cohorts above ClusterQueue cq have no end: Kueue admits nothing there",
    )


def test_a_flavor_that_nobody_describes_is_not_offered_and_is_doubted() -> None:
    bare = known(kinds.RESOURCE_FLAVORS, kube.flavor("spot", labels={"pool": "x"}))
    found = queues_seen(picture(flavors=bare), SETTINGS, NOW_S)
    assert found.queues[0].flavors == ()
    would = "in [clusters.flavors.NAME] would"
    assert found.doubts == (
        f"flavor spot: nothing says which capacity type it is; capacity_type {would}",
        f"flavor spot: nothing says which accelerator it has; accelerator {would}",
        "ClusterQueue cq names flavor flex: it is not seen",
    )


def test_a_flavor_of_which_no_node_stands_is_doubted_until_somebody_tells_its_nodes() -> None:
    untold = known(kinds.RESOURCE_FLAVORS, kube.flavor("spot", labels=SPOT))
    shown = picture(flavors=untold, nodes=known(kinds.NODES))
    found = queues_seen(shown, SETTINGS, NOW_S)
    assert found.queues[0].flavors == ()
    doubt = "flavor spot: nothing says how many accelerators a node has; accelerators_per_node"
    assert f"{doubt} in [clusters.flavors.NAME] would" in found.doubts
    told = dataclasses.replace(SETTINGS, flavors={"spot": FlavorSettings(accelerators_per_node=8)})
    (spot,) = queues_seen(shown, told, NOW_S).queues[0].flavors
    assert spot.accelerators_per_node == 8


def test_a_flavors_own_price_goes_before_what_machines_of_its_kind_cost() -> None:
    asked = []

    def price_of(*what: object) -> Priced:
        asked.append(what)
        return Priced(per_gpu_hour=None, doubt="no price is known")

    priced = dataclasses.replace(SETTINGS, prices={"spot": Decimal(2)}, price_of=price_of)
    found = queues_seen(picture(), priced, NOW_S)
    assert [each.price_per_gpu_hour for each in found.queues[0].flavors] == [Decimal(2), None]
    assert asked == [("FLEX", "H100", 8)]
    assert any("flex: no price is known; price_per_gpu_hour in" in one for one in found.doubts)
    assert found.known == ()


def test_a_price_of_a_list_is_told_with_who_listed_it_and_when() -> None:
    listed = Priced(
        per_gpu_hour=Decimal(3), words="a3-highgpu-8g in x", source="a list", age_s=86_400.0
    )
    priced = QueueSettings(namespace="team", price_of=lambda *_: listed)
    found = queues_seen(picture(), priced, NOW_S)
    queue = found.queues[0].queue
    assert found.known == tuple(
        KnownSeen(
            queue=queue,
            flavor=each.flavor,
            what="price",
            words="a3-highgpu-8g in x",
            source="a list",
            age_s=86_400.0,
        )
        for each in found.queues[0].flavors
    )
    assert found.known


@pytest.mark.parametrize("where", ["lq", "cq", "active"])
def test_a_queue_that_lets_nobody_in_is_stopped(where: str) -> None:
    line, queue = local_queue(), kube.cluster_queue("cq")
    if where == "lq":
        line["spec"]["stopPolicy"] = "Hold"
    elif where == "cq":
        queue["spec"]["stopPolicy"] = "HoldAndDrain"
    else:
        queue["status"]["conditions"] = [kube.condition("Active", status="False")]
    shown = picture(
        local_queues=known(kinds.LOCAL_QUEUES, line),
        cluster_queues=known(kinds.CLUSTER_QUEUES, queue),
    )
    assert queues_seen(shown, SETTINGS, NOW_S).queues[0].is_stopped


def test_a_queue_that_hands_on_to_other_clusters_offers_nothing() -> None:
    raw = {"metadata": kube.meta("dws"), "spec": {"controllerName": "kueue.x-k8s.io/multikueue"}}
    found = queues_seen(picture(checks=known(kinds.ADMISSION_CHECKS, raw)), SETTINGS, NOW_S)
    assert found.queues[0].flavors == ()
    assert "other clusters" in found.doubts[0]


def test_only_the_queues_that_were_named_are_ours() -> None:
    shown = picture(
        local_queues=known(kinds.LOCAL_QUEUES, local_queue("b"), local_queue("a"), local_queue("c"))
    )
    wishes = dataclasses.replace(SETTINGS, queues=frozenset("ab"))
    assert [each.queue for each in queues_seen(shown, wishes, NOW_S).queues] == ["a", "b"]


def test_what_is_not_seen_is_said_and_only_some_of_it_makes_the_picture_partial() -> None:
    bad = kube.workload("bad")
    bad["spec"]["priority"] = "high"
    shown: list[tuple[Kind[object], Seen[object]]] = [
        (kinds.WORKLOADS, known(kinds.WORKLOADS, health=Health())),
        (kinds.LOCAL_QUEUES, known(kinds.LOCAL_QUEUES, local_queue())),
        (kinds.NODES, known(kinds.NODES, health=Health(is_denied=True, trouble="we may not"))),
        (kinds.PODS, known(kinds.PODS, health=Health(heard_s=100.0, scope="team"))),
        (kinds.JOB_SETS, known(kinds.JOB_SETS, health=Health(heard_s=-900.0, trouble="silent"))),
        (kinds.EVENTS, absent()),
    ]
    assert snapshots.blind(shown) == (
        "workloads.kueue.x-k8s.io have not been seen yet",
        "jobsets.jobset.x-k8s.io have not been heard of for 16 min: silent",
    )
    assert snapshots.narrow(shown) == ("we may not", "pods can be seen in namespace team only")
    (sentence,) = snapshots.narrow([(kinds.WORKLOADS, known(kinds.WORKLOADS, bad))])
    assert sentence == (
        "1 workloads.kueue.x-k8s.io cannot be read: workloads.kueue.x-k8s.io team/bad: "
        "spec.priority is a text, no whole number"
    )
