"""Two things at once: what a person or a cluster does while a start begins, or is being closed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.history.commands import (
    AmendTerms,
    CancelRun,
    DrainRegion,
    MarkCheckpoint,
    ResumeRun,
)
from broker.history.events import Granted
from broker.history.refusals import Refused
from broker.model.intent import CapacityType, Limits, Terms
from broker.model.reasons import Reason
from broker.model.run import CloseRule
from broker.model.states import EpochState, RunState
from regions.local import faults
from tests.scenarios.rig import FLAVOR, PROGRAM, Rig, directed

LONG = replace(PROGRAM, steps=10_000)
SHORT = replace(PROGRAM, steps=10)
SPOT = Terms(capacity_types=(CapacityType.SPOT,), limits=Limits())


async def saved(rig: Rig, count: int = 2) -> str:
    """Bring a run to training that has saved."""
    name = await rig.submit(LONG)
    await rig.until(name, lambda run: len(run.checkpoints) >= count)
    return name


async def closing(rig: Rig, name: str) -> None:
    """Order the run's start to stop, while its gang hears nothing for a while."""
    for process in rig.gang(name):
        process.is_deaf = True
    terms = replace(rig.run(name).terms, regions=("beta",))
    generation = rig.run(name).terms_generation
    await rig.tell(name, AmendTerms(terms=terms, expected_generation=generation))
    await rig.until(name, lambda run: run.epochs[0].state is EpochState.STOPPING)


def hear(rig: Rig, name: str) -> None:
    for process in rig.gang(name):
        process.hear()


@directed("alpha", "beta")
async def test_rank_0_that_dies_right_after_it_wrote_the_owner_starts_nothing_twice(
    rig: Rig,
) -> None:
    name = await rig.submit(SHORT, ranks=3)
    await rig.meanwhile(
        lambda: bool(rig.run(name).epochs) and rig.is_in_store(name, "alpha", "owner")
    )
    first = rig.gang(name)[0]
    assert not first.is_training
    rig.place("alpha").inject(faults.NodeLost(placement=rig.run(name).epochs[0].placement, rank=0))
    run = await rig.until(name, lambda run: run.is_ended)
    assert run.state is RunState.SUCCEEDED
    assert run.epochs[0].close_rule in (CloseRule.SEEN_ENDED, CloseRule.FENCE_HEARD)
    assert (run.user_failures, run.infrastructure_losses) == (0, 1)
    assert run.epochs[1].resume_from is None


@directed("alpha", "beta")
async def test_a_resume_while_the_start_is_being_closed_names_where_the_next_begins(
    rig: Rig,
) -> None:
    name = await saved(rig)
    step = min(c.ref.step for c in rig.run(name).checkpoints)
    await closing(rig, name)
    await rig.tell(name, ResumeRun(step=step, from_start=False))
    hear(rig, name)
    run = await rig.until(name, lambda run: len(run.epochs) > 1)
    assert run.epochs[1].region == "beta"
    assert run.epochs[1].resume_from is not None
    assert run.epochs[1].resume_from.step == step


@directed("alpha", "beta")
async def test_a_cancel_while_the_start_is_being_closed_ends_the_run_with_it(rig: Rig) -> None:
    name = await saved(rig)
    await closing(rig, name)
    await rig.tell(name, CancelRun(grace_s=0.0, message="not needed"))
    assert not rig.run(name).is_ended
    hear(rig, name)
    run = await rig.until(name, lambda run: run.is_ended and not run.live_placements)
    assert (run.state, run.why.reason) == (RunState.CANCELLED, Reason.CANCELLED_BY_USER)
    assert len(run.epochs) == 1
    assert rig.gang(name) == []


@directed("alpha", "beta")
async def test_a_resume_of_a_run_that_is_being_cancelled_is_refused(rig: Rig) -> None:
    name = await saved(rig)
    for process in rig.gang(name):
        process.is_deaf = True
    await rig.tell(name, CancelRun(grace_s=0.0, message="not needed"))
    with pytest.raises(Refused, match="resume it when it has ended"):
        await rig.tell(name, ResumeRun(step=None, from_start=False))
    hear(rig, name)
    await rig.until(name, lambda run: run.is_ended)
    await rig.tell(name, ResumeRun(step=None, from_start=False))
    run = await rig.until(name, lambda run: len(run.epochs) > 1)
    assert run.epochs[1].resume_from is not None


