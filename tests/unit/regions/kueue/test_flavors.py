"""What a flavor is, by whom it is said; and what its nodes could hold."""

from typing import TypeVar

import pytest

from regions.kueue import accelerators, machines
from regions.kueue.flavors import Answer, Description, FlavorSettings, capacity_of, describe
from regions.kueue.machines import Close, Room
from regions.kueue.objects.kinds import NODES, PODS, RESOURCE_FLAVORS, Kind, Unreadable, decode
from regions.kueue.objects.node import Node
from regions.kueue.objects.pod import Pod
from regions.kueue.objects.resource_flavor import ResourceFlavor
from tests.unit.regions.kueue import kube

T = TypeVar("T")
GKE = "cloud.google.com/"
NOW_S = 1793491200.0  # 2026-11-01
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def read(kind: Kind[T], raw: kube.Json) -> T:
    found = decode(kind, kind.versions[0], raw)
    assert not isinstance(found, Unreadable), found
    return found


def flavor(labels: dict[str, str] | None = None, **spec: object) -> ResourceFlavor:
    return read(RESOURCE_FLAVORS, kube.flavor(labels=labels, **spec))  # type: ignore[arg-type]


def node(name: str = "n", **more: object) -> Node:
    return read(NODES, kube.node(name, **more))  # type: ignore[arg-type]


def pod(name: str, on: str, **more: object) -> Pod:
    return read(PODS, kube.pod(name, node_name=on, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("labels", "word"),
    [
        ({"gke-provisioning": "standard"}, "ON_DEMAND"),
        ({"gke-provisioning": "spot"}, "SPOT"),
        ({"gke-provisioning": "preemptible"}, "SPOT"),
        ({"gke-provisioning": "flex-start"}, "FLEX"),
        ({"gke-spot": "true"}, "SPOT"),
        ({"gke-spot": "false"}, ""),
        ({"gke-flex-start": "true"}, "FLEX"),
        ({"gke-queued": "true", "gke-provisioning": "standard"}, "FLEX"),
        ({"reservation-name": "ours", "gke-provisioning": "standard"}, "RESERVED"),
        ({"reservation-name": "ours"}, "RESERVED"),
        ({"gke-provisioning": "something-new"}, ""),
        ({}, ""),
    ],
)
def test_labels_tell_the_capacity_type(labels: dict[str, str], word: str) -> None:
    found = capacity_of({GKE + key: value for key, value in labels.items()})
    assert found.word == word
    assert bool(found.source) == bool(word)


@pytest.mark.parametrize(
    ("labels", "word"),
    [
        ({GKE + "gke-accelerator": "nvidia-h100-80gb"}, "H100"),
        ({GKE + "gke-accelerator": "nvidia-h100-mega-80gb"}, "H100-MEGA"),
        ({GKE + "gke-accelerator": "nvidia-tesla-a100"}, "A100"),
        ({GKE + "gke-accelerator": "nvidia-a100-80gb"}, "A100-80GB"),
        ({GKE + "gke-accelerator": "nvidia-x9000"}, "nvidia-x9000"),
        (
            {GKE + "gke-accelerator": "nvidia-l4", GKE + "gke-gpu-partition-size": "1g.5gb"},
            "L4-MIG-1g.5gb",
        ),
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, "H100"),
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, "A100-80GB"),
        ({"nvidia.com/gpu.product": "NVIDIA-A100-PCIE-40GB"}, "A100"),
        ({"nvidia.com/gpu.product": "NVIDIA-L40S"}, "L40S"),
        ({"nvidia.com/gpu.product": "Tesla-T4"}, "T4"),
        ({"nvidia.com/gpu.product": "NVIDIA-H100-NVL-MIG-1g.10gb"}, "H100-NVL-MIG-1g.10gb"),
        ({"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"}, "L4-SHARED"),
        ({}, ""),
    ],
)
def test_labels_tell_the_accelerator(labels: dict[str, str], word: str) -> None:
    assert accelerators.name(labels) == word


