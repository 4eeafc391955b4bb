"""Checkpoints that are gone: no run waits for them for ever, and none begins anew unasked."""

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.history.commands import (
    BeginIncarnation,
    CancelRun,
    MarkCheckpoint,
    RecordLostCopy,
    ResumeRun,
)
from broker.history.events import CheckpointLost, Ended, Granted
from broker.history.refusals import Refused
from broker.loops.content import path_of
from broker.loops.reaper import RETIRE_EVERY_S
from broker.model.checkpoint import Checkpoint
from broker.model.intent import CheckpointFormat
from broker.model.reasons import FailureClass, Reason
from broker.model.run import Run
from broker.model.states import PlacementState, RunState
from regions.cluster import Cause, Stage
from replicator.checkpoint.formats import REPLICA_NAME
from tests.builders import BROKER
from tests.unit.loops.handheld import Handheld, handheld
from tests.unit.loops.seeing import epoch_seen, placement_seen
from tests.unit.loops.test_by_hand import saved, started

DAY_S = 86_400.0
NEWEST = ResumeRun(step=None, from_start=False)


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Handheld]:
    async with handheld(tmp_path, "alpha", "beta") as broker:
        yield broker


def preempt(broker: Handheld, name: str, *steps: int) -> None:
    """Let alpha take the gang's machines back, and offer nothing any more."""
    run, alpha = broker.run(name), broker.clusters["alpha"]
    alpha.show(placement_seen(broker.leg(name), run, stage=Stage.ENDED, cause=Cause.NODE_PREEMPTED))
    gone = epoch_seen(run, gone=frozenset({0, 1}), checkpoints=steps)
    alpha.shown = replace(alpha.shown, epochs={gone.key: gone}, queues=())


def wipe(broker: Handheld, run: Run, checkpoint: Checkpoint) -> None:
    """Take a checkpoint's files out of every store."""
    prefix = path_of(run.uid, checkpoint.ref).prefix
    for store in broker.stores.values():
        for entry in store.list(prefix).entries:
            store.delete(entry.name)


async def over(broker: Handheld, name: str) -> None:
    """End the run by its user, its gang gone."""
    await broker.tell(name, CancelRun(grace_s=0.0, message="enough"))
    preempt(broker, name, 10)
    await broker.settle(seconds=1.0)
    await broker.settle(seconds=60.0)
    assert broker.run(name).state is RunState.CANCELLED


async def a_while(broker: Handheld) -> None:
    """Let some looks go by."""
    for _ in range(6):
        await broker.settle(seconds=2.0)


async def test_a_run_whose_every_copy_is_gone_ends_loudly(two: Handheld) -> None:
    name = await started(two)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    run = two.run(name)
    assert run.checkpoints[0].regions == {"alpha", "beta"}
    wipe(two, run, run.checkpoints[0])
    preempt(two, name, 10)
    await a_while(two)
    run = two.run(name)
    events = [recorded.event for recorded in await two.ledger.read(name, 0, 1_000)]
    lost = {event.region for event in events if isinstance(event, CheckpointLost)}
    assert lost == {"alpha", "beta"}
    assert (run.state, run.why.reason) == (RunState.FAILED, Reason.CHECKPOINT_LOST)
    ended = [event for event in events if isinstance(event, Ended)]
    assert [event.failure for event in ended] == [FailureClass.ORCHESTRATION]
    assert "step 10" in run.why.message
    assert "alpha and beta" in run.why.message
    assert "broker resume digits --from-beginning" in run.why.message
    assert sum(isinstance(event, Granted) for event in events) == 1


async def test_the_newest_older_checkpoint_with_a_copy_is_fallen_back_to(two: Handheld) -> None:
    name = await started(two)
    saved(two, name, 10, 20)
    await two.settle(seconds=1.0)
    run = two.run(name)
    newest = max(run.checkpoints, key=lambda c: c.ref.step)
    wipe(two, run, newest)
    preempt(two, name, 10)
    await a_while(two)
    run = two.run(name)
    resumed_from = run.epochs[-1].resume_from
    assert (len(run.epochs), resumed_from and resumed_from.step) == (2, 10)
    assert any(
        w.reason is Reason.CHECKPOINT_LOST and "step 20" in w.message and "step 10" in w.message
        for w in run.warnings
    )