@directed("alpha", "beta")
async def test_an_amendment_after_the_grant_takes_the_start_out_of_what_it_excludes(
    rig: Rig,
) -> None:
    name = await rig.submit(SHORT)
    await rig.until(name, lambda run: bool(run.epochs))
    assert not rig.is_in_store(name, "alpha", "owner")
    terms = replace(rig.run(name).terms, regions=("beta",))
    await rig.tell(name, AmendTerms(terms=terms, expected_generation=1))
    run = await rig.until(name, lambda run: run.is_ended)
    assert run.state is RunState.SUCCEEDED
    assert [epoch.region for epoch in run.epochs] == ["alpha", "beta"]
    assert run.epochs[0].close_rule is CloseRule.NEVER_STARTED
    assert run.infrastructure_losses == 0


@directed("alpha", "beta")
async def test_an_amendment_before_the_grant_is_kept_by_the_grant(rig: Rig) -> None:
    # Two places that could take it and no free machine: its leg is granted when it stands whole.
    name = await rig.submit(SHORT)
    await rig.until(name, lambda run: bool(run.placements))
    assert rig.run(name).epochs == ()
    terms = replace(rig.run(name).terms, regions=("beta",))
    await rig.tell(name, AmendTerms(terms=terms, expected_generation=1))
    run = await rig.until(name, lambda run: run.is_ended)
    assert run.state is RunState.SUCCEEDED
    assert [epoch.region for epoch in run.epochs] == ["beta"]


@directed("alpha", "beta")
async def test_a_region_that_is_drained_while_a_gang_stands_at_its_gate_is_left_unstarted(
    rig: Rig,
) -> None:
    name = await rig.submit(SHORT, ranks=3)
    await rig.meanwhile(lambda: len(rig.gang(name)) == 3)
    assert all(epoch.started_s is None for epoch in rig.run(name).epochs)
    await rig.order("alpha", DrainRegion(message="work on its network", grace_s=30.0))
    run = await rig.until(name, lambda run: run.is_ended)
    assert run.state is RunState.SUCCEEDED
    assert run.epochs[-1].region == "beta"
    assert (run.user_failures, run.infrastructure_losses) == (0, 0)
    assert all(epoch.started_s is None for epoch in run.epochs if epoch.region == "alpha")


@directed("alpha", "beta")
async def test_a_checkpoint_marked_bad_as_a_grant_names_it_is_not_resumed_from(rig: Rig) -> None:
    name = await saved(rig, count=3)
    rig.place("alpha").inject(faults.Preempt(flavor=FLAVOR, nodes=2, notice_s=0.0))
    await rig.until(name, lambda run: len(run.epochs) > 1)
    named = rig.run(name).epochs[1].resume_from
    assert named is not None
    await rig.tell(name, MarkCheckpoint(step=named.step, is_bad=True))
    run = await rig.until(name, lambda run: len(run.epochs) > 2)
    assert run.epochs[1].close_rule in (CloseRule.NEVER_STARTED, CloseRule.FENCE_HEARD)
    started_from = [
        event.resume_from for event in await rig.events(name) if isinstance(event, Granted)
    ]
    assert started_from[1] == named
    assert started_from[2] is not None
    assert started_from[2].step < named.step
    assert run.infrastructure_losses == 1


@directed("alpha", "beta")
async def test_a_fork_of_a_run_that_is_being_closed_begins_with_what_its_seal_will_name(
    rig: Rig,
) -> None:
    name = await saved(rig, count=3)
    await closing(rig, name)
    fork = await rig.submit(replace(SHORT, steps=60), parent=name)
    seed = rig.run(fork).checkpoints[0]
    run = await rig.until(fork, lambda run: bool(run.epochs) and run.has_started)
    assert run.epochs[0].resume_from == seed.ref
    hear(rig, name)
    parent = await rig.until(name, lambda run: not run.epochs[0].is_open)
    named = {c.ref.step for c in parent.checkpoints if c.is_sealed and c.is_pinned}
    assert named == {seed.ref.step}
    run = await rig.until(fork, lambda run: run.is_ended)
    assert run.state is RunState.SUCCEEDED
    await rig.tell(name, CancelRun(grace_s=0.0, message="not needed"))
    await rig.until(name, lambda run: run.is_ended)
