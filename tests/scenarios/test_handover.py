"""Runs that outlast their machines: from one set to the next, as planned. A day is 100 seconds."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal

from broker.history.events import DrainRequested, Granted, Requeued
from broker.model.billing import run_bill
from broker.model.intent import CapacityType, Limits, Terms
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Purpose, Run
from broker.model.states import PlacementEnd, PlacementState, RunState
from regions.local import faults
from regions.local.config import FlavorConfig
from tests.scenarios.rig import PROGRAM, Rig, directed

DAY_S = 100.0
WEEK_S = 7 * DAY_S
FLEX = "h100-flex"
RANKS = 2
TERMS = Terms(capacity_types=(CapacityType.FLEX,), limits=Limits(infrastructure_losses=1))


def flex(region: str, price: Decimal) -> FlavorConfig:
    """Machines that come two hours after they were asked for, and stay a week."""
    return FlavorConfig(
        name=FLEX,
        accelerator="H100",
        capacity_type="FLEX",
        zones=("a",),
        price_per_gpu_hour=price,
        max_nodes=6,
        startup_s=2.0,
        flex_wait_s=8.0,
        preemption_notice_s=5.0,
        max_run_s=WEEK_S,
    )


async def submitted(rig: Rig, days: float) -> str:
    name = await rig.submit(
        replace(PROGRAM, steps=round(days * DAY_S), step_s=1.0, save_every=50),
        ranks=RANKS,
        terms=TERMS,
    )
    await rig.until(name, lambda run: run.state is RunState.RUNNING)
    return name


def is_over(run: Run) -> bool:
    return run.is_ended


@directed("alpha", "beta", machines=flex)
async def test_a_run_of_twenty_days_crosses_its_machines_with_one_handover_each(rig: Rig) -> None:
    name = await submitted(rig, days=20.0)
    run = await rig.until(name, is_over, within_s=30 * DAY_S)
    assert (run.state, run.why.reason) == (RunState.SUCCEEDED, Reason.COMPLETED)
    events = await rig.events(name)
    # A week holds six days and more of it: four sets of machines, three times handed over.
    assert len(run.epochs) == 4
    assert [e.reason for e in events if isinstance(e, Requeued)] == [Reason.PLANNED_END] * 3
    assert len([e for e in events if isinstance(e, DrainRequested)]) == 3
    assert (run.infrastructure_losses, run.user_failures, run.warnings) == (0, 0, ())
    # What follows was asked for before, begins with the last save, and soon.
    for before, after in zip(run.epochs, run.epochs[1:], strict=False):
        assert run.placements[after.placement].purpose is Purpose.SUCCESSOR
        assert before.drain is not None
        assert after.resume_from is not None
        assert before.drain.acked_step is not None
        assert after.resume_from.step >= before.drain.acked_step
        assert after.resume_from.epoch == before.id
        assert before.closed_s is not None
        assert after.started_s is not None
        assert after.started_s - before.closed_s < 30.0
    assert len(run.placements) == 4
    # Nobody was paid twice for long: what stood at gates is minutes of these days.
    bill = run_bill(run, Moment(elapsed_s=rig.now_s(), wall_s=0.0))
    idle_s = bill.time.idle_ms / 1000.0 / RANKS
    assert idle_s < 4 * 60.0
    granted = [e for e in events if isinstance(e, Granted)]
    assert len(granted) == 4


@directed("alpha", "beta", machines=flex)
async def test_at_no_time_more_than_one_booking_waits_beside_the_gang_that_trains(
    rig: Rig,
) -> None:
    name = await submitted(rig, days=14.0)
    most = 0
    while not rig.run(name).is_ended:
        live = [
            job
            for place in rig.stage.places.values()
            for job in place.world.state.live_jobs()
            if job.spec is not None
        ]
        most = max(most, len(live))
        await asyncio.sleep(1.0)
    assert most == 2


@directed("alpha", "beta", machines=flex)
async def test_a_run_whose_successor_does_not_come_saves_in_time_and_says_why_it_waits(
    rig: Rig,
) -> None:
    name = await submitted(rig, days=9.0)
    for region in ("alpha", "beta"):
        rig.place(region).inject(faults.FlexSilent(flavor=FLEX))
    run = await rig.until(name, lambda run: not run.epochs[0].is_open, within_s=WEEK_S)
    first = run.epochs[0]
    assert first.drain is not None
    assert (first.drain.reason, first.drain.is_acked) == (Reason.PLANNED_END, True)
    assert run.placements[first.placement].end is PlacementEnd.WITHDRAWN
    assert run.infrastructure_losses == 0
    run = await rig.until(
        name, lambda run: run.state is RunState.QUEUED and run.why.reason is not Reason.PLANNED_END
    )
    assert run.why.reason is Reason.WAITING_FOR_FLEX
    assert [leg.purpose for leg in run.waiting_placements] == [Purpose.SUCCESSOR]
    for region in ("alpha", "beta"):
        rig.place(region).inject(faults.Restore())
    run = await rig.until(name, is_over, within_s=10 * DAY_S)
    assert run.state is RunState.SUCCEEDED
    assert run.epochs[1].resume_from is not None
    assert run.epochs[1].resume_from.step >= (first.drain.acked_step or 0) > 0


@directed("alpha", "beta", machines=flex)
async def test_machines_that_go_before_their_time_are_a_loss_as_any(rig: Rig) -> None:
    name = await submitted(rig, days=1.0)
    await rig.until(name, lambda run: len(run.checkpoints) > 0)
    (leg,) = rig.run(name).live_placements
    rig.place(leg.site.region).inject(faults.FlexRevoked(placement=leg.id))
    run = await rig.until(name, lambda run: not run.epochs[0].is_open)
    assert run.infrastructure_losses == 1
    ended = run.placements[leg.id]
    assert (ended.end, ended.why.reason) == (PlacementEnd.PREEMPTED, Reason.CAPACITY_REVOKED)
    run = await rig.until(name, is_over)
    assert run.state is RunState.SUCCEEDED


@directed("alpha", "beta", machines=flex)
async def test_a_booking_that_fails_is_tried_elsewhere_and_its_place_is_left_alone(
    rig: Rig,
) -> None:
    name = await rig.submit(replace(PROGRAM, steps=20), ranks=RANKS, terms=TERMS)
    run = await rig.until(
        name,
        lambda run: any(leg.state is PlacementState.QUEUED for leg in run.live_placements),
    )
    (leg,) = run.live_placements
    await rig.meanwhile(lambda: leg.id in rig.place(leg.site.region).world.state.names)
    rig.place(leg.site.region).inject(faults.FlexFails(placement=leg.id))
    run = await rig.until(name, is_over)
    assert run.state is RunState.SUCCEEDED
    first, second = run.placements.values()
    assert (first.end, first.why.reason) == (PlacementEnd.FAILED, Reason.FLEX_FAILED)
    assert second.site.region != first.site.region
