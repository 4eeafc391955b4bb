"""What goes wrong with clusters, and what may be concluded from it."""

import asyncio

import pytest

from regions.cluster import (
    Cause,
    ClusterObservation,
    ClusterUnreachableError,
    Drain,
    Fence,
    OwnerState,
    Stage,
)
from tests.contract.cluster.conftest import Set
from tests.contract.cluster.world import (
    SAVE_WHEN_ASKED,
    Shape,
    Stagehand,
    make_grant,
    make_queue,
    make_withdraw,
    ranks_of,
    script,
)

pytestmark = pytest.mark.alone

FOREVER = "exec sleep 600"


async def silence_of(stage: Stagehand) -> ClusterUnreachableError:
    with pytest.raises(ClusterUnreachableError) as caught:
        await stage.see()
    return caught.value


async def test_a_preemption_with_a_notice_is_heard_by_the_training(set_stage: Set) -> None:
    stage = await set_stage(Shape(preemption_notice_s=8.0))
    epoch = await stage.start(make_queue(script(stage.world, SAVE_WHEN_ASKED)))
    await stage.world.preempt("p1", 8.0)
    found = await stage.placed("p1", lambda one: one.cause is Cause.NODE_PREEMPTED)
    assert found.uid
    seen = await stage.epoch(epoch, lambda one: len(one.ends) == 2)
    assert [(report.is_drain_acked, report.drain_step) for report in seen.reports] == [
        (True, 7)
    ] * 2
    ended = await stage.ended("p1")
    assert ended.cause is Cause.NODE_PREEMPTED


async def test_a_preemption_without_a_word_is_seen_as_processes_gone(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    epoch = await stage.start(make_queue(script(stage.world, FOREVER)))
    await stage.world.preempt("p1", 0.0)
    ended = await stage.ended("p1")
    assert (ended.cause, [one.is_alive for one in ended.members]) == (
        Cause.NODE_PREEMPTED,
        [False, False],
    )
    seen = await stage.epoch(epoch, lambda one: len(one.gone) == 2)
    assert (seen.ends, seen.gone) == ((), frozenset({0, 1}))
    kinds = [one.kind for one in (await stage.see()).signals]
    assert "PREEMPTED" in kinds


async def test_who_went_while_no_broker_looked_is_seen_gone_by_the_next(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    epoch = await stage.start(make_queue(script(stage.world, FOREVER)))
    before = (await stage.see()).placements["p1"]
    await stage.world.turn_away()
    await stage.world.preempt("p1", 0.0)
    await stage.world.look_anew()
    seen = await stage.epoch(epoch, lambda one: len(one.gone) == 2)
    assert (seen.owner, seen.ends) == (OwnerState.STARTED, ())
    ended = await stage.ended("p1")
    assert ended.uid == before.uid
    assert sorted((one.rank, one.member, one.is_alive) for one in ended.members) == sorted(
        (one.rank, one.member, False) for one in before.members
    )


async def test_one_lost_node_ends_the_placement_and_says_which_rank_is_gone(
    set_stage: Set,
) -> None:
    stage = await set_stage(Shape())
    epoch = await stage.start(make_queue(script(stage.world, FOREVER)))
    await stage.world.lose_node("p1", 1)
    ended = await stage.ended("p1")
    assert ended.cause is Cause.NODE_LOST
    seen = await stage.epoch(epoch, lambda one: len(one.gone) + len(one.ends) == 2)
    assert (seen.gone, [end.rank for end in seen.ends]) == (frozenset({1}), [0])


async def test_a_drain_is_heard_and_acknowledged(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, SAVE_WHEN_ASKED))
    epoch = await stage.start(queue)
    await stage.done(Drain(epoch=epoch, reason="moving", grace_s=30.0))
    seen = await stage.epoch(epoch, lambda one: len(one.ends) == 2)
    assert seen.is_drain_written
    assert {(end.kind, end.cause, end.exit_code) for end in seen.ends} == {
        ("STOPPED", "drained", 0)
    }
    assert {report.drain_step for report in seen.reports} == {7}


async def test_a_gang_that_its_cluster_created_again_does_not_train(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    epoch = await stage.start(make_queue(script(stage.world, FOREVER)))
    before = (await stage.see()).placements["p1"]
    await stage.world.recreate("p1")
    ended = await stage.ended("p1")
    assert ended.uid == before.uid
    assert ended.members[:2] != before.members
    assert [one.member for one in ended.members[:2]] == [one.member for one in before.members]
    assert len(ended.members) == 4
    seen = await stage.epoch(epoch, lambda one: len(one.gone) == 2)
    assert seen.owner is OwnerState.STARTED
    assert ranks_of(stage.lines()) == ["0", "1"]


async def test_a_gang_created_again_before_its_grant_stands_whole_again(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, "exit 0"))
    await stage.done(queue)
    former = await stage.whole("p1")
    await stage.world.recreate("p1")

    def is_new(seen: ClusterObservation) -> bool:
        found = seen.placements["p1"]
        fresh = set(found.standing.values()).isdisjoint(former.standing.values())
        return found.is_whole_at_gate and fresh

    await stage.until(is_new)
    grant = make_grant(queue)
    await stage.done(grant)
    assert (await stage.ended("p1")).cause is Cause.NONE
    assert ranks_of(stage.lines()) == ["0", "1"]


async def test_a_killed_control_plane_touches_no_gang_and_finds_it_again(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, FOREVER))
    epoch = await stage.start(queue)
    before = (await stage.see()).placements["p1"]
    await stage.world.kill_control_plane()
    silence = await silence_of(stage)
    assert silence.observation is not None
    beat = silence.observation.epochs[epoch].reports[0].beat
    await stage.world.start_control_plane()
    after = await stage.placed("p1", lambda one: one.stage is Stage.STANDING)
    assert (after.uid, after.members) == (before.uid, before.members)
    await stage.epoch(epoch, lambda one: one.reports[0].beat > beat)
    await stage.close_by_force(queue, epoch)
    assert ranks_of(stage.lines()) == ["0", "1"]


