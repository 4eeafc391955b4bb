"""Runs go their whole way: over the real log, real agents, real clusters and real gangs."""

import pytest

from broker.history.events import (
    CheckpointCopied,
    DrainAcknowledged,
    EpochAdopted,
    Granted,
    PlacementStuck,
    Requeued,
)
from broker.loops.desk import NewerIncarnationError
from broker.model.reasons import FailureClass, Reason
from broker.model.run import CloseRule
from broker.model.states import EpochState, PlacementEnd, RunState
from broker.runtime.clock import MachineReadings, SystemClock
from broker.store.backup import back_up, restore
from regions.local import faults
from tests.unit.loops.fleet import FLAVOR, LOG_NAME, USER, brokered, make_fleet, make_stage

pytestmark = pytest.mark.alone


async def test_a_run_succeeds() -> None:
    async with make_fleet("alpha") as fleet:
        name = await fleet.submit("digits", steps=10)
        run = await fleet.until(name, lambda run: run.is_ended)
    assert (run.state, run.why.reason) == (RunState.SUCCEEDED, Reason.COMPLETED)
    assert [epoch.id.number for epoch in run.epochs] == [1]
    assert sorted(c.ref.step for c in run.checkpoints if c.is_sealed) == [5, 10]
    assert run.progress is not None
    assert [p.end for p in run.placements.values()] == [PlacementEnd.SUCCEEDED]


async def test_a_running_run_is_cancelled_and_its_machines_are_given_back() -> None:
    async with make_fleet("alpha") as fleet:
        name = await fleet.submit("digits", steps=10_000)
        await fleet.until(name, lambda run: run.state is RunState.RUNNING)
        await fleet.cancel(name)
        run = await fleet.until(name, lambda run: run.is_ended and not run.live_placements)
    assert (run.state, run.why.reason) == (RunState.CANCELLED, Reason.CANCELLED_BY_USER)
    assert [epoch.state for epoch in run.epochs] == [EpochState.CLOSED]


async def test_a_cancelled_run_may_save_within_its_grace() -> None:
    async with make_fleet("alpha") as fleet:
        name = await fleet.submit("digits", steps=10_000)
        await fleet.until(name, lambda run: len(run.checkpoints) >= 2)
        await fleet.cancel(name, grace_s=20.0)
        run = await fleet.until(name, lambda run: run.is_ended)
        events = await fleet.events(name)
    assert run.state is RunState.CANCELLED
    assert any(isinstance(event, DrainAcknowledged) for event in events)


async def test_a_preempted_run_resumes_elsewhere_from_what_was_copied_ahead() -> None:
    async with make_fleet("alpha", "beta") as fleet:
        name = await fleet.submit("digits", steps=60, pause_s=0.1)
        run = await fleet.until(name, lambda run: any(len(c.regions) == 2 for c in run.checkpoints))
        first = run.open_epoch
        assert first is not None
        # No machine comes there any more, so that the next start is elsewhere.
        await fleet.clusters[first.cluster].inject(faults.Stockout(flavor=FLAVOR))
        await fleet.preempt(run, notice_s=0.0)
        run = await fleet.until(name, lambda run: run.is_ended)
        events = await fleet.events(name)
    assert run.state is RunState.SUCCEEDED
    second = run.epochs[-1]
    assert second.region != first.region
    assert second.resume_from is not None
    assert second.resume_from.epoch == first.id
    assert any(isinstance(e, CheckpointCopied) and e.region == second.region for e in events)
    requeued = [event for event in events if isinstance(event, Requeued)]
    assert [event.failure for event in requeued] == [FailureClass.RESOURCE] * len(requeued)
    assert run.infrastructure_losses == len(requeued) >= 1
    assert run.user_failures == 0


async def test_a_command_that_fails_before_its_first_checkpoint_ends_the_run() -> None:
    async with make_fleet("alpha") as fleet:
        name = await fleet.submit("digits", command=("/bin/sh", "-c", "exit 7"))
        run = await fleet.until(name, lambda run: run.is_ended)
    assert (run.state, run.why.reason) == (RunState.FAILED, Reason.FAILED_BEFORE_CHECKPOINT)
    assert "exit code 7" in run.why.message


async def test_a_gang_that_comes_in_part_is_left_for_one_that_comes_whole() -> None:
    async with make_fleet("alpha", "beta") as fleet:
        await fleet.clusters["alpha-1"].inject(faults.Partial(flavor=FLAVOR, nodes=1))
        name = await fleet.submit("digits")
        run = await fleet.until(name, lambda run: run.is_ended and not run.live_placements)
        events = await fleet.events(name)
    assert run.state is RunState.SUCCEEDED
    first, second = run.placements.values()
    assert [leg.site.region for leg in (first, second)] == ["alpha", "beta"]
    assert any(isinstance(e, PlacementStuck) and e.placement == first.id for e in events)
    assert (first.end, second.end) == (PlacementEnd.WITHDRAWN, PlacementEnd.SUCCEEDED)
    assert [epoch.placement for epoch in run.epochs] == [second.id]


