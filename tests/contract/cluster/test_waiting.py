"""What a placement waits for: quota, machines, others; each is said, and none is guessed."""

from dataclasses import replace

import pytest

from regions.capacity import FlavorSeen
from regions.cluster import Cause, PlacementSeen, Stage
from tests.contract.cluster.conftest import Set
from tests.contract.cluster.world import Shape, make_grant, make_queue, make_withdraw, script

pytestmark = pytest.mark.alone

IDLE = ("/bin/sleep", "600")


async def test_quota_is_reserved_first_in_first_out(set_stage: Set) -> None:
    stage = await set_stage(Shape(nominal=4))
    first, second, third = (
        make_queue(IDLE, placement=name, run_key=name, ranks=ranks)
        for name, ranks in (("p1", 3), ("p2", 3), ("p3", 1))
    )
    await stage.done(first, second, third)
    seen = await stage.see()
    waiting = [seen.placements[name] for name in ("p2", "p3")]
    assert [(one.stage, one.cause) for one in waiting] == [
        (Stage.QUEUED, Cause.WAITING_FOR_QUOTA)
    ] * 2
    # The one that would fit does not pass the one before it.
    assert [(one.ahead, one.ahead_gpus) for one in waiting] == [(0, 0), (1, 3)]
    assert (seen.queues[0].pending, seen.queues[0].pending_gpus) == (2, 4)

    await stage.done(make_withdraw(first))
    await stage.ended("p1")
    await stage.placed("p2", lambda one: one.stage is not Stage.QUEUED)
    await stage.placed("p3", lambda one: one.stage is not Stage.QUEUED)


async def test_a_higher_priority_goes_before_and_preempts_nobody(set_stage: Set) -> None:
    stage = await set_stage(Shape(nominal=1))
    names = (("p1", 0), ("p2", 0), ("p3", 5))
    for name, priority in names:
        queue = make_queue(IDLE, placement=name, run_key=name, ranks=1, priority=priority)
        await stage.done(queue)
    seen = await stage.see()
    assert [seen.placements[name].ahead for name, _ in names] == [None, 1, 0]
    assert seen.placements["p1"].stage is not Stage.QUEUED


async def test_what_can_never_fit_is_set_aside_and_blocks_nobody(set_stage: Set) -> None:
    stage = await set_stage(Shape(nominal=4, max_nodes=3, is_strict=False))
    over_quota = make_queue(IDLE, placement="p1", run_key="r1", ranks=5)
    over_nodes = make_queue(IDLE, placement="p2", run_key="r2", ranks=4)
    fits = make_queue(IDLE, placement="p3", run_key="r3", ranks=2)
    never = (over_quota, over_nodes) if stage.world.knows.most_nodes else (over_quota,)
    await stage.done(*never, fits)
    await stage.placed("p3", lambda one: one.stage is Stage.STANDING)
    seen = await stage.see()
    aside = [seen.placements[each.placement] for each in never]
    assert [(one.stage, one.cause, one.ahead) for one in aside] == [
        (Stage.QUEUED, Cause.QUOTA_NEVER_FITS, None)
    ] * len(never)
    refused = [one for one in seen.signals if one.kind == "QUOTA_REFUSED"]
    assert [one.source for one in refused] == [each.placement for each in never]
    await stage.world.counted(2)
    flavor = (await stage.see()).queues[0].flavors[0]
    assert (flavor.reserved, flavor.parked) == (2, 0)


