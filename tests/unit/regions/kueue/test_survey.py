"""What concerns the whole of a cluster is worked out as often as its cost allows, and no less."""

from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from regions.kueue.objects.kinds import decode
from regions.kueue.priced import Priced
from regions.kueue.queue_view import QueueSettings
from regions.kueue.sight import Sight
from regions.kueue.survey import SCENE_S, SHARE, Survey
from tests.unit.regions.kueue import kube
from tests.unit.regions.kueue.clocks import StepClock
from tests.unit.regions.kueue.ports import make_settings
from tests.unit.regions.kueue.servers import Server, serving
from tests.unit.regions.kueue.test_queue_view import SPOT, local_queue
from tests.unit.regions.kueue.test_sight import OURS, Cluster, all_heard, until, watched

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as found:
        yield found


class Costly:
    """A survey whose figures cost some seconds each time."""

    def __init__(self, seen: Sight, clock: StepClock, cost_s: float) -> None:
        self.times = 0
        self._clock = clock
        self._cost_s = cost_s
        settings = make_settings(QueueSettings(namespace=OURS, price_of=self._price))
        self._seen = seen
        self.survey = Survey(seen, settings, clock, lambda: 1_000_000.0)

    def _price(self, *_: object) -> Priced:
        self.times += 1
        self._clock.now_s += self._cost_s
        return Priced(per_gpu_hour=None)

    def come(self, name: str) -> None:
        """Have a workload come, that waits."""
        informer = self._seen.informer("workloads")
        assert informer is not None
        informer.cache.put(f"{OURS}/{name}", decode(informer.kind, "v1beta2", kube.workload(name)))

    def pending(self) -> int | None:
        self.survey.scene()
        (queue,) = self.survey.queues
        return queue.pending


def offering() -> Cluster:
    """A cluster with one queue of one flavor, and a machine of it."""
    cluster = Cluster()
    cluster.objects = {
        f"{KUEUE}/clusterqueues": [kube.cluster_queue("cq")],
        f"{KUEUE}/localqueues": [local_queue()],
        f"{KUEUE}/resourceflavors": [kube.flavor("spot", labels=SPOT)],
        "/api/v1/nodes": [kube.node("n1", labels=SPOT)],
    }
    return cluster


@pytest.mark.parametrize(("cost_s", "rest_s"), [(0.0, 0.0), (0.3, SHARE * 0.3), (60.0, SCENE_S)])
async def test_figures_of_the_whole_cluster_cost_a_share_of_the_time_at_most(
    server: Server, cost_s: float, rest_s: float
) -> None:
    async with watched(server, offering()) as seen:
        await until(lambda: all_heard(seen))
        told = Costly(seen, server.clock, cost_s)
        assert (told.pending(), told.times) == (0, 1)
        told.come("a")
        if rest_s:
            server.clock.now_s += rest_s - 0.1
            assert (told.pending(), told.times) == (0, 1)
            server.clock.now_s += 0.2
        assert (told.pending(), told.times) == (1, 2)


async def test_events_of_machines_are_heard_and_those_that_say_nothing_make_no_scene(
    server: Server,
) -> None:
    cluster = offering()
    told_of = [of_machine("NodeReady"), of_machine("Shutdown")]
    cluster.objects["/api/v1/namespaces/default/events"] = told_of
    async with watched(server, cluster) as seen:
        await until(lambda: all_heard(seen))
        wall_s = kube_time("2026-11-01T00:00:30Z")
        survey = Survey(
            seen, make_settings(QueueSettings(namespace=OURS)), server.clock, lambda: wall_s
        )
        server.clock.now_s += 60.0
        first = survey.scene()
        told = survey.told()
        assert [(one.kind, one.age_s, one.spot.flavor) for one in told.news] == [
            ("PREEMPTED", 30.0, "spot")
        ]
        assert survey.told().news == ()
        informer = seen.informer("node events")
        assert informer is not None
        assert [one.reason for one in informer.cache.objects.values()] == ["Shutdown"]
        assert survey.scene() is first


def kube_time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def of_machine(reason: str) -> kube.Json:
    """An event of a machine, as the kubelet writes it."""
    return {
        "metadata": kube.meta(f"n1.{reason.lower()}", namespace="default"),
        "involvedObject": {"kind": "Node", "name": "n1", "uid": "n1"},
        "reason": reason,
        "message": "it goes down",
        "type": "Normal",
        "lastTimestamp": "2026-11-01T00:00:00Z",
        "source": {"component": "kubelet"},
    }
