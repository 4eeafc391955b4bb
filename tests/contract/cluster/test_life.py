"""A placement's life in a cluster, from its queue to its end."""

from dataclasses import replace

import pytest

from regions.cluster import (
    Cause,
    EpochKey,
    Grant,
    NoSuchLogError,
    Outcome,
    OwnerState,
    PlacementSeen,
    RankEnded,
    Stage,
)
from tests.contract.cluster.conftest import Set
from tests.contract.cluster.world import (
    Shape,
    make_grant,
    make_queue,
    ranks_of,
    script,
)

pytestmark = pytest.mark.alone


async def test_a_gang_waits_at_its_gate_trains_once_granted_and_ends(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, "exit 0"))
    await stage.done(queue)
    whole = await stage.whole("p1")
    assert (whole.stage, whole.cause, whole.is_granted) == (Stage.STANDING, Cause.NONE, False)
    assert sorted(whole.standing) == [0, 1]
    assert stage.lines() == []

    grant = make_grant(queue)
    await stage.done(grant)
    ended = await stage.ended("p1")
    assert (ended.cause, ended.uid, ended.is_whole_at_gate) == (Cause.NONE, whole.uid, False)
    assert [(one.rank, one.is_alive, one.exit_code) for one in ended.members] == [
        (0, False, 0),
        (1, False, 0),
    ]
    epoch = (await stage.see()).epochs[grant.epoch]
    assert (epoch.owner, epoch.placement) == (OwnerState.STARTED, "p1")
    assert dict(enumerate(epoch.nonces)) == whole.standing
    assert epoch.ends == tuple(
        RankEnded(
            rank=rank,
            nonce=nonce,
            kind="EXITED",
            cause="command",
            exit_code=0,
            signal=None,
            was_asked=False,
        )
        for rank, nonce in enumerate(epoch.nonces)
    )


async def test_every_rank_is_told_its_place_and_where_to_meet(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, "exit 0"))
    await stage.done(queue, make_grant(queue, number=3))
    await stage.ended("p1")
    lines = sorted(stage.lines(), key=lambda line: line["RANK"])
    port = lines[0]["MASTER_PORT"]
    assert 1024 <= int(port) <= 65_535
    assert lines == [
        {
            "RANK": rank,
            "WORLD_SIZE": "2",
            "LOCAL_RANK": "0",
            "MASTER_ADDR": lines[0]["MASTER_ADDR"],
            "MASTER_PORT": port,
            "BROKER_RUN": "teams/vision/runs/one",
            "BROKER_EPOCH": "3",
        }
        for rank in ("0", "1")
    ]


def timeless(seen: PlacementSeen) -> PlacementSeen:
    """The same without how long ago its nodes came and went, which grows by itself."""
    return replace(seen, history=tuple((0.0, nodes) for _, nodes in seen.history))


async def test_actions_that_are_repeated_change_nothing(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, "sleep 0.5"))
    grant = make_grant(queue)
    await stage.done(queue, queue, grant, grant)
    await stage.running(grant.epoch)
    before = (await stage.see()).placements["p1"]
    await stage.done(queue, grant, queue)
    ended = await stage.ended("p1")
    await stage.done(queue, grant)
    assert ended.uid == before.uid
    assert len(ended.members) == 2
    assert ranks_of(stage.lines()) == ["0", "1"]
    assert timeless((await stage.see()).placements["p1"]) == timeless(ended)


async def test_another_grant_for_a_placement_is_refused_for_good(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, "exit 0"))
    first = make_grant(queue)
    await stage.done(first)
    other = Grant(
        placement="p1",
        epoch=EpochKey(run_key="run1", number=2, nonce="ffffffffffff"),
        incarnation=1,
        world_size=2,
        resume_path=None,
        bundle_digest="",
        seals=(),
    )
    (outcome,) = await stage.apply(other)
    assert (outcome.is_done, outcome.cause, outcome.retry_after_s) == (False, Cause.REFUSED, None)


