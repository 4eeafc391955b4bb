"""What a member cluster says when it is asked whether all that is needed is there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from regions.examined import Examined, Finding
from regions.kueue import names
from regions.kueue.bootstrap import RUNNING, WAITING
from regions.kueue.checkup import Member, examine
from regions.kueue.cluster import KueueCluster
from regions.kueue.rights import RIGHTS, Scope
from tests.unit.regions.kueue import kube
from tests.unit.regions.kueue.servers import Server, serving
from tests.unit.regions.kueue.test_sight import Cluster

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUES = f"{KUEUE}/namespaces/lab/localqueues"
CLASSES = f"{KUEUE}/workloadpriorityclasses"
LAB = Member(namespace="lab")
MADE = {names.MANAGED_BY: names.MANAGER, names.PART: names.MEMBER_PART}
NAMED = Member(namespace="lab", priority_classes=frozenset({"one", "two"}))
NO_CLASS = "no class of priority is for its gangs: who waits preempts as who trains does"
ONE_CLASS = "one is -5, the only one: a granted gang cannot be raised above those that wait"
BOTH = "one is 5, two is 6"
Asked = tuple[str, str, str]  # verb, resource with its group, namespace


class Judged(Cluster):
    """A cluster that says of each right whether it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.denied: set[Asked] = set()
        self.reviewed: list[Asked] = []
        self.objects[QUEUES] = [queue("training")]
        self.objects[CLASSES] = [
            {"metadata": kube.meta(name) | {"labels": MADE}, "value": value}
            for name, value in ((WAITING, -1_000_000), (RUNNING, 500_000))
        ]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path != REVIEWS or request.path in self.refused or not self.is_up:
            return await super().answer(request)
        asked = json.loads(await request.read())["spec"]["resourceAttributes"]
        resource = "/".join(each for each in (asked["resource"], asked["subresource"]) if each)
        name = f"{resource}.{asked['group']}" if asked["group"] else resource
        found = (asked["verb"], name, asked["namespace"])
        self.reviewed.append(found)
        return web.json_response({"status": {"allowed": found not in self.denied}})


def queue(name: str, *, stop: str = "None", conditions: list[Any] | None = None) -> kube.Json:
    held = [kube.condition("Active")] if conditions is None else conditions
    return {
        "metadata": kube.meta(name, namespace="lab"),
        "spec": {"clusterQueue": "research", "stopPolicy": stop},
        "status": {"conditions": held},
    }


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as found:
        yield found


async def ask(server: Server, cluster: Judged, member: Member = LAB) -> list[Finding]:
    server.answer = cluster.answer
    return list(await examine(server.api(), member))


def amiss(findings: list[Finding]) -> list[Finding]:
    return [each for each in findings if not each.is_well]


async def test_a_cluster_that_has_all_says_so(server: Server) -> None:
    cluster = Judged()
    findings = await ask(server, cluster)
    assert [(each.what, each.said) for each in findings] == [
        ("API server", "Kubernetes v1.35.4"),
        ("Kueue", "serves v1beta2"),
        ("JobSet", "serves v1alpha2"),
        ("ProvisioningRequests", "serves v1"),
        ("rights", f"all {sum(len(each.verbs) for each in RIGHTS)} that are needed are held"),
        ("queue training", "admits, through research"),
        ("priorities", f"{RUNNING} is 500000, {WAITING} is -1000000"),
    ]
    assert amiss(findings) == []
    assert {each.mend for each in findings} == {""}


async def test_each_right_is_asked_just_where_it_is_needed(server: Server) -> None:
    cluster = Judged()
    await ask(server, cluster)
    places = {Scope.CLUSTER: "", Scope.GANGS: "lab", Scope.NODE_EVENTS: "default"}
    wanted = [(verb, each.name, places[each.scope]) for each in RIGHTS for verb in each.verbs]
    assert sorted(cluster.reviewed) == sorted(wanted)