@pytest.mark.parametrize(
    ("labels", "count"),
    [
        ({GKE + "gke-accelerator-count": "8"}, 8),
        ({"nvidia.com/gpu.count": "4"}, 4),
        ({"nvidia.com/gpu.count": "many"}, None),
        ({"nvidia.com/gpu.count": "0"}, None),
        ({"node.kubernetes.io/instance-type": "a3-highgpu-8g"}, 8),
        ({"node.kubernetes.io/instance-type": "a3-ultragpu-8g-nolssd"}, 8),
        ({"node.kubernetes.io/instance-type": "a2-megagpu-16g"}, 16),
        ({"node.kubernetes.io/instance-type": "g2-standard-32"}, 1),
        ({"node.kubernetes.io/instance-type": "n2-standard-8"}, None),
    ],
)
def test_labels_tell_how_many_are_on_a_node(labels: dict[str, str], count: int | None) -> None:
    assert accelerators.per_node(labels) == count


def test_a_flavor_of_gke_describes_itself() -> None:
    labels = {
        GKE + "gke-provisioning": "spot",
        GKE + "gke-accelerator": "nvidia-h100-80gb",
        "node.kubernetes.io/instance-type": "a3-highgpu-8g",
        "topology.kubernetes.io/zone": "us-east4-b",
        GKE + "gke-max-run-duration-seconds": "604800",
    }
    assert describe(flavor(labels), []) == Description(
        flavor="spot",
        capacity_type=Answer(word="SPOT", source=f"label {GKE}gke-provisioning=spot"),
        accelerator=Answer(word="H100", source="the flavor's labels"),
        accelerators_per_node=8,
        zones=("us-east4-b",),
        max_run_s=604_800.0,
        doubts=(),
    )


def test_what_a_flavor_does_not_say_its_nodes_do() -> None:
    labels = {"pool": "a"}
    more = labels | {GKE + "gke-spot": "true", GKE + "gke-accelerator": "nvidia-l4"}
    nodes = [
        node("a", labels=more, zone="z-b"),
        node("b", labels=more, zone="z-a", gpus=4),
        node("new", labels=labels | {GKE + "gke-spot": "true"}, gpus=0, zone="z-a"),
        node("other", labels={"pool": "b", GKE + "gke-provisioning": "standard"}, gpus=1),
    ]
    found = describe(flavor(labels), nodes)
    assert (found.capacity_type.word, found.accelerator.word) == ("SPOT", "L4")
    assert (found.accelerators_per_node, found.zones) == (4, ("z-a", "z-b"))


def test_nodes_that_disagree_speak_for_nobody() -> None:
    nodes = [
        node("a", labels={GKE + "gke-spot": "true"}),
        node("b", labels={GKE + "gke-provisioning": "standard"}),
    ]
    assert describe(flavor(), nodes).capacity_type == Answer()
    settings = FlavorSettings(capacity_type="RESERVED")
    assert describe(flavor(), nodes, settings).capacity_type == Answer(
        word="RESERVED", source="the region's configuration"
    )


def test_a_check_that_asks_for_nodes_in_the_queue_tells_flex() -> None:
    found = describe(flavor(), [], check_classes=["queued-provisioning.gke.io"])
    assert found.capacity_type.word == "FLEX"
    other = describe(flavor(), [], check_classes=["check-capacity.autoscaling.x-k8s.io"])
    assert other.capacity_type == Answer()


def test_what_contradicts_is_told_and_what_is_missing_too() -> None:
    labels = {GKE + "gke-spot": "true"}
    found = describe(flavor(labels), [], FlavorSettings(capacity_type="ON_DEMAND"))
    assert found.capacity_type.word == "SPOT"
    would = "accelerator in [clusters.flavors.NAME] would"
    assert found.doubts == (
        f"flavor spot: label {GKE}gke-spot=true says SPOT, the region's configuration ON_DEMAND",
        f"flavor spot: nothing says which accelerator it has; {would}",
    )
    assert describe(flavor(), []).accelerators_per_node is None


# ---- machines ----


ANYHOW = Close(levels=(), level="")


def room_of(
    nodes: list[Node],
    pods: list[Pod] | None = None,
    *,
    own: ResourceFlavor | None = None,
    close: Close = ANYHOW,
) -> Room:
    own = own or flavor()
    bears = machines.tolerated(own, "SPOT")
    return machines.room(own, nodes, machines.taken(pods or []), bears, close=close, now_s=NOW_S)


