"""The port over a cluster that answers, answers in part, and does not answer."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from aiohttp import web

from regions.cluster import ClusterUnreachableError, Fence
from regions.kueue.cluster import PING_S, KueueCluster
from regions.kueue.flavors import FlavorSettings
from regions.kueue.priced import Priced
from regions.kueue.scout import Asked, Bounds, News, Report, Spot
from regions.kueue.sight import FOLLOWED
from regions.kueue.survey import MUST_BE_SEEN
from tests.unit.regions.kueue import kube
from tests.unit.regions.kueue.making import make_queue, spec_of
from tests.unit.regions.kueue.ports import QUEUES, ported, seen
from tests.unit.regions.kueue.servers import Server, serving
from tests.unit.regions.kueue.shelf import make_grant
from tests.unit.regions.kueue.test_queue_view import local_queue
from tests.unit.regions.kueue.test_sight import OURS, Cluster, all_heard, until


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as found:
        yield found


async def test_a_cluster_that_is_seen_is_whole(server: Server, tmp_path: Path) -> None:
    async with ported(server, Cluster(), tmp_path) as port:
        await seen(port)
        await until(lambda: all_heard(port._sight))
        first = await port.observe()
        assert (first.cluster, first.region, first.keeps_secrets) == ("west", "eu-west4", True)
        assert (first.is_whole, first.is_store_readable, first.blind) == (True, True, ())
        assert (await port.observe()).changed == frozenset()


async def test_a_look_asks_the_cluster_nothing_but_whether_it_is_there(
    server: Server, tmp_path: Path
) -> None:
    async with ported(server, Cluster(), tmp_path) as port:
        await seen(port)
        await until(lambda: sum("watch=1" in path for _, path, _ in server.asked) == len(FOLLOWED))
        before = len(server.asked)
        for _ in range(10):
            await port.observe()
        assert len(server.asked) == before
        server.clock.now_s += PING_S
        await port.observe()
        assert [path for _, path, _ in server.asked[before:]] == ["/version"]


async def test_without_a_right_to_see_our_pods_nothing_is_taken_for_absent(
    server: Server, tmp_path: Path
) -> None:
    cluster = Cluster()
    cluster.refused = {"/api/v1/pods", f"/api/v1/namespaces/{OURS}/pods"}
    async with ported(server, cluster, tmp_path) as port:
        found = await seen(port)
        assert not found.is_whole
        assert any("pods" in each for each in found.blind)


async def test_a_right_that_only_narrows_is_said_and_the_picture_is_whole(
    server: Server, tmp_path: Path
) -> None:
    cluster = Cluster()
    cluster.refused = {"/api/v1/nodes"}
    async with ported(server, cluster, tmp_path) as port:
        found = await seen(port)
        assert found.is_whole
        assert any("nodes" in each for each in found.blind)


@pytest.mark.parametrize("is_narrow", [False, True])
async def test_what_cannot_be_offered_is_said_however_much_is_seen_of_others(
    server: Server, tmp_path: Path, is_narrow: bool
) -> None:
    cluster = Cluster()
    kueue = "/apis/kueue.x-k8s.io/v1beta2"
    cluster.objects = {
        f"{kueue}/clusterqueues": [kube.cluster_queue("cq")],
        f"{kueue}/localqueues": [
            {"metadata": kube.meta("lq", namespace=OURS), "spec": {"clusterQueue": "cq"}}
        ],
    }
    cluster.refused = {f"{kueue}/workloads"} if is_narrow else set()
    async with ported(server, cluster, tmp_path) as port:
        await seen(port)

        def is_said() -> bool:
            port._survey.scene()
            return bool(port.doubts)

        await until(is_said)
        assert port.doubts == ("ClusterQueue cq names flavor spot: it is not seen",)


async def test_what_was_gathered_stays_as_it_was_while_its_look_goes_on(
    server: Server, tmp_path: Path
) -> None:
    cluster = Cluster()
    cluster.objects["/api/v1/pods"] = [kube.pod("ours")]
    async with ported(server, cluster, tmp_path) as port:
        await seen(port)
        pods = port._sight.informer("pods")
        assert pods is not None
        gathered = port._survey.scene().snapshot
        pods.cache.drop("team/ours")
        assert gathered.pods.objects.keys() == {"team/ours"}
        assert not port._survey.scene().snapshot.pods.objects


async def test_a_silent_cluster_is_an_error_that_tells_its_store(
    server: Server, tmp_path: Path
) -> None:
    cluster = Cluster()
    async with ported(server, cluster, tmp_path) as port:
        await seen(port)
        grant = make_grant()
        outcomes = await port.apply((grant,))
        assert outcomes[0].is_done
        cluster.is_up = False
        with pytest.raises(ClusterUnreachableError):
            await port.ping()
        with pytest.raises(ClusterUnreachableError) as caught:
            await port.observe()
        told = caught.value.observation
        assert told is not None
        assert (told.is_whole, told.is_store_readable, told.placements) == (False, True, {})
        assert grant.epoch in told.epochs
        fenced = await port.apply((Fence(epoch=grant.epoch, reason="silent"),))
        assert fenced[0].is_done
        cluster.is_up = True
        assert (await seen(port)).epochs[grant.epoch].is_fence_written


CLASSES = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"


def heard(port: KueueCluster, name: str) -> bool:
    informer = port._sight.informer(name)
    return informer is not None and informer.health.heard_s is not None


async def test_the_first_look_waits_for_what_an_order_needs(server: Server, tmp_path: Path) -> None:
    cluster, comes = Cluster(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == CLASSES:
            await comes.wait()
        return await cluster.answer(request)

    async with ported(server, cluster, tmp_path) as port:
        server.answer = answer
        looking = asyncio.create_task(seen(port))
        await until(lambda: all(heard(port, name) for name in MUST_BE_SEEN))
        await asyncio.sleep(0.2)
        assert not looking.done()
        comes.set()
        await looking
        assert port._survey.priority_classes.is_known


async def test_what_only_orders_need_keeps_no_cluster_from_being_seen(
    server: Server, tmp_path: Path
) -> None:
    cluster = Cluster()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == CLASSES:
            return web.json_response({"message": "etcdserver: no leader"}, status=500)
        return await cluster.answer(request)

    async with ported(server, cluster, tmp_path) as port:
        server.answer = answer
        assert (await seen(port)).placements == {}
        assert not port._survey.priority_classes.is_known


async def test_a_cluster_that_was_never_seen_shows_no_empty_picture(
    server: Server, tmp_path: Path
) -> None:
    cluster = Cluster()
    cluster.is_up = False
    async with ported(server, cluster, tmp_path) as port:
        with pytest.raises(ClusterUnreachableError):
            await port.observe()


async def test_news_are_what_changes_for_our_gangs(server: Server, tmp_path: Path) -> None:
    async with ported(server, Cluster(), tmp_path) as port:
        assert (await seen(port)).is_whole
        assert not await port.wait_for_news(0.01)
        informer = port._sight.informer("job sets")
        assert informer is not None
        waiting = asyncio.create_task(port.wait_for_news(30.0))
        await until(lambda: not waiting.done())
        informer.cache.generation += 1
        port._sight.news.set()
        assert await waiting


class Outside:
    """Tells one thing, once."""

    def __init__(self) -> None:
        self.left = [News(spot=SPOT, kind="STOCKOUT", age_s=1.0, source="the cloud", detail="none")]

    def report(self, asked: tuple[Asked, ...]) -> Report:
        news, self.left = tuple(self.left), []
        return Report(news=news, bounds={SPOT: Bounds(window_s=105.0)}, notes=("a zone is silent",))


SPOT = Spot(queue="lq", flavor="spot")


async def test_what_the_cloud_tells_is_shown_with_the_cluster(
    server: Server, tmp_path: Path
) -> None:
    async with ported(server, Cluster(), tmp_path, Outside()) as port:
        for observation in (await seen(port), await port.observe()):
            (signal,) = observation.signals
            assert (signal.kind, signal.source, signal.serial) == ("STOCKOUT", "the cloud", 1)
            assert "a zone is silent" in observation.notes
            assert observation.is_whole


async def test_where_a_price_is_from_is_shown_with_the_cluster(
    server: Server, tmp_path: Path
) -> None:
    cluster, kueue = Cluster(), "/apis/kueue.x-k8s.io/v1beta2"
    cluster.objects = {
        f"{kueue}/clusterqueues": [kube.cluster_queue("cq")],
        f"{kueue}/localqueues": [local_queue()],
        f"{kueue}/resourceflavors": [kube.flavor()],
    }
    spot = FlavorSettings(capacity_type="SPOT", accelerator="H100", accelerators_per_node=8)
    listed = Priced(per_gpu_hour=Decimal(2), words="a machine", source="a list", age_s=60.0)
    queues = replace(QUEUES, flavors={"spot": spot}, price_of=lambda *_: listed)
    async with ported(server, cluster, tmp_path, queues=queues) as port:
        (known,) = (await seen(port)).known
        assert known == listed.known("lq", "spot")


async def test_a_gang_gets_the_time_that_its_pools_machines_leave(
    server: Server, tmp_path: Path
) -> None:
    cluster, kueue = Cluster(), "/apis/kueue.x-k8s.io/v1beta2"
    cluster.objects = {
        f"{kueue}/localqueues": [local_queue()],
        f"{kueue}/resourceflavors": [kube.flavor()],
    }
    async with ported(server, cluster, tmp_path, Outside()) as port:
        await seen(port)
        shown = port.manifest(make_queue(queue=SPOT.queue, flavor=SPOT.flavor))
        assert shown.refusal == ""
        assert spec_of(dict(shown.objects[1]))["terminationGracePeriodSeconds"] == 105
