"""What is counted of queues and gangs is what the real Kueue admits."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any

import pytest

from regions.kueue import ahead, drift
from regions.kueue.objects import kinds
from regions.kueue.quota import Standing, Tree
from tests.cluster.conftest import Place
from tests.cluster.rig import fleet
from tests.cluster.rig.waiting import wait_until
from tests.cluster.views import bare, viewing

pytestmark = pytest.mark.cluster

GPU = "nvidia.com/gpu"


TREES = (
    # (queue, cohort, nominal, borrowing limit, lending limit), and (cohort, parent)
    (
        [("a", "left", 8, None, None), ("b", "left", 8, 2, None), ("c", "right", 8, None, 3)],
        [("left", "top"), ("right", "top")],
    ),
    (
        [("a", "one", 4, 6, 0), ("b", "one", 16, None, 5), ("c", "", 8, None, None)],
        [("one", "")],
    ),
)


@pytest.mark.parametrize("tree", TREES, ids=["a tree", "a flat cohort"])
async def test_what_is_counted_as_free_is_what_kueue_admits(place: Place, tree: Any) -> None:
    queues, cohorts = tree
    chance = random.Random(5)
    own = f"{place.namespace}-"
    await asyncio.to_thread(plant, place, queues, cohorts)
    async with viewing(place) as view:
        view.follow(kinds.CLUSTER_QUEUES, kinds.COHORTS, kinds.WORKLOADS, kinds.LOCAL_QUEUES)

        def standing(queue: str) -> Standing | None:
            return Tree(
                view.objects(kinds.CLUSTER_QUEUES).values(), view.objects(kinds.COHORTS).values()
            ).standing(f"{own}{queue}", "on-demand", GPU)

        def is_settled(count: int) -> bool:
            workloads = list(view.objects(kinds.WORKLOADS).values())
            ours = [each for each in workloads if each.meta.namespace == place.namespace]
            clusters = view.objects(kinds.CLUSTER_QUEUES).values()
            told = [each for each in clusters if each.reservation is not None]
            trunk = [
                each
                for each in view.objects(kinds.COHORTS).values()
                if each.meta.name.startswith(own)
            ]
            return (
                len(trunk) == len(cohorts)
                and len([each for each in ours if each.has_quota]) == count
                and len([each for each in told if each.meta.name.startswith(own)]) == len(queues)
                and not drift.differences(told, drift.held(workloads))
            )

        for step in range(8):
            await view.until(partial(is_settled, step), "Kueue's own count")
            names = [name for name, *_ in queues]
            free = {name: found.free for name in names if (found := standing(name)) is not None}
            able = [name for name in names if free[name]]
            if not able:
                break
            queue = chance.choice(able)
            size = free[queue] or 0
            await asyncio.to_thread(refused, place, f"much-{step}", queue, size + 1)
            taken = chance.randint(1, size)
            await asyncio.to_thread(
                place.region.api.create, bare(f"fits-{step}", place, queue, taken)
            )
        else:
            await view.until(lambda: is_settled(8), "the last one")
        assert step > 1
    await asyncio.to_thread(uproot, place, queues, cohorts)


async def test_what_a_process_that_is_over_gives_back_is_not_held(place: Place) -> None:
    """Of a Job of others: its quota shrinks with its processes, what it was given is told on."""
    place.region.add_nodes(fleet.pool("RESERVED", place.zone).name, 1)
    ends = ["/bin/sh", "-c", '[ "$JOB_COMPLETION_INDEX" = 0 ] && sleep 3 || sleep 600']
    body = fleet.gang("ends", place.namespace, place.queue, ends, gpus=4)
    job = body["spec"]["replicatedJobs"][0]["template"]["spec"]
    meta = {key: body["metadata"][key] for key in ("name", "namespace", "labels")}
    async with viewing(place) as view:
        view.follow(kinds.CLUSTER_QUEUES, kinds.WORKLOADS)
        await asyncio.to_thread(
            place.region.api.create,
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job},
        )

        def told() -> int:
            queue = view.objects(kinds.CLUSTER_QUEUES).get(place.namespace)
            return sum((queue.reservation or {}).values()) if queue is not None else 0

        def held() -> int:
            found = drift.held(view.objects(kinds.WORKLOADS).values())
            return sum(found.get(place.namespace, {}).values())

        await view.until(lambda: told() == held() == 8, "what both processes hold")
        await view.until(lambda: told() == held() == 4, "what the one that is left holds")
        [workload] = view.objects(kinds.WORKLOADS).values()
        assert [sum(each.held.values()) for each in workload.assignments] == [8]
        assert set(workload.reclaimable.values()) == {1}
    await asyncio.to_thread(place.region.api.delete, "batch/v1", "Job", "ends", place.namespace)


async def test_a_line_is_in_the_order_in_which_kueue_has_it(place: Place) -> None:
    """What Kueue's visibility API tells; that has no news of changes, so ours is counted."""
    priorities = (0, 100, 0, -5, 100, 0, 7)
    other = fleet.local_queue("other", place.namespace, place.namespace)
    await asyncio.to_thread(place.region.api.apply, other)
    for at, priority in enumerate(priorities):
        body = bare(f"waits-{at}", place, ("other", place.queue)[at % 2], 65)
        body["spec"]["priority"] = priority
        await asyncio.to_thread(place.region.api.create, body)
        await asyncio.sleep(0.4)  # some within one second, some not: times are told in seconds
    path = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues"
    path += f"/{place.namespace}/pendingworkloads"
    async with viewing(place) as view:
        view.follow(kinds.WORKLOADS, kinds.LOCAL_QUEUES)

        def ours() -> list[str]:
            told = view.objects(kinds.LOCAL_QUEUES).items()
            queues = {key: each.cluster_queue for key, each in told}
            lines = ahead.lines(view.objects(kinds.WORKLOADS).values(), queues)
            return [each.key for each in lines.get(place.namespace, ())]

        def theirs() -> list[str]:
            found = place.region.api.get(path)["items"]
            return [f"{place.namespace}/{each['metadata']['name']}" for each in found]

        await view.until(lambda: len(ours()) == len(theirs()) == len(priorities), "the lines")
        assert ours() == theirs()
        standing = [priorities[int(key.rpartition("-")[2])] for key in ours()]
        assert standing == sorted(priorities, reverse=True)


