"""All that is watched of one cluster: what is followed, how widely, and in which version."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

from regions.kueue import sight
from regions.kueue.objects import kinds
from regions.kueue.objects.kinds import KINDS
from regions.kueue.sight import FOLLOWED, Sight
from tests.unit.regions.kueue import kube
from tests.unit.regions.kueue.servers import Server, serving

OURS = "team"


class Cluster:
    """What a server answers for a cluster: kinds in versions, objects by path, and refusals."""

    def __init__(self) -> None:
        self.kueue = ["v1beta2"]
        self.is_up = True
        self.objects: dict[str, list[kube.Json]] = {}
        self.refused: set[str] = set()
        self.asked: list[tuple[str, str]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if not self.is_up:
            return web.json_response({"message": "not now"}, status=503)
        if path in self.refused:
            return web.json_response({"message": "not you"}, status=403)
        if request.query.get("watch"):
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.Event().wait()
        told = self.told(path)
        if told is None and path.rpartition("/")[2] not in {kind.plural for kind in KINDS}:
            return web.json_response({"message": "not found"}, status=404)  # one that it has not
        if told is None:
            self.asked.append((path, request.query.get("fieldSelector", "")))
            items = self.objects.get(path, [])
            told = {"metadata": {"resourceVersion": "1"}, "items": items}
        return web.Response(body=json.dumps(told).encode())

    def told(self, path: str) -> object:
        """The answer to a question of discovery."""
        _, *steps = path.split("/")
        if steps == ["version"]:
            return {"gitVersion": "v1.35.4"}
        if steps[0] == "apis" and len(steps) in (2, 3):
            own = [kind for kind in KINDS if kind.group == steps[1]]
            versions = (
                self.kueue if steps[1] == kinds.KUEUE else list(own[0].versions if own else ())
            )
            if len(steps) == 2:
                return {"versions": [{"version": version} for version in versions]}
            return {"resources": [{"name": kind.plural} for kind in own]}
        return None


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as found:
        yield found


@contextlib.asynccontextmanager
async def watched(server: Server, cluster: Cluster) -> AsyncIterator[Sight]:
    server.answer = cluster.answer
    seen = Sight(server.api(), OURS, clock=Patient(server), chance=random.Random(3))
    running = asyncio.create_task(seen.run())
    try:
        yield seen
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


class Patient:
    """The server's clock, on which long pauses last until a test ends them."""

    def __init__(self, server: Server) -> None:
        self._clock = server.clock
        self.long: list[asyncio.Event] = []

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    async def pause(self, seconds: float) -> None:
        if seconds < 5:
            await self._clock.pause(seconds)
            return
        over = asyncio.Event()
        self.long.append(over)
        await over.wait()


