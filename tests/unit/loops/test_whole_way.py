"""Runs go their whole way: over the real log, real agents, real clusters and real gangs."""

import pytest

from broker.history.events import CheckpointCopied, DrainAcknowledged, Requeued
from broker.model.reasons import FailureClass, Reason
from broker.model.states import EpochState, PlacementEnd, RunState
from regions.local import faults
from tests.unit.loops.fleet import FLAVOR, make_fleet

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
        await fleet.until(name, lambda run: run.progress is not None and run.progress.step >= 5)
        await fleet.cancel(name, grace_s=20.0)
        run = await fleet.until(name, lambda run: run.is_ended)
        events = await fleet.events(name)
    assert run.state is RunState.CANCELLED
    assert any(isinstance(event, DrainAcknowledged) for event in events)


async def test_a_preempted_run_resumes_elsewhere_from_what_was_copied_ahead() -> None:
    async with make_fleet("alpha", "beta") as fleet:
        name = await fleet.submit("digits", steps=120, pause_s=0.1)
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
