"""What the end of an epoch means for its run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.history.commands import (
    CancelRun,
    CloseEpoch,
    FailRun,
    RecordDrainAck,
    RequestDrain,
    StopEpoch,
)
from broker.history.events import CheckpointCompleted, Ended, Requeued, Sealed, Warned
from broker.history.refusals import Refused
from broker.model.intent import Limits
from broker.model.reasons import FailureClass, Reason
from broker.model.run import CloseRule, RankEnd
from broker.model.states import PlacementEnd, PlacementState, RunState
from tests.builders import Story, make_intent, make_terms


def training(**limits: int) -> Story:
    terms = make_terms(limits=Limits(**limits))
    return Story(make_intent(terms=terms)).accepted().training()


def outcome(story: Story) -> tuple[RunState, Reason]:
    return story.run.state, story.run.why.reason


def test_every_rank_exits_with_zero_and_the_run_has_succeeded() -> None:
    story = training().wait(60).closed(0, 0)
    assert outcome(story) == (RunState.SUCCEEDED, Reason.COMPLETED)
    assert story.placement("alpha").end is PlacementEnd.SUCCEEDED


def test_a_failure_before_the_first_checkpoint_ends_the_run() -> None:
    story = training().closed(0, 1)
    assert outcome(story) == (RunState.FAILED, Reason.FAILED_BEFORE_CHECKPOINT)
    assert story.run.why.message == (
        "Rank 1 ended with exit code 1, before its first complete checkpoint"
    )


def test_a_checkpoint_that_only_the_last_scan_found_is_an_anchor() -> None:
    story = training()
    story.closed(1, 1, found=(story.found(100),))
    assert outcome(story) == (RunState.QUEUED, Reason.COMMAND_FAILED)
    assert [c.ref.step for c in story.run.checkpoints if c.is_sealed] == [100]
    assert isinstance(story.events[-4], CheckpointCompleted)
    assert isinstance(story.events[-3], Sealed)


def test_an_anchored_run_restarts_until_its_restarts_are_spent() -> None:
    story = training(user_restarts=1).saved(100).closed(1, 1)
    assert story.run.user_failures == 1
    story.training().closed(1, 1)
    assert outcome(story) == (RunState.FAILED, Reason.USER_RESTARTS_SPENT)


def test_a_fault_that_a_gang_tells_of_itself_is_no_failure_of_one_that_had_saved() -> None:
    cause = Reason.TRANSIENT_FAULT
    story = (
        training(user_restarts=0, infrastructure_losses=1).saved(100).closed(134, 1, cause=cause)
    )
    assert outcome(story) == (RunState.QUEUED, cause)
    assert story.placement("alpha").failure is FailureClass.TRANSIENT
    assert (story.run.infrastructure_losses, story.run.user_failures) == (1, 0)
    story.training().closed(134, 1, cause=cause)
    assert outcome(story) == (RunState.FAILED, Reason.USER_RESTARTS_SPENT)
    assert story.run.infrastructure_losses == 1


def test_a_fault_that_a_gang_tells_of_itself_needs_an_anchor() -> None:
    story = training().closed(134, 1, cause=Reason.TRANSIENT_FAULT)
    assert outcome(story) == (RunState.FAILED, Reason.FAILED_BEFORE_CHECKPOINT)


def test_a_revocation_that_came_too_late_is_nobodys_loss() -> None:
    story = Story(make_intent(terms=make_terms(limits=Limits(infrastructure_losses=0))))
    story.accepted().placed().prepared().granted().wait(1)
    story.do(StopEpoch(reason=Reason.STOCKOUT, message="given back")).wait(1).started()
    story.closed(143, 143, rule=CloseRule.FENCE_HEARD, cause=Reason.NODE_PREEMPTED)
    assert outcome(story) == (RunState.QUEUED, Reason.STOCKOUT)
    assert story.run.infrastructure_losses == 0


def test_a_failure_that_is_heard_before_the_start_was_logged_is_the_runs_own() -> None:
    story = Story(make_intent()).accepted().placed().prepared().granted().wait(1)
    story.do(StopEpoch(reason=Reason.COMMAND_FAILED, message="Rank 1 ended with exit code 1"))
    story.wait(1).started().closed(143, 1, rule=CloseRule.FENCE_HEARD)
    assert outcome(story) == (RunState.FAILED, Reason.FAILED_BEFORE_CHECKPOINT)


def test_what_befalls_a_gang_that_leaves_as_planned_is_no_loss() -> None:
    story = training(infrastructure_losses=0).saved(100).stopped(Reason.REGION_DRAINING)
    story.closed(143, 143, rule=CloseRule.FENCE_HEARD, cause=Reason.NODE_PREEMPTED)
    assert outcome(story) == (RunState.QUEUED, Reason.REGION_DRAINING)


def test_a_preemption_needs_no_anchor_and_has_a_limit_of_its_own() -> None:
    story = training(infrastructure_losses=1, user_restarts=0).preempted()
    assert outcome(story) == (RunState.QUEUED, Reason.NODE_PREEMPTED)
    assert (story.run.infrastructure_losses, story.run.user_failures) == (1, 0)
    assert story.placement("alpha").end is PlacementEnd.PREEMPTED
    story.training().preempted()
    assert outcome(story) == (RunState.FAILED, Reason.INFRASTRUCTURE_LOSSES_SPENT)


def test_a_rank_that_vanished_is_a_lost_node_and_not_the_command() -> None:
    # The others fail for want of their peer; the cause is where there is no exit code.
    story = training().closed(None, 1)
    assert outcome(story) == (RunState.QUEUED, Reason.NODE_LOST)
    assert story.placement("alpha").failure is FailureClass.TRANSIENT


@pytest.mark.parametrize("reason", [Reason.REGION_DRAINING, Reason.TERMS_CHANGED])
def test_a_planned_move_is_counted_against_no_limit(reason: Reason) -> None:
    story = training(infrastructure_losses=0, user_restarts=0).stopped(reason)
    story.closed(143, 143, rule=CloseRule.FENCE_HEARD)
    assert outcome(story) == (RunState.QUEUED, reason)
    assert story.placement("alpha").end is PlacementEnd.WITHDRAWN
    assert story.run.infrastructure_losses == 0


def test_a_hang_is_the_runs_own_failure() -> None:
    story = training().stopped(Reason.NO_PROGRESS).closed(137, 137, rule=CloseRule.FENCE_HEARD)
    assert outcome(story) == (RunState.FAILED, Reason.FAILED_BEFORE_CHECKPOINT)


def test_a_gang_that_saved_for_a_drain_and_left_with_zero_has_not_finished() -> None:
    story = training()
    story.do(RequestDrain(reason=Reason.NODE_PREEMPTED, message="notice", grace_s=30.0))
    epoch = story.epoch.id
    story.do(RecordDrainAck(epoch=epoch, step=90)).closed(0, 0)
    assert outcome(story) == (RunState.QUEUED, Reason.NODE_PREEMPTED)


def ended_with(story: Story, *causes: str, rule: CloseRule = CloseRule.SEEN_ENDED) -> Story:
    ends = tuple(RankEnd(rank=r, exit_code=0, cause=cause) for r, cause in enumerate(causes))
    close = CloseEpoch(
        epoch=story.epoch.id,
        rule=rule,
        ends=ends,
        found=(),
        cause=None,
        message="",
    )
    return story.do(close)


def test_a_drain_whose_answer_came_with_the_end_is_no_success() -> None:
    story = training()
    story.do(RequestDrain(reason=Reason.NODE_PREEMPTED, message="notice", grace_s=30.0))
    ended_with(story, "drained", "drained")
    assert outcome(story) == (RunState.QUEUED, Reason.NODE_PREEMPTED)


@pytest.mark.parametrize("cause", ["drained", "preempted", "fenced"])
def test_a_gang_that_somebody_else_told_to_leave_was_evicted(cause: str) -> None:
    story = ended_with(training(), cause, "")
    assert outcome(story) == (RunState.QUEUED, Reason.EVICTED)
    assert story.run.infrastructure_losses == 1


def test_a_gang_that_finished_before_it_heard_the_drain_has_finished() -> None:
    story = training()
    story.do(RequestDrain(reason=Reason.REGION_DRAINING, message="leave", grace_s=30.0))
    story.closed(0, 0)
    assert outcome(story) == (RunState.SUCCEEDED, Reason.COMPLETED)


@pytest.mark.parametrize(
    "reason",
    [
        Reason.REGION_DRAINING,
        Reason.NODE_PREEMPTED,
        Reason.TERMS_CHANGED,
        Reason.OTHER_LEG_STARTED,
        Reason.NO_PROGRESS,
        Reason.START_NOT_REPORTED,
    ],
)
@pytest.mark.parametrize("rule", [CloseRule.SEEN_ENDED, CloseRule.FENCE_HEARD])
def test_a_gang_that_finished_before_it_heard_to_stop_has_finished(
    reason: Reason, rule: CloseRule
) -> None:
    story = training().stopped(reason).closed(0, 0, rule=rule)
    assert outcome(story) == (RunState.SUCCEEDED, Reason.COMPLETED)
    assert "before they heard that they should stop" in story.run.why.message
    assert story.placement("alpha").end is PlacementEnd.SUCCEEDED


def test_a_gang_of_which_one_rank_heard_to_stop_has_not_finished() -> None:
    story = training().stopped()
    ended_with(story, "", "fenced", rule=CloseRule.FENCE_HEARD)
    assert outcome(story) == (RunState.QUEUED, Reason.REGION_DRAINING)


@pytest.mark.parametrize("grace_s", [0.0, 60.0])
def test_a_cancelled_gang_that_finished_before_it_heard_is_cancelled_and_says_so(
    grace_s: float,
) -> None:
    story = training().do(CancelRun(grace_s=grace_s, message="enough"))
    story.closed(0, 0, rule=CloseRule.SEEN_ENDED)
    assert outcome(story) == (RunState.CANCELLED, Reason.CANCELLED_BY_USER)
    assert story.run.why.message == (
        "enough; it had finished before the cancel reached it: all ranks ended with exit code 0"
    )
    assert story.placement("alpha").end is PlacementEnd.SUCCEEDED


def test_a_run_that_finished_while_its_limit_ended_it_has_succeeded() -> None:
    story = training()
    story.do(FailRun(reason=Reason.DEADLINE_PASSED, message="its deadline has passed", grace_s=0.0))
    story.closed(0, 0, rule=CloseRule.FENCE_HEARD)
    assert outcome(story) == (RunState.SUCCEEDED, Reason.COMPLETED)


@pytest.mark.parametrize("reason", [Reason.RESUMED_BY_USER, Reason.STEP_MARKED_BAD])
def test_what_a_user_called_back_has_not_finished_though_every_rank_has(reason: Reason) -> None:
    story = training().stopped(reason).closed(0, 0, rule=CloseRule.FENCE_HEARD)
    assert outcome(story) == (RunState.QUEUED, reason)


def test_a_revoked_grant_costs_no_loss_and_leaves_its_place() -> None:
    story = Story().accepted().placed().prepared().reported().granted().stopped()
    wait_began_s = story.run.wait_began_s
    story.wait(60).closed(rule=CloseRule.NEVER_STARTED)
    assert outcome(story) == (RunState.QUEUED, Reason.REGION_DRAINING)
    assert story.run.infrastructure_losses == 0
    assert story.run.wait_began_s == wait_began_s
    placement = story.placement("alpha")
    assert placement.state is PlacementState.QUEUED
    assert placement.withdraw is not None


def test_an_evicted_gang_that_never_started_is_a_loss() -> None:
    story = Story().accepted().placed().prepared().at_gate().granted()
    story.closed(rule=CloseRule.NEVER_STARTED, cause=Reason.EVICTED)
    assert outcome(story) == (RunState.QUEUED, Reason.EVICTED)
    assert story.run.infrastructure_losses == 1


def test_an_unreachable_gang_is_replaced_with_its_fence_owed_and_its_cost_said() -> None:
    story = training().closed(rule=CloseRule.UNREACHABLE)
    assert outcome(story) == (RunState.QUEUED, Reason.REPLACED_UNREACHABLE)
    assert story.run.epochs[-1].is_owed
    assert story.placement("alpha").withdraw is not None
    warned = [event for event in story.events if isinstance(event, Warned)]
    assert warned == [
        Warned(
            reason=Reason.ZOMBIE_POSSIBLE,
            message="Epoch 1 may still run in alpha at 5.00 USD an hour; "
            "nothing it writes counts any more, and its fence is owed",
        )
    ]


def test_a_decided_end_comes_when_the_epoch_is_closed() -> None:
    story = training().do(CancelRun(grace_s=0.0, message="enough"))
    assert story.run.state is RunState.RUNNING
    story.closed(143, 143, rule=CloseRule.FENCE_HEARD)
    assert outcome(story) == (RunState.CANCELLED, Reason.CANCELLED_BY_USER)


def test_what_was_known_complete_first_counts_and_a_second_writing_is_said() -> None:
    story = training().saved(100)
    former = story.run.checkpoints[0].ref
    found = story.found(100)
    other = replace(found, ref=replace(found.ref, digest="f" * 64))
    story.closed(1, 1, found=(other,))
    sealed = next(e for e in story.events if isinstance(e, Sealed))
    assert sealed.checkpoints == (former,)
    assert story.run.warnings[-1].reason is Reason.COPY_NOT_VERIFIED


def test_a_closed_epoch_is_not_closed_again() -> None:
    story = training()
    close = CloseEpoch(
        epoch=story.epoch.id,
        rule=CloseRule.SEEN_ENDED,
        ends=(RankEnd(rank=0, exit_code=0), RankEnd(rank=1, exit_code=0)),
        found=(),
        cause=None,
        message="",
    )
    assert isinstance(story.tell(close)[-1], Ended)
    assert story.tell(close) == ()


@pytest.mark.parametrize(
    ("rule", "ranks"),
    [
        (CloseRule.NEVER_STARTED, 0),
        (CloseRule.SEEN_ENDED, 1),
        (CloseRule.FENCE_HEARD, 0),
        (CloseRule.SEEN_ENDED, 3),
    ],
)
def test_a_close_that_the_protocol_does_not_give_is_refused(rule: CloseRule, ranks: int) -> None:
    story = training()
    ends = tuple(RankEnd(rank=rank, exit_code=0) for rank in range(ranks))
    close = CloseEpoch(epoch=story.epoch.id, rule=rule, ends=ends, found=(), cause=None, message="")
    with pytest.raises(Refused):
        story.tell(close)


def test_the_run_goes_on_to_the_leg_that_waits_already() -> None:
    story = training().do(
        RequestDrain(reason=Reason.NODE_PREEMPTED, message="notice", grace_s=30.0)
    )
    story.placed("beta").prepared("beta").preempted()
    assert [p.site.region for p in story.run.waiting_placements] == ["beta"]
    assert isinstance(story.events[-1], Requeued)
    story.granted("beta")
    assert story.run.state is RunState.STARTING
