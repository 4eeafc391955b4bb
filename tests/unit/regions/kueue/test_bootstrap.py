"""What sets a member cluster up: each object grants what it says, and no more."""

from dataclasses import replace
from typing import Any

import pytest
import yaml

from regions.kueue import names
from regions.kueue.bootstrap import (
    ACCOUNT,
    RUNNING,
    WAITING,
    Piece,
    Settings,
    is_ours,
    member_of,
    pieces,
)
from regions.kueue.enclave import network_policy
from regions.kueue.own_queue import OwnQueue, SettingsError
from regions.kueue.printed import documents, files, text
from regions.kueue.rights import RIGHTS, Scope, rules
from regions.kueue.site import own_class, priority_class
from tests.house.tree import ROOT
from tests.unit.regions.kueue.making import make_queue, make_site

PLAIN = Settings(queues={"training": "training"})
OWN = OwnQueue(
    name="research",
    cohort="all",
    flavors={
        "spot": {"nvidia.com/gpu": "64", "cpu": "1k"},
        "flex": {"nvidia.com/gpu": "0", "cpu": "0"},
    },
    checks={"flex-start": ("flex",), "budget": ()},
)
MEMBER = "deploy/member"


def of_flavors(**flavors: dict[str, str]) -> OwnQueue:
    return replace(OWN, flavors=flavors, checks={})


def found(settings: Settings, kind: str, name: str = "") -> dict[str, Any]:
    """The one object of a kind."""
    [piece] = [
        each
        for each in pieces(settings)
        if each.manifest["kind"] == kind and name in ("", each.manifest["metadata"]["name"])
    ]
    return piece.manifest


def test_what_is_printed_is_what_is_applied() -> None:
    settings = replace(PLAIN, own_queue=OWN)
    told = [each for each in yaml.safe_load_all(text(pieces(settings), settings)) if each]
    assert told == [each.manifest for each in pieces(settings)]


def test_the_manifests_of_the_repository_are_the_printed_ones() -> None:
    folder = ROOT / MEMBER
    kept = {each.name: each.read_text() for each in folder.glob("*.yaml")}
    assert kept == files(pieces(PLAIN)), (
        f"write them anew: broker regions bootstrap --queue training=training --directory {MEMBER}"
    )


def test_each_object_says_what_it_grants_in_front_of_it() -> None:
    for piece in pieces(replace(PLAIN, own_queue=OWN)):
        assert piece.grants
        assert all(each.endswith(".") for each in piece.grants)
        assert documents([piece]).startswith("# ")


def test_all_bears_our_label_and_what_is_not_shared_the_members() -> None:
    every = pieces(replace(PLAIN, namespace="lab", own_queue=OWN))
    assert all(is_ours(each.manifest) for each in every)
    shared = {each.name for each in every if not member_of(each.manifest)}
    assert shared == {
        "Namespace capacity-broker-system",
        f"ServiceAccount capacity-broker-system/{ACCOUNT}",
        f"WorkloadPriorityClass {WAITING}",
        f"WorkloadPriorityClass {RUNNING}",
    }
    assert {member_of(each.manifest) for each in every} == {"lab", ""}


def test_two_members_of_a_cluster_share_no_name_but_of_what_is_shared() -> None:
    one, two = (
        {each.name for each in pieces(replace(PLAIN, namespace=name)) if member_of(each.manifest)}
        for name in ("lab", "vision")
    )
    assert one & two == set()


def test_the_roles_hold_the_table_and_go_to_the_account_alone() -> None:
    for kind, scope, name in (
        ("ClusterRole", Scope.CLUSTER, "capacity-broker-lab"),
        ("Role", Scope.GANGS, "capacity-broker"),
        ("Role", Scope.NODE_EVENTS, "capacity-broker-lab"),
    ):
        settings = replace(PLAIN, namespace="lab")
        role = found(settings, kind, name)
        assert role["rules"] == rules(RIGHTS, scope)
        binding = found(settings, f"{kind}Binding", name)
        assert binding["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": kind,
            "name": name,
        }
        assert binding["metadata"].get("namespace") == role["metadata"].get("namespace")
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "capacity-broker-system"}
        ]


