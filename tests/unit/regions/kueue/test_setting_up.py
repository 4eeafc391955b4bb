"""Setting a member up and taking it back: what is ours, what is others', and what stays."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from regions.kueue import names
from regions.kueue.bootstrap import RUNNING, WAITING, Piece, Settings, pieces
from regions.kueue.discovery import Served
from regions.kueue.errors import BrokenError
from regions.kueue.manifest import JOBSET_API, launcher, occupant
from regions.kueue.objects.kinds import KINDS
from regions.kueue.own_queue import OwnQueue
from regions.kueue.setting_up import MANAGER, What, apply, compare, where
from regions.kueue.taking_back import Left, remove, survey
from tests.unit.regions.kueue.making import PACKED
from tests.unit.regions.kueue.servers import Server, serving

Json = dict[str, Any]
LAB = Settings(namespace="lab", queues={"training": "research"})
OWN = OwnQueue(name="ours", flavors={"spot": {"nvidia.com/gpu": "8"}})
OWNING = replace(LAB, queues={"training": "ours"}, own_queue=OWN)
SERVED = Served(
    kubernetes="v1.35.4",
    versions={kind.name: kind.versions[0] for kind in KINDS},
    blind=(),
)
# What stands in a namespace, as its groups tell it.
GROUPS = {
    "apps/v1": ["deployments"],
    "networking.k8s.io/v1": ["networkpolicies"],
    "rbac.authorization.k8s.io/v1": ["roles", "rolebindings"],
    "kueue.x-k8s.io/v1beta2": ["localqueues", "workloads"],
    JOBSET_API: ["jobsets"],
    "metrics.k8s.io/v1beta1": ["pods"],
}
CORE = ["configmaps", "serviceaccounts", "pods", "events", "secrets"]


class Shelf:
    """Objects by path; applied by the server as far as what is asked here goes."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.changes: list[tuple[str, str]] = []
        self.refused: dict[tuple[str, str], tuple[int, str]] = {}
        self.kept: set[str] = set()
        self.uids = 0

    def put(self, path: str, body: Json) -> None:
        self.uids += 1
        meta = {**body["metadata"], "uid": f"uid-{self.uids}"}
        self.objects[path] = {**body, "metadata": meta}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        refused = self.refused.get((request.method, path))
        if refused is not None:
            return web.json_response({"message": refused[1]}, status=refused[0])
        told = self.told(path)
        if told is not None:
            return web.json_response(told)
        match request.method:
            case "PATCH":
                return self._apply(request, json.loads(await request.read()))
            case "DELETE":
                return self._delete(path, json.loads(await request.read()))
        if path in self.objects:
            return web.json_response(self.objects[path])
        if path.rpartition("/")[2] in KINDS_IN_PLURAL:
            return web.json_response({"metadata": {}, "items": self._list(request)})
        return web.json_response({"message": "not found"}, status=404)

    def told(self, path: str) -> Json | None:
        if path == "/apis":
            return {"groups": [group(api) for api in GROUPS]}
        listed = CORE if path == "/api/v1" else GROUPS.get(path.removeprefix("/apis/"))
        if listed is None:
            return None
        found = ({"name": each, "namespaced": True, "verbs": ["list"]} for each in listed)
        return {"resources": list(found)}

    def _list(self, request: web.Request) -> list[Json]:
        wanted = [each for each in request.query.get("labelSelector", "").split(",") if each]
        *_, plural = request.path.split("/")
        return [
            each
            for path, each in self.objects.items()
            if path.rpartition("/")[0] == request.path
            or ("/namespaces/" not in request.path and path.split("/")[-2] == plural)
            if {*wanted} <= {f"{k}={v}" for k, v in each["metadata"].get("labels", {}).items()}
        ]

    def _apply(self, request: web.Request, body: Json) -> web.Response:
        assert request.content_type == "application/apply-patch+yaml"
        assert request.query["fieldManager"] == MANAGER
        there = deepcopy(self.objects.get(request.path, {"metadata": {"uid": "new"}}))
        made = merged(there, body)
        if "dryRun" not in request.query:
            self.changes.append(("PATCH", request.path))
            self.put(request.path, made)
        return web.json_response(made)

    def _delete(self, path: str, body: Json) -> web.Response:
        if self.objects[path]["metadata"]["uid"] != body["preconditions"]["uid"]:
            return web.json_response({"message": "another"}, status=409)
        self.changes.append(("DELETE", path))
        if path not in self.kept:
            del self.objects[path]
        return web.json_response({})