async def test_a_held_queue_says_so_and_admits_nobody(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    await stage.world.hold(True)
    await stage.done(make_queue(IDLE))
    seen = await stage.see()
    assert seen.queues[0].is_stopped
    assert seen.placements["p1"].cause is Cause.QUEUE_STOPPED
    await stage.world.hold(False)
    await stage.placed("p1", lambda one: one.stage is Stage.STANDING)


async def test_what_others_hold_is_waited_for_and_seen_as_reserved(set_stage: Set) -> None:
    stage = await set_stage(Shape(nominal=4))
    await stage.world.fill("ours", 3, 2.0)
    await stage.done(make_queue(IDLE))
    seen = await stage.see()
    assert seen.placements["p1"].cause is Cause.WAITING_FOR_QUOTA
    assert (seen.queues[0].flavors[0].nominal, seen.queues[0].flavors[0].reserved) == (4, 3)
    await stage.placed("p1", lambda one: one.stage is Stage.STANDING)


async def test_borrowed_quota_is_taken_back_by_its_owner(set_stage: Set) -> None:
    stage = await set_stage(Shape(nominal=2, lent=2, borrowing_limit=2))
    own = make_queue(IDLE, placement="p1", run_key="r1")
    borrowed = make_queue(IDLE, placement="p2", run_key="r2")
    # Of two that came in the same second nothing says which of them borrows.
    await stage.done(own)
    await stage.placed("p1", lambda one: one.stage is Stage.STANDING)
    await stage.done(borrowed)
    await stage.placed("p2", lambda one: one.stage is Stage.STANDING)
    await stage.world.fill("theirs", 2, 600.0)
    ended = await stage.ended("p2")
    assert ended.cause is Cause.EVICTED
    assert (await stage.see()).placements["p1"].stage is Stage.STANDING


async def test_a_flavor_is_shown_with_its_quota_its_price_and_its_nodes(set_stage: Set) -> None:
    stage = await set_stage(Shape(nominal=4, lent=1, borrowing_limit=2, startup_s=30.0))
    await stage.done(make_queue(IDLE))
    await stage.world.counted(2)
    (queue,) = (await stage.see()).queues
    (flavor,) = queue.flavors
    # Where these are not told, they follow from the other figures; profiles and closeness are
    # pods' alone.
    assert flavor.free in (None, 3)
    assert flavor.most in (None, 5)
    assert flavor.room in (None, ())
    told = replace(flavor, free=None, most=None, room=None, profile=None, not_close="")
    assert told == FlavorSeen(
        flavor="h100",
        accelerator="H100",
        accelerators_per_node=1,
        capacity_type="SPOT",
        zones=flavor.zones,
        price_per_gpu_hour=flavor.price_per_gpu_hour,
        nominal=4,
        reserved=2,
        used=2,
        parked=0,
        borrowable=1,
        nodes_free=0,
        nodes_coming=2 if stage.world.knows.ordered_nodes else 0,
        max_nodes=8,
        startup_s=30.0,
        preemption_notice_s=0.0,
    )
    assert flavor.zones
    assert flavor.price_per_gpu_hour is not None
    assert flavor.price_per_gpu_hour > 0


async def test_quota_is_not_machines(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    await stage.world.stockout()
    await stage.done(make_queue(IDLE))
    found = await stage.placed("p1", lambda one: one.cause is Cause.STOCKOUT)
    assert (found.stage, found.nodes_here, found.nodes_wanted) == (Stage.PROVISIONING, 0, 2)
    await stage.world.counted(2)
    seen = await stage.see()
    assert seen.queues[0].flavors[0].reserved == 2
    stockout = [one for one in seen.signals if one.kind == "STOCKOUT"]
    assert [(one.source, one.gpus) for one in stockout] == [("p1", 2)]
    await stage.world.restore()
    await stage.placed("p1", lambda one: one.stage is Stage.STANDING)


def is_told_honestly(seen: PlacementSeen) -> bool:
    """Whether how its nodes came and went, if that is told at all, leads to what is here now."""
    ages = [age_s for age_s, _ in seen.history]
    is_now_so = not seen.history or seen.history[-1][1] == seen.nodes_here
    return is_now_so and ages == sorted(ages, reverse=True) and all(age_s >= 0 for age_s in ages)


async def test_a_gang_that_comes_in_part_stands_in_part_and_is_not_whole(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    await stage.world.partial(2)
    queue = make_queue(script(stage.world, "exit 0"), ranks=3)
    await stage.done(queue, make_grant(queue))
    found = await stage.placed(
        "p1", lambda one: one.cause is Cause.PARTIAL_ARRIVAL and len(one.standing) == 2
    )
    assert (found.stage, found.nodes_here, found.nodes_wanted) == (Stage.PROVISIONING, 2, 3)
    assert not found.is_whole_at_gate
    assert is_told_honestly(found)
    assert stage.lines() == []
    assert [one.kind for one in (await stage.see()).signals if one.kind == "PARTIAL"] == ["PARTIAL"]
    await stage.world.restore()
    ended = await stage.ended("p1")
    assert (ended.cause, ended.nodes_here) == (Cause.NONE, 0)
    assert is_told_honestly(ended)
    assert len(stage.lines()) == 3


async def test_a_part_of_a_gang_gives_its_nodes_back_when_nobody_comes(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    await stage.world.partial(1)
    await stage.done(make_queue(IDLE, gate_timeout_s=0.5))
    ended = await stage.ended("p1")
    assert (ended.cause, ended.nodes_here) == (Cause.MEMBER_EXITED, 0)
    await stage.world.counted(0)
    assert (await stage.see()).queues[0].flavors[0].reserved == 0


async def test_a_booking_waits_with_its_time_and_then_comes_whole(set_stage: Set) -> None:
    stage = await set_stage(Shape(capacity_type="FLEX", flex_wait_s=5.0))
    await stage.done(make_queue(IDLE))
    found = await stage.placed("p1", lambda one: one.eta_s is not None)
    assert (found.stage, found.cause) == (Stage.QUEUED, Cause.WAITING_FOR_FLEX)
    assert found.eta_s is not None
    assert 0 < found.eta_s <= 5.0
    await stage.world.counted(2)
    flavor = (await stage.see()).queues[0].flavors[0]
    assert (flavor.reserved, flavor.used, flavor.parked) == (2, 0, 2)
    standing = await stage.placed("p1", lambda one: one.stage is Stage.STANDING)
    assert standing.nodes_here == 2