def test_a_broker_that_logs_in_from_elsewhere_needs_no_account() -> None:
    settings = replace(PLAIN, users=("broker@lab.iam.gserviceaccount.com",))
    kinds = {each.manifest["kind"] for each in pieces(settings)}
    assert "ServiceAccount" not in kinds
    assert found(settings, "ClusterRoleBinding")["subjects"] == [
        {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "User",
            "name": "broker@lab.iam.gserviceaccount.com",
        }
    ]


def test_a_gang_waits_and_trains_with_the_priorities_that_are_made() -> None:
    classes = {name: found(PLAIN, "WorkloadPriorityClass", name)["value"] for name in (WAITING, RUNNING)}  # fmt: skip  # noqa: E501
    assert priority_class(classes, -(2**31)) == WAITING
    for priority in (-1000, -1, 0, 1, 1000):
        assert own_class(classes, priority) == RUNNING


def test_the_closed_door_is_for_our_pods_alone_and_an_enclave_opens_it() -> None:
    closed = found(PLAIN, "NetworkPolicy")["spec"]
    assert closed == {
        "podSelector": {"matchLabels": {names.MANAGED_BY: names.MANAGER}},
        "policyTypes": ["Ingress", "Egress"],
    }
    own = network_policy(make_queue(), make_site())["spec"]["podSelector"]["matchLabels"]
    assert closed["podSelector"]["matchLabels"].items() <= own.items()


@pytest.mark.parametrize(("version", "field"), [("v1beta2", "cohortName"), ("v1beta1", "cohort")])
def test_a_queue_of_our_own_is_for_our_namespace_and_preempts_only_what_is_below(
    version: str, field: str
) -> None:
    queue = found(replace(PLAIN, own_queue=OWN, kueue=version), "ClusterQueue")
    assert queue["apiVersion"] == f"kueue.x-k8s.io/{version}"
    resources = ["nvidia.com/gpu", "cpu"]
    assert queue["spec"] == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "capacity-broker"}},
        "resourceGroups": [
            {
                "coveredResources": resources,
                "flavors": [
                    {
                        "name": flavor,
                        "resources": [
                            {"name": each, "nominalQuota": quota}
                            for each, quota in zip(resources, quotas, strict=True)
                        ],
                    }
                    for flavor, quotas in (("spot", ("64", "1k")), ("flex", ("0", "0")))
                ],
            }
        ],
        "preemption": {
            "withinClusterQueue": "LowerPriority",
            "reclaimWithinCohort": "LowerPriority",
        },
        field: "all",
        "admissionChecksStrategy": {
            "admissionChecks": [{"name": "flex-start", "onFlavors": ["flex"]}, {"name": "budget"}]
        },
    }


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"namespace": "default"}, "everybody's"),
        ({"namespace": "Not_A_Name"}, "cannot name a namespace"),
        ({"account_namespace": "capacity-broker"}, "a run could name it as its own"),
        ({"pod_security": "none"}, "standards are"),
        ({"waiting": 5, "running": 5}, "lower priority"),
        ({"queues": {}}, "at least one LocalQueue"),
        ({"queues": {"x" * 300: "cq"}}, "cannot name a queue"),
        ({"own_queue": replace(OWN, flavors={})}, "needs a flavor"),
        ({"own_queue": of_flavors(a={"cpu": "1"}, b={"gpu": "1"})}, "same resources"),
        ({"own_queue": of_flavors(spot={"cpu": "many"})}, "no quota of cpu"),
        ({"own_queue": of_flavors(spot={"cpu": "-1"})}, "no quota of cpu"),
        ({"own_queue": replace(OWN, checks={"c": ("gone",)})}, "no flavor of the queue"),
        ({"own_queue": replace(OWN, name="no name")}, "cannot name a ClusterQueue"),
    ],
)  # fmt: skip
def test_what_cannot_be_set_up_is_refused_in_words(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        pieces(replace(PLAIN, **changes))


def test_no_credential_is_printed() -> None:
    every: tuple[Piece, ...] = pieces(PLAIN)
    assert {each.manifest["kind"] for each in every} & {"Secret"} == set()
    assert found(PLAIN, "ServiceAccount")["automountServiceAccountToken"] is False
