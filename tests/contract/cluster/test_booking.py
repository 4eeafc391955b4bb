"""What becomes of a request for flex capacity that does not simply come."""

from regions.cluster import Cause, OwnerState, Stage
from tests.contract.cluster.conftest import Set
from tests.contract.cluster.test_waiting import IDLE
from tests.contract.cluster.world import Shape, make_queue, script

FLEX = Shape(capacity_type="FLEX", flex_wait_s=5.0)


async def test_a_booking_that_nobody_answers_waits_without_a_time(set_stage: Set) -> None:
    stage = await set_stage(FLEX)
    await stage.world.book_nothing()
    await stage.done(make_queue(IDLE))
    found = await stage.placed("p1", lambda one: one.eta_s is None and one.stage is Stage.QUEUED)
    assert found.cause in (Cause.WAITING_FOR_FLEX, Cause.FLEX_SILENT)
    assert found.nodes_here == 0
    await stage.world.restore()
    await stage.whole("p1")


async def test_a_booking_that_fails_ends_its_gang_and_holds_nothing(set_stage: Set) -> None:
    stage = await set_stage(Shape(capacity_type="FLEX", flex_wait_s=60.0))
    await stage.done(make_queue(IDLE))
    await stage.placed("p1", lambda one: one.cause is Cause.WAITING_FOR_FLEX)
    await stage.world.fail_booking("p1")
    ended = await stage.ended("p1")
    assert (ended.cause, ended.nodes_here) == (Cause.FLEX_FAILED, 0)
    await stage.world.counted(0)
    assert (await stage.see()).queues[0].flavors[0].reserved == 0


async def test_capacity_that_is_revoked_ends_a_gang_that_runs_by_that_name(set_stage: Set) -> None:
    stage = await set_stage(FLEX)
    order = make_queue(script(stage.world, "sleep 300"))
    key = await stage.start(order)
    await stage.world.revoke_booking("p1")
    ended = await stage.ended("p1")
    assert (ended.cause, ended.nodes_here) == (Cause.CAPACITY_REVOKED, 0)
    seen = (await stage.see()).epochs[key]
    assert seen.owner is OwnerState.STARTED
    assert {end.rank for end in seen.ends} | seen.gone == {0, 1}