async def test_one_failed_rank_ends_the_gang_and_its_exit_code_is_kept(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, '[ "$RANK" = 1 ] && exit 3; sleep 600'))
    grant = make_grant(queue)
    await stage.done(queue, grant)
    ended = await stage.ended("p1")
    assert ended.cause is Cause.MEMBER_EXITED
    assert {one.rank: one.exit_code for one in ended.members}[1] == 3
    assert ended.first_exit == {one.rank: one.member for one in ended.members}[1]
    epoch = await stage.epoch(grant.epoch, lambda seen: len(seen.ends) == 2)
    assert [(end.kind, end.exit_code) for end in epoch.ends if end.rank == 1] == [("EXITED", 3)]


async def test_the_signal_that_ended_a_rank_is_kept(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, "kill -9 $$"), ranks=1)
    grant = make_grant(queue)
    await stage.done(queue, grant)
    ended = await stage.ended("p1")
    assert [(one.exit_code, one.signal) for one in ended.members] == [(137, None)]
    epoch = (await stage.see()).epochs[grant.epoch]
    assert [(end.exit_code, end.signal) for end in epoch.ends] == [(None, 9)]


async def test_a_gang_that_finishes_one_by_one_is_let_finish(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, '[ "$RANK" = 1 ] && sleep 2.5; exit 0'))
    await stage.done(queue, make_grant(queue))
    ended = await stage.ended("p1")
    assert (ended.cause, [one.exit_code for one in ended.members]) == (Cause.NONE, [0, 0])


async def test_what_the_cluster_cannot_hold_at_all_is_refused_with_the_reason(
    set_stage: Set,
) -> None:
    stage = await set_stage(Shape())
    command = script(stage.world, "exit 0")
    refused = [
        make_queue(command, queue="nobody's"),
        make_queue(command, queue="theirs"),
        make_queue(command, flavor="tpu"),
        make_queue(()),
        make_queue(command, env={"NOT A NAME": "1"}),
        make_queue(command, placement="../../etc"),
        make_queue(command, run_key="a/b"),
    ]
    outcomes = await stage.apply(*refused)
    assert [(one.is_done, one.cause, one.retry_after_s) for one in outcomes] == [
        (False, Cause.REFUSED, None)
    ] * len(refused)
    assert all(outcome.message for outcome in outcomes)
    assert (await stage.see()).placements == {}


async def test_the_output_of_a_rank_is_read_from_any_position_and_followed(
    set_stage: Set,
) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(("/bin/sh", "-c", "echo one; sleep 1; echo two $RANK"))
    await stage.done(queue, make_grant(queue))
    read = [chunk async for chunk in stage.world.cluster.logs("p1", 1, 0, True)]
    assert b"".join(data for _, data in read) == b"one\ntwo 1\n"
    assert read[-1][0] == 10
    resumed = [chunk async for chunk in stage.world.cluster.logs("p1", 1, 4, False)]
    assert resumed == [(10, b"two 1\n")]
    last = [chunk async for chunk in stage.world.cluster.logs("p1", 1, -6, False)]
    assert last == [(10, b"two 1\n")]
    whole = [chunk async for chunk in stage.world.cluster.logs("p1", 1, -1000, False)]
    assert whole == [(10, b"one\ntwo 1\n")]
    with pytest.raises(NoSuchLogError):
        await anext(stage.world.cluster.logs("p9", 0, 0, True))


async def test_outcomes_come_one_for_each_action_in_order(set_stage: Set) -> None:
    stage = await set_stage(Shape())
    fine = make_queue(script(stage.world, "exit 0"))
    bad = make_queue(script(stage.world, "exit 0"), placement="p2", queue="nobody's")
    outcomes = await stage.apply(bad, fine, bad)
    assert [outcome.is_done for outcome in outcomes] == [False, True, False]
    assert outcomes[1] == Outcome(is_done=True)
