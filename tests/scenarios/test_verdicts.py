"""Whose fault an end was, over whole gangs, clusters and agents (law 5).

A gang ends by its cluster's hand whatever ended its first rank, so that the peers' ends say nothing
of why: the first one does.
"""

from __future__ import annotations

from dataclasses import replace

from broker.history.commands import AmendTerms, DrainRegion
from broker.model.reasons import FailureClass, Reason
from broker.model.run import Run
from broker.model.states import RunState
from regions.local import faults
from tests.scenarios.rig import FLAVOR, PROGRAM, Rig, directed

LONG = replace(PROGRAM, steps=10_000, save_every=10_000)


async def training(rig: Rig, *, ranks: int = 3, grace_s: float = 1.0) -> str:
    """Bring a gang to training that has no checkpoint, in a cluster that gives little grace."""
    await rig.rule("alpha", fence_grace_s=grace_s)
    name = await rig.submit(LONG, ranks=ranks)
    await rig.until(name, lambda run: run.state is RunState.RUNNING)
    return name


def outcome(run: Run) -> tuple[RunState, Reason, str]:
    return run.state, run.why.reason, run.why.message


async def judged(rig: Rig, name: str) -> Run:
    """Wait until the first epoch is closed."""
    return await rig.until(name, lambda run: not run.epochs[0].is_open)


@directed("alpha")
async def test_a_rank_that_fails_is_the_cause_though_its_peers_were_told_to_leave(rig: Rig) -> None:
    name = await training(rig)
    rig.gang(name)[1].child_exited(7)
    run = await judged(rig, name)
    assert outcome(run) == (
        RunState.FAILED,
        Reason.FAILED_BEFORE_CHECKPOINT,
        "Rank 1 ended with exit code 7, before its first complete checkpoint",
    )


@directed("alpha")
async def test_a_rank_that_fails_is_the_cause_though_its_peers_never_spoke_again(rig: Rig) -> None:
    name = await training(rig)
    failing, *peers = reversed(rig.gang(name))
    failing.child_exited(7)
    for peer in peers:
        peer.kill()
    run = await judged(rig, name)
    assert outcome(run) == (
        RunState.FAILED,
        Reason.FAILED_BEFORE_CHECKPOINT,
        "Rank 2 ended with exit code 7, before its first complete checkpoint",
    )


@directed("alpha")
async def test_a_failure_whose_last_word_never_reached_the_store_is_one(rig: Rig) -> None:
    name = await training(rig)
    weather = rig.place("alpha").weather
    weather.is_store_down = True
    rig.gang(name)[1].child_exited(7)
    await rig.meanwhile(lambda: rig.gang(name) == [])
    weather.is_store_down = False
    run = await judged(rig, name)
    assert outcome(run)[:2] == (RunState.FAILED, Reason.FAILED_BEFORE_CHECKPOINT)
    assert "Rank 1 ended with exit code 7" in run.why.message


@directed("alpha")
async def test_a_killed_command_is_the_runs_own_and_the_words_say_memory(rig: Rig) -> None:
    name = await training(rig)
    rig.gang(name)[0].child_exited(-9)
    run = await judged(rig, name)
    assert outcome(run)[:2] == (RunState.FAILED, Reason.FAILED_BEFORE_CHECKPOINT)
    assert "Rank 0 was killed (signal 9)" in run.why.message
    assert "out of memory" in run.why.message


@directed("alpha")
async def test_a_member_killed_whole_while_no_machine_was_taken_is_the_runs_own(rig: Rig) -> None:
    # As a container is that runs out of memory: its launcher dies with it.
    name = await training(rig)
    rig.gang(name)[2].kill()
    run = await judged(rig, name)
    assert outcome(run)[:2] == (RunState.FAILED, Reason.FAILED_BEFORE_CHECKPOINT)
    assert "Rank 2 was killed (signal 9)" in run.why.message
    assert "out of memory" in run.why.message


@directed("alpha")
async def test_a_lost_machine_is_the_cause_though_the_peers_fail_by_themselves(rig: Rig) -> None:
    name = await training(rig)
    placement = rig.epoch(name).placement
    peers = rig.gang(name)[1:]
    rig.place("alpha").inject(faults.NodeLost(placement=placement, rank=0))
    for peer in peers:
        peer.child_exited(1)
    run = await judged(rig, name)
    assert (run.state, run.user_failures, run.infrastructure_losses) == (RunState.QUEUED, 0, 1)
    assert run.placements[placement].failure is FailureClass.TRANSIENT