async def test_exit_codes_are_found_of_a_gang_that_ended_behind_a_dead_control_plane(
    set_stage: Set,
) -> None:
    stage = await set_stage(Shape())
    go = stage.world.store.parent / "go"
    then = f"while [ ! -e {go} ]; do sleep 0.05; done; exit $((RANK + 4))"
    epoch = await stage.start(make_queue(script(stage.world, then)))
    await stage.world.kill_control_plane()
    go.touch()
    while True:
        silence = await silence_of(stage)
        assert silence.observation is not None
        if len(silence.observation.epochs[epoch].ends) == 2:
            break
        await asyncio.sleep(0.05)
    await stage.world.start_control_plane()
    ended = await stage.ended("p1")
    assert ended.cause is Cause.MEMBER_EXITED
    assert [one.exit_code for one in ended.members] == [4, 5]


async def test_a_silent_cluster_is_an_error_and_its_store_is_still_told(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, FOREVER))
    epoch = await stage.start(queue)
    await stage.world.silence(600.0)
    silence = await silence_of(stage)
    assert silence.observation is not None
    assert not silence.observation.is_whole
    assert silence.observation.is_store_readable
    assert silence.observation.epochs[epoch].owner is OwnerState.STARTED

    late = make_queue(script(stage.world, "exit 0"), placement="p2")
    queued, fenced = await stage.apply(late, Fence(epoch=epoch, reason="silent"))
    assert (queued.is_done, queued.cause) == (False, Cause.UNKNOWN)
    assert queued.retry_after_s is not None
    assert fenced.is_done
    while True:
        silence = await silence_of(stage)
        assert silence.observation is not None
        if len(silence.observation.epochs[epoch].ends) == 2:
            break
    await stage.world.restore()
    await stage.ended("p1")


async def test_a_store_that_cannot_be_read_is_said_and_nothing_becomes_absent(
    set_stage: Set,
) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, FOREVER))
    epoch = await stage.start(queue)
    await stage.see()
    lost = stage.world.store.with_name("lost")
    stage.world.store.rename(lost)
    seen = await stage.see()
    assert (seen.is_store_readable, seen.is_whole) == (False, False)
    assert seen.blind
    assert seen.epochs[epoch].owner is OwnerState.STARTED
    assert seen.placements["p1"].stage is Stage.STANDING
    refused = await stage.apply(
        Fence(epoch=epoch, reason="x"), make_withdraw(queue, epoch=epoch), make_grant(queue)
    )
    assert [(one.is_done, one.retry_after_s is not None) for one in refused] == [(False, True)] * 3
    assert not stage.world.store.exists()

    lost.rename(stage.world.store)
    seen = await stage.see()
    assert (seen.is_store_readable, seen.is_whole, seen.blind) == (True, True, ())
    assert (await stage.see()).placements["p1"].stage is Stage.STANDING
    await stage.close_by_force(queue, epoch)
    assert ranks_of(stage.lines()) == ["0", "1"]


async def test_an_owner_that_is_no_record_is_unreadable_and_not_absent(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    grant = make_grant(make_queue(script(stage.world, "exit 0")))
    await stage.done(grant)
    owner = stage.world.store / "runs" / "run1" / "e000001" / "owner"
    owner.parent.mkdir()
    owner.write_bytes(b'{"record": "owner"')
    seen = await stage.epoch(grant.epoch, lambda one: one.owner is not OwnerState.ABSENT)
    assert seen.owner is OwnerState.UNREADABLE


async def test_only_what_changed_is_named(set_stage: Set) -> None:
    stage = await set_stage(Shape(nominal=4))
    await stage.world.fill("ours", 4, 600.0)
    await stage.done(make_queue(("/bin/true",)))
    assert (await stage.see()).changed is not None
    await stage.placed("p1", lambda one: one.cause is Cause.WAITING_FOR_QUOTA)
    await stage.see()
    assert (await stage.see()).changed == frozenset()
    other = make_queue(("/bin/true",), placement="p2", run_key="run2")
    await stage.done(other)
    changed = (await stage.see()).changed
    assert changed is not None
    assert "p2" in changed
    assert "p1" not in changed


async def test_checkpoints_count_from_their_marker_on(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    then = """
cd "${BROKER_CHECKPOINT_URI#file://}" 2>/dev/null || mkdir -p "${BROKER_CHECKPOINT_URI#file://}"
cd "${BROKER_CHECKPOINT_URI#file://}"
mkdir step-5 step-9; touch step-5/.complete; exit 0
"""
    queue = make_queue(script(stage.world, then), ranks=1)
    grant = make_grant(queue)
    await stage.done(queue, grant)
    await stage.ended("p1")
    assert (await stage.see()).epochs[grant.epoch].checkpoints == (5,)