def plant(place: Place, queues: Any, cohorts: Any) -> None:
    own, api = f"{place.namespace}-", place.region.api
    for name, parent in cohorts:
        spec = {"parentName": f"{own}{parent}"} if parent else {}
        api.apply(fleet.named(fleet.KUEUE, "Cohort", f"{own}{name}", spec))
    for name, cohort, nominal, borrow, lend in queues:
        share = fleet.Share(
            capacity_type="ON_DEMAND", nominal=nominal, borrowing=borrow, lending=lend
        )
        never = {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"}
        made = fleet.cluster_queue(
            f"{own}{name}", [share], cohort=f"{own}{cohort}" if cohort else "", preemption=never
        )
        api.apply(made, fleet.local_queue(name, place.namespace, f"{own}{name}"))


def refused(place: Place, name: str, queue: str, gpus: int) -> None:
    """See that Kueue has looked at a workload and has not let it in; then take it away."""
    api = place.region.api
    api.create(bare(name, place, queue, gpus))

    def reason() -> str:
        found = api.find(fleet.KUEUE, "Workload", name, place.namespace) or {}
        held = found.get("status", {}).get("conditions", [])
        assert not any(c["type"] == "QuotaReserved" and c["status"] == "True" for c in held), name
        return next((c["message"] for c in held if c["type"] == "QuotaReserved"), "")

    wait_until(lambda: "insufficient" in reason(), 30, f"Kueue's word on {name}")
    api.delete(fleet.KUEUE, "Workload", name, place.namespace)
    wait_until(
        lambda: api.find(fleet.KUEUE, "Workload", name, place.namespace) is None, 30, "its end"
    )


def uproot(place: Place, queues: Any, cohorts: Any) -> None:
    own, api = f"{place.namespace}-", place.region.api
    for found in api.all(fleet.KUEUE, "Workload", place.namespace):
        api.delete(fleet.KUEUE, "Workload", found["metadata"]["name"], place.namespace)
    for name, *_ in queues:
        api.delete(fleet.KUEUE, "LocalQueue", name, place.namespace)
        api.delete(fleet.KUEUE, "ClusterQueue", f"{own}{name}")
    for name, _ in cohorts:
        api.delete(fleet.KUEUE, "Cohort", f"{own}{name}")