def test_only_whole_and_usable_nodes_are_free() -> None:
    nodes = [
        node("a", taints=[GPU_TAINT]),
        node("b", zone="z-b"),
        node("used"),
        node("cordoned", unschedulable=True),
        node("away", is_ready=False),
        node("leaving", taints=[{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]),
        node("of-another-team", taints=[{"key": "team", "value": "x", "effect": "NoSchedule"}]),
        node("discouraged", taints=[{"key": "x", "effect": "PreferNoSchedule"}]),
        node("cpu-only", gpus=0),
    ]
    pods = [pod("p", "used", gpus=1), pod("done", "b", phase="Succeeded"), pod("waits", "")]
    found = room_of(nodes, pods)
    assert (found.nodes_free, found.nodes_coming) == (3, 0)
    whole = [each for each in told(found) if each[1] == 8]
    assert whole == [("europe-west4-a", 8, 2), ("z-b", 8, 1)]


def test_the_taints_of_the_flavor_and_of_its_capacity_type_are_borne() -> None:
    taints = [
        {"key": GKE + "gke-spot", "value": "true", "effect": "NoSchedule"},
        {"key": "team", "value": "x", "effect": "NoSchedule"},
    ]
    nodes = [node("a", taints=taints)]
    assert room_of(nodes).nodes_free == 0
    assert room_of(nodes, own=flavor(nodeTaints=taints[1:])).nodes_free == 1
    added = [{"key": "team", "operator": "Exists"}]
    assert room_of(nodes, own=flavor(tolerations=added)).nodes_free == 1
    own = flavor(nodeTaints=taints[1:])
    bears = machines.tolerated(own, "ON_DEMAND")
    assert machines.room(own, nodes, {}, bears, close=ANYHOW, now_s=NOW_S).nodes_free == 0


BLOCK, RACK = "block", "rack"


def placed(name: str, block: str, rack: str, **fields: object) -> Node:
    labels = {BLOCK: block, RACK: rack}
    return node(name, labels={key: value for key, value in labels.items() if value}, **fields)


@pytest.mark.parametrize(
    ("level", "whole", "halves"), [(BLOCK, 3, 6), (RACK, 2, 4), ("row", None, None)]
)
def test_a_gang_that_stands_close_fits_into_one_domain(
    level: str, whole: int | None, halves: int | None
) -> None:
    nodes = [
        placed("a1", "a", "1"),
        placed("a2", "a", "1"),
        placed("a3", "a", "2"),
        placed("b1", "b", "1"),  # a rack of the same name, in another block
        placed("nowhere", "a", ""),  # Kueue knows none that has not all labels
    ]
    found = room_of(nodes, close=Close(levels=(BLOCK, RACK), level=level)).fitting(8)
    close = {each.accelerators: (each.ranks, each.ranks_close) for each in found}
    assert (close[8], close[4]) == ((4, whole), (8, halves))


def test_a_young_node_that_is_not_ready_is_coming_and_an_old_one_is_broken() -> None:
    def born(name: str, at: str, **more: object) -> Node:
        raw = kube.node(name, **more)  # type: ignore[arg-type]
        raw["metadata"]["creationTimestamp"] = at
        return read(NODES, raw)

    nodes = [
        born("booting", "2026-10-31T23:55:00Z", is_ready=False),
        born("driver", "2026-10-31T23:55:00Z", gpus=0),
        born("broken", "2026-10-31T20:00:00Z", is_ready=False),
        born("up", "2026-10-31T23:55:00Z"),
    ]
    found = room_of(nodes)
    assert (found.nodes_coming, found.nodes_free) == (2, 1)


def told(found: Room, most: int = 8) -> list[tuple[str, int, int]]:
    return [(each.zone, each.accelerators, each.ranks) for each in found.fitting(most)]


def test_a_gang_fits_node_by_node_and_not_by_the_sum() -> None:
    nodes = [node("a"), node("b"), node("c"), node("d", zone="z-b"), node("full", zone="z-c")]
    pods = [pod("p", "a", gpus=4), pod("q", "b", gpus=1), pod("r", "d", gpus=6)]
    found = room_of(nodes, [*pods, pod("s", "full", gpus=8)])
    here = "europe-west4-a"
    assert told(found) == [
        *((here, 8, 1), (here, 4, 4), (here, 2, 9), (here, 1, 19)),
        *(("z-b", 2, 1), ("z-b", 1, 2)),
    ]
    # A node of six is asked for whole, and in what is left when it is shared.
    assert [each for each in told(found, 6) if each[0] == here] == [
        *((here, 6, 2), (here, 4, 4), (here, 2, 9), (here, 1, 19)),
    ]