async def test_who_went_back_to_a_step_that_is_gone_has_the_newer_one_still(two: Handheld) -> None:
    name = await started(two, keep_last=1)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    await two.tell(name, MarkCheckpoint(step=10, is_pinned=True))
    saved(two, name, 20)
    await two.settle(seconds=1.0)
    await over(two, name)
    older, newer = sorted(two.run(name).checkpoints, key=lambda c: c.ref.step)
    wipe(two, two.run(name), older)
    await two.tell(name, ResumeRun(step=10, from_start=False))
    await a_while(two)
    run = two.run(name)
    assert (run.state, run.why.reason) == (RunState.FAILED, Reason.CHECKPOINT_LOST)
    assert "these can be named: 20" in run.why.message
    await two.tell(name, NEWEST)
    await a_while(two)
    assert two.run(name).epochs[-1].resume_from == newer.ref


async def test_a_copy_whose_disk_was_put_back_from_elsewhere_is_not_lost(two: Handheld) -> None:
    name = await started(two)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    run = two.run(name)
    path = path_of(run.uid, run.checkpoints[0].ref)
    for region, store in two.stores.items():
        for entry in store.list(path.prefix).entries:
            # The same bytes in other files, as a copy of a disk has them; in alpha the manifest
            # was not among them.
            data = list(store.read(entry.name, entry.generation))
            store.delete(entry.name)
            if region == "beta" or not entry.name.endswith(REPLICA_NAME):
                store.put(entry.name, data)
    preempt(two, name, 10)
    await a_while(two)
    run = two.run(name)
    resumed_from = run.epochs[-1].resume_from
    assert (len(run.epochs), resumed_from and resumed_from.step) == (2, 10)
    assert run.checkpoints[0].lost_in == frozenset()


async def test_bytes_that_rot_in_place_are_found_by_who_copies_them_and_read_no_more(
    two: Handheld, tmp_path: Path
) -> None:
    name = await started(two)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    run = two.run(name)
    ref, prefix = run.checkpoints[0].ref, path_of(run.uid, run.checkpoints[0].ref).prefix
    rot(tmp_path / "alpha" / prefix / "weights")
    for entry in two.stores["beta"].list(prefix).entries:
        two.stores["beta"].delete(entry.name)
    await two.tell(name, RecordLostCopy(ref=ref, region="beta", message="to be copied anew"))
    await a_while(two)
    (checkpoint,) = two.run(name).checkpoints
    assert (checkpoint.regions, checkpoint.lost_in) == (frozenset(), frozenset({"alpha", "beta"}))
    told = [warning.reason for warning in two.run(name).warnings]
    assert Reason.COPY_NOT_VERIFIED in told


def rot(file: Path) -> None:
    """Change a file's bytes, and nothing else that can be seen of it."""
    before = file.stat()
    with file.open("r+b") as damaged:
        damaged.write(b"X")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_a_store_that_lost_its_name_is_no_evidence(two: Handheld) -> None:
    name = await started(two)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    run = two.run(name)
    wipe(two, run, run.checkpoints[0])
    preempt(two, name, 10)
    # From here on neither store is read by a look: what is absent may only be out of sight.
    for cluster in two.clusters.values():
        cluster.shown = replace(cluster.shown, is_store_readable=False)
    await a_while(two)
    assert two.run(name).checkpoints[0].regions == {"alpha", "beta"}
    assert not two.run(name).is_ended


async def test_a_person_may_have_the_stores_looked_through_once_more(two: Handheld) -> None:
    name = await started(two)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    run, alpha = two.run(name), two.stores["alpha"]
    prefix = path_of(run.uid, run.checkpoints[0].ref).prefix
    there = alpha.list(prefix).entries
    kept = {one.name: b"".join(alpha.read(one.name, one.generation)) for one in there}
    wipe(two, run, run.checkpoints[0])
    preempt(two, name, 10)
    await a_while(two)
    assert two.run(name).why.reason is Reason.CHECKPOINT_LOST
    await two.tell(name, NEWEST)
    await a_while(two)
    assert two.run(name).why.reason is Reason.CHECKPOINT_LOST
    for key, data in kept.items():
        alpha.put(key, [data])
    await two.tell(name, NEWEST)
    await a_while(two)
    run = two.run(name)
    assert run.epochs[-1].resume_from == run.checkpoints[0].ref
    assert run.epochs[-1].region == "beta"