@directed("alpha")
async def test_a_machine_lost_after_one_rank_was_done_is_no_failure_of_the_run(rig: Rig) -> None:
    name = await training(rig)
    placement = rig.epoch(name).placement
    rig.gang(name)[0].child_exited(0)
    rig.place("alpha").inject(faults.NodeLost(placement=placement, rank=1))
    run = await judged(rig, name)
    assert (run.state, run.user_failures, run.infrastructure_losses) == (RunState.QUEUED, 0, 1)


@directed("alpha")
async def test_a_rank_that_fails_after_another_was_done_is_the_cause(rig: Rig) -> None:
    name = await training(rig)
    gang = rig.gang(name)
    gang[0].child_exited(0)
    gang[2].child_exited(3)
    run = await judged(rig, name)
    assert outcome(run)[:2] == (RunState.FAILED, Reason.FAILED_BEFORE_CHECKPOINT)
    assert "Rank 2 ended with exit code 3" in run.why.message


@directed("alpha")
async def test_a_rank_that_fails_while_another_still_prepares_is_the_cause(rig: Rig) -> None:
    # In the rendezvous: the others are told to leave before their command ran.
    await rig.rule("alpha", fence_grace_s=1.0)
    name = await rig.submit(LONG, ranks=4)
    await rig.meanwhile(lambda: any(process.is_training for process in rig.gang(name)))
    first = next(process for process in rig.gang(name) if process.is_training)
    assert any(not process.is_training for process in rig.gang(name))
    first.child_exited(4)
    run = await judged(rig, name)
    assert outcome(run)[:2] == (RunState.FAILED, Reason.FAILED_BEFORE_CHECKPOINT)
    assert f"Rank {first.rank} ended with exit code 4" in run.why.message


@directed("alpha", "beta")
async def test_a_gang_taken_by_its_machines_notice_is_no_failure_of_the_run(rig: Rig) -> None:
    name = await training(rig)
    rig.place("alpha").inject(faults.Preempt(flavor=FLAVOR, nodes=1, notice_s=20.0))
    run = await judged(rig, name)
    assert (run.state, run.user_failures, run.infrastructure_losses) == (RunState.QUEUED, 0, 1)


@directed("alpha")
async def test_what_a_gang_ends_with_that_we_stopped_is_no_failure_of_its_own(rig: Rig) -> None:
    name = await training(rig)
    terms = replace(rig.run(name).terms, regions=("beta",))
    await rig.tell(name, AmendTerms(terms=terms, expected_generation=1))
    await rig.meanwhile(lambda: rig.is_in_store(name, "alpha", "fence"))
    first, *_, last = rig.gang(name)
    first.child_exited(143)
    last.kill()
    run = await judged(rig, name)
    assert (run.state, run.user_failures, run.infrastructure_losses) == (RunState.QUEUED, 0, 0)
    assert run.why.reason is not Reason.COMMAND_FAILED


@directed("alpha")
async def test_a_failure_that_is_heard_after_a_drain_was_asked_is_the_runs_own(rig: Rig) -> None:
    # The order reached nobody: its store was away, and the failure was heard of later still.
    name = await training(rig)
    weather = rig.place("alpha").weather
    weather.is_store_down = True
    await rig.order("alpha", DrainRegion(message="work on its power", grace_s=120.0))
    await rig.until(name, lambda run: run.epochs[0].drain is not None)
    rig.gang(name)[2].child_exited(7)
    await rig.meanwhile(lambda: rig.gang(name) == [])
    await rig.die()
    weather.is_store_down = False
    run = await judged(rig, name)
    assert outcome(run) == (
        RunState.FAILED,
        Reason.FAILED_BEFORE_CHECKPOINT,
        "Rank 2 ended with exit code 7, before its first complete checkpoint",
    )


@directed("alpha")
async def test_what_fails_once_it_was_asked_to_leave_is_no_failure_of_the_run(rig: Rig) -> None:
    name = await training(rig)
    await rig.order("alpha", DrainRegion(message="work on its power", grace_s=120.0))
    await rig.meanwhile(lambda: rig.gang(name)[1].was_asked)
    rig.gang(name)[1].child_exited(7)
    run = await judged(rig, name)
    assert (run.state, run.user_failures) == (RunState.QUEUED, 0)


@directed("alpha")
async def test_what_fails_before_it_has_heard_that_it_is_to_leave_is_the_runs_own(rig: Rig) -> None:
    name = await training(rig)
    await rig.order("alpha", DrainRegion(message="work on its power", grace_s=120.0))
    await rig.meanwhile(lambda: rig.is_in_store(name, "alpha", "drain"))
    assert not rig.gang(name)[1].was_asked
    rig.gang(name)[1].child_exited(7)
    run = await judged(rig, name)
    assert outcome(run)[:2] == (RunState.FAILED, Reason.FAILED_BEFORE_CHECKPOINT)