KINDS_IN_PLURAL = {
    *CORE, "deployments", "networkpolicies", "roles", "rolebindings", "localqueues", "workloads",
    "jobsets", "clusterroles", "clusterrolebindings", "clusterqueues", "workloadpriorityclasses",
    "namespaces",
}  # fmt: skip


def group(api: str) -> Json:
    return {"name": api.partition("/")[0], "preferredVersion": {"groupVersion": api}}


def merged(there: Json, body: Json) -> Json:
    for key, value in body.items():
        both = isinstance(value, dict) and isinstance(there.get(key), dict)
        there[key] = merged(there[key], value) if both else value
    return there


class Place:
    def __init__(self, server: Server) -> None:
        self.shelf = Shelf()
        self.api = server.api()
        self.clock = server.clock
        server.answer = self.shelf.answer

    async def set_up(self, settings: Settings) -> None:
        for step in await compare(self.api, pieces(settings)):
            await apply(self.api, step)

    async def look(self, namespace: str = "lab") -> Left:
        return await survey(self.api, SERVED, namespace, LAB.account_namespace)

    async def take_back(self, left: Left) -> list[str]:
        return [f"{each.name} {said}" async for each, said in remove(self.api, left, self.clock)]


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with serving() as server:
        yield Place(server)


def piece(kind: str, settings: Settings = LAB) -> Piece:
    return next(each for each in pieces(settings) if each.manifest["kind"] == kind)


async def test_a_bare_cluster_gets_all_and_then_nothing_more(place: Place) -> None:
    steps = await compare(place.api, pieces(LAB))
    assert place.shelf.changes == []
    assert {each.what for each in steps} == {What.NEW}
    await place.set_up(LAB)
    applied = [path for _, path in place.shelf.changes]
    assert applied == [where(each.manifest) for each in pieces(LAB)]
    again = await compare(place.api, pieces(LAB))
    assert {each.what for each in again} == {What.SAME}


def cluster_queue(name: str) -> Json:
    version = piece("LocalQueue").manifest["apiVersion"]
    return {"apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": name}}


async def test_a_queue_that_leads_nowhere_is_said_before_it_is_made(place: Place) -> None:
    queue = (await compare(place.api, pieces(LAB)))[-1]
    said = "its ClusterQueue research is not there: it lets no run in until it is"
    assert (queue.what, queue.said) == (What.NEW, (said,))
    path = where(cluster_queue("research"))
    place.shelf.refused["GET", path] = (403, "not yours to see")
    assert (await compare(place.api, pieces(LAB)))[-1].said == ()
    place.shelf.refused.clear()
    place.shelf.put(path, cluster_queue("research"))
    assert (await compare(place.api, pieces(LAB)))[-1].said == ()


async def test_a_queue_that_comes_with_its_own_leads_there(place: Place) -> None:
    steps = await compare(place.api, pieces(OWNING))
    assert {each.piece.manifest["kind"] for each in steps} > {"ClusterQueue", "LocalQueue"}
    assert [each.said for each in steps if each.piece.manifest["kind"] == "LocalQueue"] == [()]


async def test_what_changes_is_said_field_by_field(place: Place) -> None:
    await place.set_up(LAB)
    place.shelf.put(where(cluster_queue("vision")), cluster_queue("vision"))
    other = replace(LAB, queues={"training": "vision"}, running=7)
    changed = [each for each in await compare(place.api, pieces(other)) if each.is_to_do]
    assert [(each.piece.name, each.said) for each in changed] == [
        (f"WorkloadPriorityClass {RUNNING}", ("value: 500000 -> 7",)),
        ("LocalQueue lab/training", ("spec.clusterQueue: research -> vision",)),
    ]


