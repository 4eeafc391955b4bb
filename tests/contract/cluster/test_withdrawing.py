"""Removing a placement: the one that is meant, on evidence, and for good."""

import pytest

from regions.cluster import Cause, Fence, OwnerState, Revoke, Stage
from tests.contract.cluster.conftest import Set
from tests.contract.cluster.world import Shape, make_grant, make_queue, make_withdraw, script

pytestmark = pytest.mark.alone

IDLE = ("/bin/sleep", "600")


async def test_a_waiting_placement_is_gone_at_once(set_stage: Set) -> None:
    stage = await set_stage(Shape(nominal=2))
    await stage.world.fill("ours", 2, 600.0)
    queue = make_queue(IDLE)
    await stage.done(queue)
    uid = (await stage.see()).placements["p1"].uid
    await stage.done(make_withdraw(queue, uid=uid))
    found = await stage.ended("p1")
    assert (found.cause, found.members) == (Cause.WITHDRAWN, ())


async def test_a_gang_at_its_gate_leaves_and_says_so(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, "exit 0"))
    await stage.done(queue)
    whole = await stage.whole("p1")
    await stage.done(make_withdraw(queue, uid=whole.uid))
    ended = await stage.ended("p1")
    assert (ended.cause, [one.is_alive for one in ended.members]) == (
        Cause.WITHDRAWN,
        [False, False],
    )
    assert stage.lines() == []


async def test_a_granted_gang_is_withdrawn_only_after_its_start_was_revoked(
    set_stage: Set,
) -> None:
    stage = await set_stage(Shape())
    await stage.world.partial(1)
    queue = make_queue(script(stage.world, "exit 0"))
    grant = make_grant(queue)
    await stage.done(queue, grant)
    (refused,) = await stage.apply(make_withdraw(queue, epoch=grant.epoch))
    assert (refused.is_done, refused.cause) == (False, Cause.REFUSED)
    assert refused.retry_after_s is not None
    await stage.done(Revoke(epoch=grant.epoch))
    epoch = await stage.epoch(grant.epoch, lambda seen: seen.owner is OwnerState.REVOKED)
    assert epoch.nonces == ()
    await stage.done(make_withdraw(queue, epoch=grant.epoch))
    await stage.ended("p1")
    assert stage.lines() == []


async def test_a_started_gang_is_left_alone_until_its_epoch_is_closed(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, "exec sleep 600"))
    epoch = await stage.start(queue)
    for uid in ("", (await stage.see()).placements["p1"].uid):
        (refused,) = await stage.apply(make_withdraw(queue, uid=uid, epoch=epoch))
        assert (refused.is_done, refused.cause) == (False, Cause.REFUSED)
    await stage.done(Revoke(epoch=epoch))
    seen = await stage.see()
    assert seen.epochs[epoch].owner is OwnerState.STARTED
    assert seen.placements["p1"].stage is Stage.STANDING

    await stage.done(make_withdraw(queue, epoch=epoch, is_closed=True))
    ended = await stage.ended("p1")
    assert (ended.cause, [one.is_alive for one in ended.members]) == (
        Cause.WITHDRAWN,
        [False, False],
    )


async def test_a_fenced_gang_stops_and_says_so(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, "exec sleep 600"))
    epoch = await stage.start(queue)
    await stage.done(Fence(epoch=epoch, reason="replaced"), Fence(epoch=epoch, reason="again"))
    closed = await stage.epoch(epoch, lambda seen: len(seen.ends) == 2)
    assert closed.is_fence_written
    assert {(end.kind, end.cause) for end in closed.ends} == {("STOPPED", "fenced")}
    await stage.ended("p1")


async def test_another_object_of_the_same_name_is_left_alone(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(IDLE)
    await stage.done(queue)
    await stage.whole("p1")
    (outcome,) = await stage.apply(make_withdraw(queue, uid="somebody-else"))
    assert (outcome.is_done, outcome.retry_after_s) == (False, None)
    assert (await stage.see()).placements["p1"].stage is Stage.STANDING


async def test_a_withdrawn_name_stays_taken_for_a_queue_that_comes_late(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, "exit 0"))
    await stage.done(make_withdraw(queue), make_withdraw(queue))
    (late,) = await stage.apply(queue)
    assert (late.is_done, late.cause, late.retry_after_s) == (False, Cause.WITHDRAWN, None)
    found = (await stage.see()).placements["p1"]
    assert (found.stage, found.cause, found.members) == (Stage.ENDED, Cause.WITHDRAWN, ())
    assert found.run_key == "run1"


async def test_a_stubborn_gang_is_killed_when_its_grace_is_over(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(
        script(stage.world, "trap '' TERM; while true; do sleep 1; done"), stop_grace_s=0.3
    )
    epoch = await stage.start(queue)
    await stage.done(make_withdraw(queue, epoch=epoch, is_closed=True))
    found = await stage.ended("p1")
    assert {member.is_alive for member in found.members} == {False}
