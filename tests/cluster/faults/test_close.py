"""Machines that stand close together, and machines that a cloud takes back: what is seen of both.

The Topology is Kueue's own, and so is who is let in: a gang that requires one block gets machines
of one block, and no offer counts on more than that.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from regions.cluster import Cause, ClusterObservation, Queue, Stage
from regions.gang import Gang
from regions.kueue.node_hearing import SOURCE
from tests.cluster.faults.conftest import Scene, Set
from tests.cluster.faults.corner import Corner, Terms

pytestmark = pytest.mark.cluster

BLOCK = "cloud.google.com/gce-topology-block"
STAYING: dict[str, Any] = {"is_autoscaled": False, "idle_s": None}


async def stand(corner: Corner, *blocks: str) -> list[str]:
    """Have a machine come into each of some blocks; return their names."""
    region = corner.region
    nodes = await asyncio.to_thread(region.add_nodes, corner.name, len(blocks))
    for node, block in zip(nodes, blocks, strict=True):
        told = {"metadata": {"labels": {BLOCK: block}}}
        await asyncio.to_thread(region.api.patch, "v1", "Node", node, told)
    return nodes


def room(seen: ClusterObservation) -> list[tuple[int, int | None]]:
    """How many ranks of a whole machine fit, and how many of them close together."""
    [queue] = seen.queues
    [flavor] = queue.flavors
    found = flavor.room or ()
    return [(each.ranks, each.ranks_close) for each in found if each.accelerators == 1]


async def until_room(stage: Scene, expected: list[tuple[int, int | None]]) -> None:
    await stage.until(lambda seen: room(seen) == expected)


def close(corner: Corner, ranks: int) -> Queue:
    """An order for a gang that requires machines of one block."""
    gang = Gang(ranks=ranks, accelerator="H100", accelerators_per_node=1, topology="REQUIRED")
    return corner.order(gang=gang)


async def test_a_gang_that_requires_it_stands_in_one_block(set_stage: Set) -> None:
    stage = await set_stage(Terms(levels=(BLOCK,), level=BLOCK, pool=STAYING))
    corner = stage.corner
    near = await stand(corner, "a", "b", "b")
    await until_room(stage, [(3, 2)])
    assert (await stage.flavor()).not_close == ""
    queue = close(corner, 2)
    epoch = await stage.start(queue)
    assert {pod["spec"]["nodeName"] for pod in corner.pods()} == set(near[1:])
    await stage.close_by_force(queue, epoch)


async def test_a_gang_larger_than_each_block_waits_and_says_why(set_stage: Set) -> None:
    stage = await set_stage(Terms(levels=(BLOCK,), level=BLOCK, pool=STAYING))
    corner = stage.corner
    await stand(corner, "a", "b", "b")
    await until_room(stage, [(3, 2)])
    await stage.done(close(corner, 3))
    said = "Not enough machines that stand close together are free"
    waiting = await stage.placed("p1", lambda seen: said in seen.message)
    assert (waiting.stage, corner.pods()) == (Stage.QUEUED, [])


async def test_a_level_that_is_not_there_is_refused_with_those_that_are(set_stage: Set) -> None:
    stage = await set_stage(Terms(levels=(BLOCK,), level="example.org/row", pool=STAYING))
    corner = stage.corner
    flavor = await stage.flavor()
    assert flavor.not_close == (
        f"the profile of flavor {corner.name} names level example.org/row; its topology"
        f" {corner.name} has {BLOCK}, kubernetes.io/hostname"
    )
    assert flavor.not_close in corner.cluster.doubts
    [outcome] = await corner.cluster.apply((close(corner, 2),))
    assert (outcome.is_done, outcome.cause) == (False, Cause.REFUSED)
    assert flavor.not_close in outcome.message
    assert corner.gang() is None


async def test_a_machine_that_is_taken_back_from_others_is_a_signal(set_stage: Set) -> None:
    stage = await set_stage(Terms(pool=STAYING))
    corner = stage.corner
    [node] = await asyncio.to_thread(corner.region.add_nodes, corner.name, 1)
    await asyncio.to_thread(corner.region.preempt_node, node, 10.0)
    signals = await stage.until(lambda seen: seen.signals)
    told = [(one.kind, one.flavor, one.source) for one in signals]
    assert told == [("PREEMPTED", corner.name, SOURCE)]