async def test_a_namespace_of_others_stays_theirs_and_what_it_lacks_is_said(place: Place) -> None:
    path = "/api/v1/namespaces/lab"
    theirs = {"kind": "Namespace", "metadata": {"name": "lab", "labels": {"team": "lab"}}}
    place.shelf.put(path, theirs)
    steps = await compare(place.api, pieces(LAB))
    assert (steps[0].what, steps[0].said) == (
        What.OTHERS,
        (
            "it has not pod-security.kubernetes.io/enforce=restricted",
            "it has not pod-security.kubernetes.io/warn=restricted",
        ),
    )
    await place.set_up(LAB)
    assert place.shelf.objects[path]["metadata"]["labels"] == {"team": "lab"}
    assert "Namespace lab" not in {each.name for each in (await place.look()).found}


async def test_an_object_of_others_does_if_it_says_the_same_and_refuses_all_if_not(
    place: Place,
) -> None:
    queue = piece("LocalQueue").manifest
    theirs = {**queue, "metadata": {"name": "training", "namespace": "lab"}}
    place.shelf.put(where(queue), theirs)
    assert (await compare(place.api, pieces(LAB)))[-1].what is What.OTHERS
    place.shelf.put(where(queue), {**theirs, "spec": {"clusterQueue": "theirs"}})
    step = (await compare(place.api, pieces(LAB)))[-1]
    why = "it is there, was not set up by this, and is another: "
    assert (step.what, step.said) == (
        What.REFUSED,
        (f"{why}spec.clusterQueue is theirs, not research",),
    )


async def test_a_field_that_another_holds_is_refused_with_how_to_take_it(place: Place) -> None:
    await place.set_up(LAB)
    path = where(piece("NetworkPolicy").manifest)
    place.shelf.refused["PATCH", path] = (409, 'conflict with "kubectl": .spec')
    steps = await compare(place.api, pieces(LAB))
    [step] = [each for each in steps if each.what is What.REFUSED]
    assert step.said == ('conflict with "kubectl": .spec; --force takes the fields over',)


async def test_without_kueue_it_is_said_that_it_is_missing(place: Place) -> None:
    path = where(piece("WorkloadPriorityClass").manifest)
    place.shelf.refused["PATCH", path] = (404, "the server could not find the requested resource")
    steps = await compare(place.api, pieces(LAB))
    refused = [each for each in steps if each.what is What.REFUSED]
    assert [each.said for each in refused] == [
        ("Kueue does not serve kueue.x-k8s.io/v1beta2 WorkloadPriorityClass: is it installed?",)
    ]


async def test_what_was_set_up_is_taken_back_to_the_last_object(place: Place) -> None:
    await place.set_up(OWNING)
    root = "/api/v1/namespaces/lab/configmaps/kube-root-ca.crt"
    place.shelf.put(root, {"metadata": {"name": "kube-root-ca.crt", "namespace": "lab"}})
    program = launcher(PACKED, "lab")
    place.shelf.put(f"/api/v1/namespaces/lab/configmaps/{program['metadata']['name']}", program)
    taken = occupant("p1", "r1", "lab")
    gangs = f"/apis/{JOBSET_API}/namespaces/lab/jobsets"
    place.shelf.put(f"{gangs}/{taken['metadata']['name']}", taken)
    left = await place.look()
    assert left.refused == ()
    assert {each.left for each in left.found} == {""}
    assert await place.take_back(left) == [f"{each.name} removed" for each in left.found]
    assert list(place.shelf.objects) == [root]


async def test_nothing_goes_while_a_gang_is_there(place: Place) -> None:
    await place.set_up(LAB)
    gang = occupant("p1", "r1", "lab")
    gang["metadata"]["labels"] = {
        names.MANAGED_BY: names.MANAGER,
        names.TEAM: "vision",
        names.RUN: "one",
    }
    path = f"/apis/{JOBSET_API}/namespaces/lab/jobsets/cb-p1"
    place.shelf.put(path, gang)
    left = await place.look()
    assert left.refused == (
        "gangs of the broker are there: cb-p1 (vision/one)",
        "drain them first",
    )
    assert left.found == ()
    place.shelf.put(path, {**gang, "status": {"terminalState": "Completed"}})
    assert (await place.look()).refused == ()


@pytest.mark.parametrize(
    "answer", [{"kind": "Pod", "metadata": {}}, {"items": [], "metadata": {"continue": "more"}}]
)
async def test_nothing_is_taken_back_while_it_is_not_known_which_gangs_are_there(
    place: Place, answer: Json
) -> None:
    await place.set_up(LAB)
    place.shelf.objects[f"/apis/{JOBSET_API}/namespaces/lab/jobsets"] = answer
    with pytest.raises(BrokenError):
        await place.look()


