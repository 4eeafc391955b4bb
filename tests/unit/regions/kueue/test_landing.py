"""Where a gang may land: the flavor it was offered, the capacity it was offered, and how close."""

from typing import Any

import pytest

from regions.kueue.flavors import PROVISIONING
from regions.kueue.landing import (
    ANY_TOPOLOGY,
    GKE_ACCELERATOR,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    node_selector,
    tolerations,
    topology_annotations,
    topology_problem,
)
from regions.kueue.objects.taints import Taint
from tests.unit.regions.kueue.making import make_profile, make_queue, make_site

BLOCK = "cloud.google.com/gce-topology-block"
HOST = "kubernetes.io/hostname"
LEVELS = (BLOCK, HOST)


def test_a_gang_is_held_to_the_flavors_own_labels() -> None:
    site = make_site(node_labels={"pool": "a", "cloud.google.com/gke-spot": "true"})
    assert node_selector(make_queue(), site) == {
        "pool": "a",
        "cloud.google.com/gke-spot": "true",
        GKE_ACCELERATOR: "nvidia-h100-80gb",
    }


def test_a_profile_adds_labels_and_cannot_replace_the_flavors() -> None:
    profile = make_profile(node_selector={"pool": "b", "rack": "7"})
    site = make_site(node_labels={"pool": "a"}, is_gke=False, profile=profile)
    assert node_selector(make_queue(), site) == {"pool": "a", "rack": "7"}


CAPACITY = {
    "SPOT": ({"cloud.google.com/gke-spot": "true"}, ["cloud.google.com/gke-spot"]),
    "FLEX": (
        {"cloud.google.com/gke-flex-start": "true"},
        ["cloud.google.com/gke-flex-start", "cloud.google.com/gke-queued"],
    ),
    "ON_DEMAND": ({PROVISIONING: "standard"}, []),
    "RESERVED": ({PROVISIONING: "standard"}, []),
    "": ({}, []),
}


@pytest.mark.parametrize("capacity_type", CAPACITY)
def test_capacity_that_a_flavor_leaves_open_is_filled_in_on_gke(capacity_type: str) -> None:
    labels, taints = CAPACITY[capacity_type]
    queue = make_queue(capacity_type=capacity_type)
    site = make_site(node_labels={"pool": "a"}, accelerator_label="")
    assert node_selector(queue, site) == {"pool": "a", **labels}
    assert [one["key"] for one in tolerations(queue, site)] == ["nvidia.com/gpu", *taints]


@pytest.mark.parametrize(
    ("capacity_type", "label"),
    [
        ("FLEX", "cloud.google.com/gke-queued"),
        ("RESERVED", "cloud.google.com/reservation-name"),
        ("SPOT", "cloud.google.com/gke-preemptible"),
    ],
)
def test_a_flavor_that_tells_its_capacity_is_asked_for_nothing_more(
    capacity_type: str, label: str
) -> None:
    site = make_site(node_labels={label: "true"}, accelerator_label="")
    assert node_selector(make_queue(capacity_type=capacity_type), site) == {label: "true"}


def test_what_only_gke_writes_on_nodes_is_not_asked_for_elsewhere() -> None:
    site = make_site(node_labels={}, is_gke=False, accelerator_label="")
    assert node_selector(make_queue(), site) == {}


def test_a_gang_puts_up_with_the_taints_of_the_flavor_it_was_offered() -> None:
    profile = make_profile(
        tolerations=[
            {"key": "team", "value": "vision"},
            {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
        ]
    )
    site = make_site(taints=(Taint(key="dws", value="yes", effect="NoSchedule"),), profile=profile)
    assert tolerations(make_queue(), site) == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "cloud.google.com/gke-spot", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "dws", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "vision"},
    ]


TOPOLOGY = {
    "required": ("REQUIRED", "racks", BLOCK, {REQUIRED_TOPOLOGY: BLOCK}),
    # A single process stands close to itself; of more than one this is refused.
    "required, at a level that is not there": ("REQUIRED", "racks", "row", {ANY_TOPOLOGY: "true"}),
    "preferred": ("PREFERRED", "racks", BLOCK, {PREFERRED_TOPOLOGY: BLOCK}),
    "no wish, on a flavor that takes only gangs that say something": (
        "NONE",
        "racks",
        BLOCK,
        {ANY_TOPOLOGY: "true"},
    ),
    "preferred, and nobody says at which level": ("PREFERRED", "racks", "", {ANY_TOPOLOGY: "true"}),
    "preferred, on a flavor that knows no distances": ("PREFERRED", "", BLOCK, {}),
    "no wish": ("NONE", "", "", {}),
    "preferred, at a level that is not there": (
        "PREFERRED",
        "racks",
        "rack-of-another",
        {ANY_TOPOLOGY: "true"},
    ),
}


@pytest.mark.parametrize("case", TOPOLOGY)
def test_how_close_is_asked_of_kueue(case: str) -> None:
    wish, topology, level, expected = TOPOLOGY[case]
    fields: dict[str, Any] = {"topology_level": level} if level else {}
    site = make_site(topology=topology, levels=LEVELS, profile=make_profile(**fields))
    assert topology_annotations(make_queue(gang={"topology": wish}), site) == expected


PROBLEMS: dict[str, tuple[str, tuple[str, ...] | None, str, str]] = {
    "a level that is there": ("racks", LEVELS, BLOCK, ""),
    "levels that are not seen": ("racks", None, BLOCK, ""),
    "no topology": (
        *("", (), BLOCK),
        "flavor h100-spot does not know which of its machines stand close together",
    ),
    "no level": (
        *("racks", LEVELS, ""),
        (
            "the profile of flavor h100-spot names no level of its topology;"
            f" its topology racks has {BLOCK}, {HOST}"
        ),
    ),
    "a level that is not there": (
        *("racks", LEVELS, "row"),
        f"the profile of flavor h100-spot names level row; its topology racks has {BLOCK}, {HOST}",
    ),
    "a topology that is not there": (
        *("racks", (), BLOCK),
        "flavor h100-spot has topology racks, and there is none of that name",
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_a_wish_that_cannot_be_kept_says_what_there_is(case: str) -> None:
    topology, levels, level, why = PROBLEMS[case]
    fields: dict[str, Any] = {"topology_level": level} if level else {}
    site = make_site(topology=topology, levels=levels, profile=make_profile(**fields))
    assert topology_problem(make_queue(gang={"topology": "REQUIRED"}), site) == why
    for modest in ({"topology": "PREFERRED"}, {"topology": "REQUIRED", "ranks": 1}):
        assert topology_problem(make_queue(gang=modest), site) == ""