@pytest.mark.parametrize("right", RIGHTS, ids=lambda each: f"{each.name}-{each.scope.name}")
async def test_each_right_that_is_missing_is_named_with_what_is_lost(
    server: Server, right: Any
) -> None:
    cluster = Judged()
    places = {Scope.CLUSTER: ("", "lab"), Scope.GANGS: ("lab",), Scope.NODE_EVENTS: ("default",)}
    cluster.denied = {(v, right.name, p) for v in right.verbs for p in places[right.scope]}
    (found,) = amiss(await ask(server, cluster))
    assert found == Finding(
        what=f"right to {', '.join(right.verbs)} {right.name}",
        is_well=False,
        said=f"is not held {right.scope}: {right.loss}",
        mend="broker regions bootstrap --apply grants it",
    )


async def test_a_right_that_is_held_in_our_namespace_only_is_told_as_that(server: Server) -> None:
    cluster = Judged()
    cluster.denied = {(verb, "pods", "") for verb in ("list", "watch")}
    (found,) = amiss(await ask(server, cluster))
    assert found.said.startswith("is held in namespace lab only, not in the whole cluster: ")


async def test_rights_that_cannot_be_asked_are_not_well(server: Server) -> None:
    cluster = Judged()
    cluster.refused.add(REVIEWS)
    (found,) = amiss(await ask(server, cluster))
    assert (found.what, found.said) == ("rights", "they could not be asked: not you (403)")


async def test_a_cluster_that_does_not_answer_says_one_thing(server: Server) -> None:
    cluster = Judged()
    cluster.is_up = False
    assert await ask(server, cluster) == [
        Finding(
            what="API server",
            is_well=False,
            said="not now (503)",
            mend="see whether the address, the credentials and the network to it are right",
        )
    ]


@pytest.mark.parametrize(
    ("queues", "member", "what", "said"),
    [
        ([], LAB, "queues", "namespace lab has no LocalQueue: nothing can be queued there"),
        (
            [queue("training")],
            Member(namespace="lab", queues=frozenset({"training", "other"})),
            "queue other",
            "there is none of this name in namespace lab",
        ),
        ([queue("a", stop="Hold")], LAB, "queue a", "it is stopped (Hold)"),
        (
            [queue("a", conditions=[])],
            LAB,
            "queue a",
            "Kueue says nothing of it: does ClusterQueue research exist?",
        ),
        (
            [
                queue(
                    "a", conditions=[kube.condition("Active", status="False", message="no flavor")]
                )
            ],
            LAB,
            "queue a",
            "it does not admit: no flavor",
        ),
    ],
)
async def test_a_queue_that_takes_nothing_is_named(
    server: Server, queues: list[kube.Json], member: Member, what: str, said: str
) -> None:
    cluster = Judged()
    cluster.objects[QUEUES] = queues
    (found,) = amiss(await ask(server, cluster, member))
    assert (found.what, found.said) == (what, said)
    assert found.mend


@pytest.mark.parametrize(
    ("classes", "member", "said"),
    [
        ({}, LAB, NO_CLASS),
        ({"one": 5}, LAB, NO_CLASS),
        ({"one": -5}, replace(LAB, priority_classes=frozenset({"one"})), ONE_CLASS),
        ({"one": 5, "two": 6}, NAMED, f"{BOTH}; who waits as one may preempt whoever has no class"),
        (
            {"one": 5, "two": 6, "batch": 1, "free": -1},
            NAMED,
            f"{BOTH}; who waits as one may preempt others who have batch, free",
        ),
        ({"one": 5}, replace(LAB, priority_classes=frozenset({"two"})), "there is no class two"),
    ],
)
async def test_priorities_that_cannot_tell_who_waits_are_named(
    server: Server, classes: dict[str, int], member: Member, said: str
) -> None:
    cluster = Judged()
    cluster.objects[CLASSES] = [
        {"metadata": kube.meta(name), "value": value} for name, value in classes.items()
    ]
    (found,) = amiss(await ask(server, cluster, member))
    assert (found.what, found.said) == ("priorities", said)


async def test_without_kueue_it_says_what_to_install(server: Server) -> None:
    cluster = Judged()
    cluster.kueue = ["v9"]
    found = amiss(await ask(server, cluster))
    assert found[0] == Finding(
        what="Kueue",
        is_well=False,
        said="does not serve workloads in v1beta2, v1beta1",
        mend="install Kueue, in a version that serves v1beta2, v1beta1",
    )


def test_a_cluster_of_kueue_can_be_asked() -> None:
    assert issubclass(KueueCluster, Examined)
