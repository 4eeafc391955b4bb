"""What is counted of queues and gangs is what the real Kueue admits."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any

import pytest

from regions.kueue import drift
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