@pytest.mark.parametrize(
    ("path", "meta", "said"),
    [
        ("/api/v1/namespaces/lab/secrets/key", {}, "secrets/key"),
        ("/apis/apps/v1/namespaces/lab/deployments/web", {}, "deployments/web"),
        ("/api/v1/namespaces/lab/configmaps/kube-root-ca.crt", {}, ""),
        ("/api/v1/namespaces/lab/events/e", {}, ""),
        ("/api/v1/namespaces/lab/pods/p", {"ownerReferences": [{"uid": "u"}]}, ""),
        ("/api/v1/namespaces/lab/pods/p", {}, "pods/p"),
    ],
)
async def test_a_namespace_that_holds_what_is_others_stays(
    place: Place, path: str, meta: Json, said: str
) -> None:
    await place.set_up(LAB)
    name = path.rpartition("/")[2]
    place.shelf.put(path, {"metadata": {"name": name, "namespace": "lab", **meta}})
    stays = {each.name: each.left for each in (await place.look()).found if each.left}
    assert stays == ({"Namespace lab": f"it holds what is not ours: {said}"} if said else {})


async def test_a_namespace_stays_when_not_all_of_it_can_be_looked_at(place: Place) -> None:
    await place.set_up(LAB)
    place.shelf.refused["GET", "/api/v1/namespaces/lab/secrets"] = (403, "not you")
    stays = [each for each in (await place.look()).found if each.left]
    assert [(each.name, each.left) for each in stays] == [
        (
            "Namespace lab",
            "it holds what is not ours: secrets, which cannot be looked at (not you (403))",
        )
    ]


@pytest.mark.parametrize("root", ["/apis", "/api/v1", "/apis/apps/v1"])
async def test_a_namespace_is_not_taken_for_empty_by_a_cluster_that_says_nothing(
    place: Place, root: str
) -> None:
    await place.set_up(LAB)
    place.shelf.refused["GET", root] = (404, "not found")
    with pytest.raises(BrokenError):
        await place.look()


async def test_what_members_share_goes_with_the_last_of_them(place: Place) -> None:
    await place.set_up(LAB)
    await place.set_up(replace(LAB, namespace="vision"))
    left = await place.look()
    assert {each.name for each in left.found if each.left} == {
        f"WorkloadPriorityClass {WAITING}",
        f"WorkloadPriorityClass {RUNNING}",
        "ServiceAccount capacity-broker-system/capacity-broker",
        "Namespace capacity-broker-system",
    }
    assert {each.left for each in left.found} == {"", "vision of this cluster needs it"}
    await place.take_back(left)
    last = await place.look("vision")
    assert {each.left for each in last.found} == {""}
    await place.take_back(last)
    assert place.shelf.objects == {}


async def test_a_queue_of_ours_that_others_use_stays(place: Place) -> None:
    await place.set_up(OWNING)
    place.shelf.put(
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/guests/localqueues/theirs",
        {"metadata": {"name": "theirs", "namespace": "guests"}, "spec": {"clusterQueue": "ours"}},
    )
    stays = {each.name: each.left for each in (await place.look()).found if each.left}
    assert stays == {"ClusterQueue ours": "LocalQueue guests/theirs leads to it"}


async def test_an_object_that_is_another_by_now_stays(place: Place) -> None:
    await place.set_up(LAB)
    left = await place.look()
    path = "/api/v1/namespaces/capacity-broker-system"
    place.shelf.put(path, place.shelf.objects[path])
    said = await place.take_back(left)
    assert "Namespace capacity-broker-system is another object by now, and stays" in said
    assert list(place.shelf.objects) == [path]


async def test_what_does_not_go_within_a_minute_is_told(place: Place) -> None:
    await place.set_up(LAB)
    place.shelf.kept.add("/api/v1/namespaces/lab")
    said = await place.take_back(await place.look())
    assert [each for each in said if not each.endswith(" removed")] == [
        "Namespace lab is still on its way out"
    ]
    assert sum(place.clock.pauses) >= 60
