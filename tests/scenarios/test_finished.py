"""A gang that finished while somebody told it to stop, and before it heard of it."""

from __future__ import annotations

from dataclasses import replace

from broker.history.commands import AmendTerms, CancelRun, ResumeRun
from broker.model.reasons import Reason
from broker.model.run import CloseRule, Run
from broker.model.states import RunState
from tests.scenarios.rig import PROGRAM, Rig, directed

SHORT = replace(PROGRAM, steps=30)


async def deaf(rig: Rig) -> str:
    """Bring a gang to training that then hears nothing of its region's store for a while."""
    name = await rig.submit(SHORT)
    await rig.until(name, lambda run: len(run.checkpoints) > 1)
    for process in rig.gang(name):
        process.is_deaf = True
    return name


async def heard_again(rig: Rig, name: str) -> Run:
    """Let it finish with the fence in its store, hear again, and be judged."""
    await rig.meanwhile(lambda: rig.is_in_store(name, "alpha", "fence"))
    await rig.meanwhile(lambda: all(not process.is_training for process in rig.gang(name)))
    for process in rig.gang(name):
        process.hear()
    return await rig.until(name, lambda run: not run.epochs[0].is_open)


@directed("alpha", "beta")
async def test_a_run_that_finished_before_it_heard_that_its_region_is_refused(rig: Rig) -> None:
    name = await deaf(rig)
    terms = replace(rig.run(name).terms, regions=("beta",))
    await rig.tell(name, AmendTerms(terms=terms, expected_generation=1))
    run = await heard_again(rig, name)
    assert (run.state, run.why.reason) == (RunState.SUCCEEDED, Reason.COMPLETED)
    assert run.epochs[0].close_rule is CloseRule.FENCE_HEARD


@directed("alpha", "beta")
async def test_a_cancel_that_came_too_late_for_its_gang_is_one_and_says_so(rig: Rig) -> None:
    name = await deaf(rig)
    await rig.tell(name, CancelRun(grace_s=0.0, message="not needed"))
    run = await heard_again(rig, name)
    assert (run.state, run.why.reason) == (RunState.CANCELLED, Reason.CANCELLED_BY_USER)
    assert "had finished before the cancel reached it" in run.why.message


@directed("alpha", "beta")
async def test_a_run_that_its_user_called_back_to_a_step_goes_back_though_it_finished(
    rig: Rig,
) -> None:
    name = await deaf(rig)
    step = rig.run(name).checkpoints[0].ref.step
    await rig.tell(name, ResumeRun(step=step, from_start=False))
    await heard_again(rig, name)
    run = await rig.until(name, lambda run: len(run.epochs) > 1)
    assert run.epochs[1].resume_from is not None
    assert run.epochs[1].resume_from.step == step