async def test_a_run_does_not_notice_that_its_broker_was_away() -> None:
    async with make_stage("alpha") as stage:
        data = stage.root / "data"
        async with brokered(stage, data) as fleet:
            name = await fleet.submit("digits", steps=40, pause_s=0.1)
            before = await fleet.until(name, lambda run: run.state is RunState.RUNNING)
        async with brokered(stage, data) as fleet:
            run = await fleet.until(name, lambda run: run.is_ended)
    assert run.state is RunState.SUCCEEDED
    assert [epoch.id for epoch in run.epochs] == [epoch.id for epoch in before.epochs]


async def test_a_gang_that_is_made_again_by_its_cluster_does_not_train_twice() -> None:
    async with make_fleet("alpha", "beta") as fleet:
        name = await fleet.submit("digits", steps=60, pause_s=0.1)
        run = await fleet.until(name, lambda run: any(len(c.regions) == 2 for c in run.checkpoints))
        epoch = run.open_epoch
        assert epoch is not None
        recreate = faults.Recreate(placement=epoch.placement)
        await fleet.clusters[epoch.cluster].inject(recreate)
        run = await fleet.until(name, lambda run: run.is_ended and not run.live_placements)
    assert run.state is RunState.SUCCEEDED
    first, second = run.epochs
    assert first.placement != second.placement
    assert run.placements[first.placement].failure is not FailureClass.USER
    assert second.resume_from is not None
    assert second.resume_from.epoch == first.id


async def test_a_run_goes_on_without_a_region_that_cannot_be_reached_and_pays_its_fence() -> None:
    async with make_fleet("alpha", "beta") as fleet:
        name = await fleet.submit("digits", steps=400, pause_s=0.1)
        run = await fleet.until(name, lambda run: any(len(c.regions) == 2 for c in run.checkpoints))
        first = run.open_epoch
        assert first is not None
        await fleet.allow_replacement(first.region, after_s=1.0)
        await fleet.hide_store(first.region)
        await fleet.until(
            name, lambda run: len(run.epochs) == 2 and run.epochs[1].started_s is not None
        )
        await fleet.show_store(first.region)
        run = await fleet.until(name, lambda run: not run.epochs[0].is_owed)
        run = await fleet.until(name, lambda run: not run.placements[first.placement].is_live)
        await fleet.cancel(name)
        run = await fleet.until(name, lambda run: run.is_ended and not run.live_placements)
        warned = {warning.reason for warning in run.warnings}
        # The zombie heard the fence, whatever became of its object.
        sight = fleet.agents.sight.cluster(first.cluster)
        seen = sight.epoch(run, run.epochs[0])
    assert run.epochs[0].close_rule is CloseRule.UNREACHABLE
    assert run.epochs[1].region != first.region
    assert run.epochs[1].resume_from is not None
    assert Reason.ZOMBIE_POSSIBLE in warned
    assert seen is not None
    assert seen.is_fence_written
    assert len(seen.ends) + len(seen.gone) == len(seen.nonces)


async def test_a_restored_backup_takes_over_what_it_did_not_know() -> None:
    async with make_stage("alpha", "beta") as stage:
        backup, data = stage.root / "backup", stage.root / "data"
        async with brokered(stage, data) as fleet:
            name = await fleet.submit("digits", steps=80, pause_s=0.1)
            run = await fleet.until(
                name, lambda run: any(len(c.regions) == 2 for c in run.checkpoints)
            )
            back_up(data / LOG_NAME, backup)
            await fleet.preempt(run, notice_s=0.0)
            before = await fleet.until(
                name, lambda run: len(run.epochs) == 2 and run.state is RunState.RUNNING
            )
        restored = stage.root / "restored"
        restore(
            backup,
            restored,
            clock=lambda mark: SystemClock(mark, MachineReadings()),
            actor=USER,
            is_told_to_replace=False,
        )
        async with brokered(stage, restored) as fleet:
            taken = await fleet.until(name, lambda run: len(run.epochs) == 2)
            run = await fleet.until(name, lambda run: run.is_ended)
            events = await fleet.events(name)
        # The one that was replaced, still alive somewhere, must not go on.
        with pytest.raises(ExceptionGroup) as caught:
            async with brokered(stage, data) as old:
                await old.until(name, lambda run: run.is_ended, within_s=20.0)
    assert caught.group_contains(NewerIncarnationError)
    # The very gang went on: none was started, none was stopped.
    assert taken.epochs[-1].id == before.epochs[-1].id
    assert taken.epochs[-1].nonces == before.epochs[-1].nonces
    assert run.state is RunState.SUCCEEDED
    assert len(run.epochs) == 2
    assert any(isinstance(event, EpochAdopted) for event in events)
    assert not any(isinstance(event, Granted) for event in events[-20:])
