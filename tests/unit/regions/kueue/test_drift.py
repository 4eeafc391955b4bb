"""What Workloads hold, against what their queue says that they hold."""

from dataclasses import replace

from regions.kueue import drift
from regions.kueue.drift import Drift
from regions.kueue.objects.cluster_queue import ClusterQueue
from regions.kueue.objects.kinds import CLUSTER_QUEUES, WORKLOADS, decode
from regions.kueue.objects.workload import Workload
from tests.unit.regions.kueue import kube

GPU = "nvidia.com/gpu"
SPOT = ("spot", GPU)


def workload(name: str = "wl", **more: object) -> Workload:
    found = decode(WORKLOADS, "v1beta2", kube.workload(name, **({"admitted_to": "cq"} | more)))  # type: ignore[arg-type]
    assert isinstance(found, Workload), found
    return found


def queue(reserved: int | None) -> ClusterQueue:
    raw = kube.cluster_queue("cq", reserved=None if reserved is None else {"spot": reserved})
    found = decode(CLUSTER_QUEUES, "v1beta2", raw)
    assert isinstance(found, ClusterQueue)
    return found


def test_only_those_with_quota_hold_any() -> None:
    evicted = (kube.condition("QuotaReserved", status="False"),)
    over = (kube.condition("QuotaReserved"), kube.condition("Finished"))
    workloads = [
        workload("a"),
        workload("b", held=4),
        workload("c", admitted_to=""),
        workload("d", conditions=evicted),
        workload("e", conditions=over),
        workload("f", admitted_to="other", held=1),
        replace(workload("g"), is_active=False),
    ]
    assert drift.held(workloads) == {"cq": {SPOT: 20}, "other": {SPOT: 1}}


def test_pods_that_are_done_hold_nothing_any_more() -> None:
    half = workload(reclaimablePods=[{"name": "main", "count": 1}])
    more_than_all = workload(reclaimablePods=[{"name": "main", "count": 7}])
    assert drift.held([half]) == {"cq": {SPOT: 8}}
    assert drift.held([more_than_all]) == {"cq": {SPOT: 0}}


def test_a_gang_that_was_let_in_with_fewer_pods_holds_what_it_got() -> None:
    raw = kube.workload(admitted_to="cq", held=8)
    raw["status"]["admission"]["podSetAssignments"][0]["count"] = 1
    partial = decode(WORKLOADS, "v1beta2", raw)
    assert isinstance(partial, Workload)
    assert drift.held([partial]) == {"cq": {SPOT: 8}}


def test_a_difference_is_told_only_when_it_lasts_and_stays_the_same() -> None:
    def found(reserved: int | None) -> frozenset[Drift]:
        return drift.differences([queue(reserved)], {"cq": {SPOT: 16}})

    lost = Drift(queue="cq", flavor="spot", resource=GPU, told=24, counted=16)
    assert found(16) == frozenset() == found(None)
    assert found(24) == {lost}
    since = drift.lasting({}, found(20), 0.0)
    since = drift.lasting(since, found(24), 30.0)
    assert drift.settled(since, 80.0) == ()
    since = drift.lasting(since, found(24), 90.0)
    assert drift.settled(since, 90.0) == (lost,)
    assert lost.sentence() == (
        "ClusterQueue cq counts 24 nvidia.com/gpu of spot as held, its Workloads hold 16"
    )
    assert drift.lasting(since, found(16), 91.0) == {}
