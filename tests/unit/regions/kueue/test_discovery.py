"""What a cluster serves and what we may do, as its API server tells it."""

import json
from collections.abc import AsyncIterator, Mapping

import pytest
from aiohttp import web

from regions.kueue import discovery
from regions.kueue.discovery import discover, rights
from regions.kueue.errors import BrokenError, RefusedError
from regions.kueue.objects import kinds
from tests.unit.regions.kueue.servers import Server, serving

V2, V1 = "v1beta2", "v1beta1"
OF_KUEUE = [kind.plural for kind in kinds.KINDS if kind.group == kinds.KUEUE]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as found:
        yield found


def answering(server: Server, answers: Mapping[str, object]) -> None:
    """Answer these paths, and 404 to all others; a number is a status."""

    async def answer(request: web.Request) -> web.StreamResponse:
        found = answers.get(request.path, 404)
        if isinstance(found, int):
            return web.json_response({"message": "no"}, status=found)
        return web.Response(body=found if isinstance(found, bytes) else json.dumps(found).encode())

    server.answer = answer


def group(*versions: str) -> object:
    return {"kind": "APIGroup", "versions": [{"version": version} for version in versions]}


def resources(*plurals: str) -> object:
    return {"resources": [{"name": plural} for plural in (*plurals, "workloads/status")]}


def cluster(**more: object) -> dict[str, object]:
    return {
        "/version": {"gitVersion": "v1.35.4"},
        "/apis/kueue.x-k8s.io": group(V2, V1),
        "/apis/kueue.x-k8s.io/v1beta2": resources(*OF_KUEUE),
        "/apis/jobset.x-k8s.io": group("v1alpha2"),
        "/apis/jobset.x-k8s.io/v1alpha2": resources("jobsets"),
        "/apis/autoscaling.x-k8s.io": group("v1beta1", "v1"),
        "/apis/autoscaling.x-k8s.io/v1": resources("provisioningrequests"),
        **more,
    }


async def test_the_best_version_of_each_kind_is_taken(server: Server) -> None:
    answering(server, cluster())
    found = await discover(server.api())
    assert found.kubernetes == "v1.35.4"
    assert found.blind == ()
    assert {kind.name for kind in kinds.KINDS} == found.versions.keys()
    assert {found.version(kind) for kind in kinds.KINDS if kind.group == kinds.KUEUE} == {V2}
    assert found.version(kinds.PROVISIONING_REQUESTS) == "v1"
    assert len(server.asked) == 7


async def test_an_older_kueue_is_read_in_its_own_version(server: Server) -> None:
    old = [plural for plural in OF_KUEUE if plural not in ("cohorts", "topologies")]
    answers = cluster(
        **{
            "/apis/kueue.x-k8s.io": group(V1, "v1alpha1"),
            "/apis/kueue.x-k8s.io/v1beta1": resources(*old),
            "/apis/kueue.x-k8s.io/v1alpha1": resources("cohorts"),
        }
    )
    answering(server, answers)
    found = await discover(server.api())
    assert found.version(kinds.WORKLOADS) == V1
    assert found.version(kinds.COHORTS) == "v1alpha1"
    assert found.version(kinds.TOPOLOGIES) is None
    assert found.blind == ()


async def test_what_a_cluster_cannot_be_used_without_is_said(server: Server) -> None:
    answering(server, {"/version": {"gitVersion": "v1.35.4"}})
    found = await discover(server.api())
    assert found.blind == (
        "Kueue is not installed: there are no ClusterQueues",
        "Kueue is not installed: there are no LocalQueues",
        "Kueue is not installed: there are no Workloads",
        "Kueue is not installed: there are no ResourceFlavors",
        "JobSet is not installed: no gang can be started",
    )


@pytest.mark.parametrize("where", ["/apis/kueue.x-k8s.io", "/apis/kueue.x-k8s.io/v1beta2"])
async def test_an_error_is_no_absence(server: Server, where: str) -> None:
    answering(server, cluster(**{where: 503}))
    with pytest.raises(RefusedError):
        await discover(server.api())
    answering(server, cluster(**{where: b"<html>"}))
    with pytest.raises(BrokenError):
        await discover(server.api())


REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


async def test_rights_are_what_the_rules_say(server: Server) -> None:
    rules = [
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
        {"verbs": ["*"], "apiGroups": ["jobset.x-k8s.io"], "resources": ["*"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"]},
        {"verbs": ["get"]},
    ]
    status = {"resourceRules": rules, "incomplete": False}
    answering(server, {REVIEW: {"status": status}})
    found = await rights(server.api(), "team")
    assert found.may("list", "", "pods") is True
    assert found.may("create", "jobset.x-k8s.io", "jobsets") is True
    assert found.may("delete", "", "pods") is False
    assert found.may("get", "", "secrets") is False
    answering(server, {REVIEW: {"status": status | {"incomplete": True}}})
    part = await rights(server.api(), "team")
    assert (part.may("list", "", "pods"), part.may("delete", "", "pods")) == (True, None)


def test_a_path_names_a_namespace_only_where_there_are_some() -> None:
    assert discovery.path(kinds.WORKLOADS, V2, "team", "a") == (
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads/a"
    )
    assert discovery.path(kinds.NODES, "v1", "team") == "/api/v1/nodes"