async def until(is_so: Callable[[], object]) -> None:
    for _ in range(3_000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to that")


def all_heard(seen: Sight) -> bool:
    return all(each.is_known for _, each in seen.known().values())


async def test_everything_is_followed_as_widely_as_it_has_to_be(server: Server) -> None:
    cluster = Cluster()
    async with watched(server, cluster) as seen:
        assert not any(each.is_known for _, each in seen.known().values())
        await until(lambda: all_heard(seen))
        assert all(each.is_everywhere for _, each in seen.known().values())
    kueue = "/apis/kueue.x-k8s.io/v1beta2"
    assert sorted(cluster.asked) == sorted(
        [
            *((f"{kueue}/{kind.plural}", "") for kind in KINDS if kind.group == kinds.KUEUE),
            ("/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets", ""),
            ("/apis/autoscaling.x-k8s.io/v1/namespaces/team/provisioningrequests", ""),
            ("/api/v1/pods", ""),
            ("/api/v1/nodes", ""),
            ("/api/v1/namespaces/team/events", ""),
            ("/api/v1/namespaces/default/events", "involvedObject.kind=Node"),
        ]
    )


async def test_rights_that_are_missing_narrow_it(server: Server) -> None:
    cluster = Cluster()
    cluster.refused = {"/api/v1/pods", "/api/v1/nodes"}
    async with watched(server, cluster) as seen:
        await until(lambda: seen.known()["nodes"][1].trouble.startswith("we may not see nodes"))
        await until(lambda: seen.snapshot().pods.is_known)
        shown = seen.snapshot()
        assert not shown.nodes.is_known
        assert not shown.pods.is_everywhere
        assert ("/api/v1/namespaces/team/pods", "") in cluster.asked


async def test_of_the_pods_of_others_those_count_that_hold_accelerators(server: Server) -> None:
    cluster = Cluster()
    theirs = [kube.pod("gpu", node_name="n"), kube.pod("cpu", node_name="n", gpus=0)]
    for each in theirs:
        each["metadata"]["namespace"] = "other"
    cluster.objects["/api/v1/pods"] = [*theirs, kube.pod("ours", gpus=0)]
    async with watched(server, cluster) as seen:
        await until(lambda: seen.snapshot().pods.is_known)
        assert sorted(seen.snapshot().pods.objects) == ["other/gpu", "team/ours"]


async def test_a_cluster_that_does_not_say_what_it_serves_is_unknown(server: Server) -> None:
    cluster = Cluster()
    cluster.is_up = False
    async with watched(server, cluster) as seen:
        await until(lambda: "not now" in seen.trouble)
        _, workloads = seen.known()["workloads"]
        assert not workloads.is_known
        assert workloads.trouble == "it does not tell what it serves: not now (503)"


async def test_it_is_followed_anew_after_it_was_ended(server: Server) -> None:
    cluster = Cluster()
    async with watched(server, cluster) as seen:
        await until(lambda: all_heard(seen))
        first = seen.informer("pods")
    cluster.objects["/api/v1/pods"] = [kube.pod("later")]
    running = asyncio.create_task(seen.run())
    try:
        await until(lambda: "team/later" in seen.snapshot().pods.objects)
        assert seen.informer("pods") is not first
        await until(lambda: all_heard(seen))
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_a_new_version_of_kueue_is_followed_in_its_own_words(server: Server) -> None:
    cluster = Cluster()
    cluster.kueue = ["v1beta1"]
    path = "/apis/kueue.x-k8s.io/{}/clusterqueues"
    old, new = kube.cluster_queue("cq"), kube.cluster_queue("cq", cohort="new")
    old["spec"]["cohort"] = "old"
    cluster.objects = {path.format("v1beta1"): [old], path.format("v1beta2"): [new]}

    def cohort(seen: Sight) -> str:
        found = seen.snapshot().cluster_queues.objects.get("cq")
        return found.cohort if found is not None else ""

    async with watched(server, cluster) as seen:
        clock = seen._clock
        assert isinstance(clock, Patient)
        await until(lambda: cohort(seen) == "old")
        nodes, marks = seen.informer("nodes"), seen.generations()
        cluster.kueue = ["v1beta2", "v1beta1"]
        clock.long[0].set()
        await until(lambda: cohort(seen) == "new")
        assert seen.informer("nodes") is nodes
        assert seen.generations() != marks


async def test_a_kind_that_a_cluster_does_not_have_is_known_to_be_empty(server: Server) -> None:
    cluster = Cluster()
    cluster.kueue = []
    async with watched(server, cluster) as seen:
        await until(lambda: all_heard(seen))
        assert seen.served is not None
        assert "Kueue is not installed: there are no Workloads" in seen.served.blind
        assert seen.informer("workloads") is None


async def test_what_a_cluster_says_that_it_has_no_more_is_not_taken_for_empty(
    server: Server,
) -> None:
    cluster = Cluster()
    queues = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
    cluster.objects = {queues: [kube.cluster_queue("cq")]}
    async with watched(server, cluster) as seen:
        clock = seen._clock
        assert isinstance(clock, Patient)
        await until(lambda: all_heard(seen))
        followed = seen.informer("cluster queues")
        cluster.kueue = []
        clock.long[0].set()
        await until(lambda: "Kueue is not installed" in seen.trouble)
        assert seen.informer("cluster queues") is followed
        assert seen.snapshot().cluster_queues.objects.keys() == {"cq"}
        cluster.kueue = ["v1beta2"]
        await until(lambda: len(clock.long) > 1)
        clock.long[1].set()
        await until(lambda: not seen.trouble)
        assert seen.informer("cluster queues") is followed


async def test_news_are_told(server: Server) -> None:
    cluster = Cluster()
    cluster.objects["/api/v1/nodes"] = [kube.node()]
    async with watched(server, cluster) as seen:
        async with asyncio.timeout(30):
            await seen.news.wait()
        assert seen.snapshot().nodes.objects.keys() == {"node"}


def test_no_two_things_that_are_followed_have_one_name() -> None:
    names = [each.name for each in FOLLOWED]
    assert len(set(names)) == len(names)
    assert {each.kind.name for each in sight.FOLLOWED} == {kind.name for kind in KINDS}