async def test_from_the_beginning_it_may_begin_anew(two: Handheld) -> None:
    name = await started(two)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    run = two.run(name)
    wipe(two, run, run.checkpoints[0])
    preempt(two, name, 10)
    await a_while(two)
    await two.tell(name, ResumeRun(step=None, from_start=True))
    await a_while(two)
    run = two.run(name)
    assert (len(run.epochs), run.epochs[-1].resume_from) == (2, None)


async def test_what_is_to_be_purged_is_written_down_first(two: Handheld, tmp_path: Path) -> None:
    name = await started(two)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    await over(two, name)
    uid = two.run(name).uid
    # One store cannot be read: what stands in the others goes, and the run stays until all is gone.
    (tmp_path / "beta").rename(tmp_path / "away")
    two.readings.wait(91 * DAY_S)
    await two.agents.reaper.tick()
    assert two.run(name).is_retiring
    assert not list(two.stores["alpha"].list(f"runs/{uid}/").entries)
    for late in (NEWEST, MarkCheckpoint(step=10, hold_for="teams/vision/runs/fork")):
        with pytest.raises(Refused) as refusal:
            await two.ledger.handle(name, late, BROKER)
        assert refusal.value.reason is Reason.RETENTION_PASSED
    (tmp_path / "away").rename(tmp_path / "beta")
    two.readings.wait(RETIRE_EVERY_S + 1.0)
    await two.agents.reaper.tick()
    assert two.ledger.run(name) is None
    assert not list(two.stores["beta"].list(f"runs/{uid}/").entries)


async def test_a_restored_log_learns_of_copies_that_it_had_not_heard_of(two: Handheld) -> None:
    name = await started(two)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    run, ref = two.run(name), two.run(name).checkpoints[0].ref
    # The copy in beta came after the backup, and what alpha held is gone since.
    await two.tell(name, RecordLostCopy(ref=ref, region="beta", message="not in the backup"))
    prefix = path_of(run.uid, ref).prefix
    for entry in two.stores["alpha"].list(prefix).entries:
        two.stores["alpha"].delete(entry.name)
    await two.ledger.handle("broker", BeginIncarnation(incarnation=2, is_restored=True), BROKER)
    for _ in range(3):
        for observer in two.agents.observers:
            await observer.tick()
        await two.agents.restorer.tick()
    (checkpoint,) = two.run(name).checkpoints
    assert (checkpoint.regions, checkpoint.lost_in) == (frozenset({"beta"}), frozenset({"alpha"}))


async def test_a_copy_that_is_damaged_while_its_leg_waits_is_not_granted(tmp_path: Path) -> None:
    async with handheld(tmp_path, "alpha", "beta", "gamma", nodes_free=0) as broker:
        name = await started(broker)
        saved(broker, name, 10)
        await broker.settle(seconds=1.0)
        preempt(broker, name, 10)
        await a_while(broker)
        run, leg = broker.run(name), broker.leg(name)
        assert (leg.site.region, leg.state) == ("beta", PlacementState.QUEUED)
        assert leg.epoch is None
        # Its copy was looked at when the leg was queued, and loses a shard while that waits.
        path = path_of(run.uid, run.checkpoints[0].ref)
        assert broker.stores["beta"].delete(f"{path.prefix}weights")
        await broker.settle(seconds=10.0)
        whole = placement_seen(leg, run, stage=Stage.STANDING, cause=Cause.NONE)
        broker.clusters["beta"].show(replace(whole, is_whole_at_gate=True))
        await a_while(broker)
        events = [recorded.event for recorded in await broker.ledger.read(name, 0, 1_000)]
        lost = [i for i, event in enumerate(events) if isinstance(event, CheckpointLost)]
        granted = [i for i, event in enumerate(events) if isinstance(event, Granted)]
        assert len(lost) == 1
        # It was copied anew from alpha before anything started from it.
        assert granted[0] < lost[0] < granted[1]
        assert await broker.agents.content.is_sound_now(
            "beta", path, run.checkpoints[0].ref.digest, CheckpointFormat.FILES
        )
