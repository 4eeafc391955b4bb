"""Attempts that fail at their gate, and what they count for."""

from __future__ import annotations

import pytest

from broker.history.commands import CloseEpoch, EndPlacement
from broker.model.capacity_seen import ClusterWord
from broker.model.intent import Limits
from broker.model.reasons import FailureClass, Reason
from broker.model.run import CloseRule, Purpose
from broker.model.states import PlacementEnd, RunState
from tests.builders import Story, make_intent, make_terms

NO_PYTHON = ClusterWord(
    word="LAUNCHER_NOT_STARTED",
    failure=FailureClass.USER,
    deed="It ends the run",
    advice="Put a Python into the image.",
    look_at="pod/x",
    raw="exec: python3: not found",
    is_unknown=False,
)


def failed(
    story: Story,
    region: str = "alpha",
    reason: Reason = Reason.COMMAND_FAILED,
    end: PlacementEnd = PlacementEnd.FAILED,
) -> EndPlacement:
    return EndPlacement(
        placement=story.placement(region).id,
        end=end,
        reason=reason,
        message=f"{region}: no python3",
        word=NO_PYTHON,
    )


def test_what_only_the_user_can_mend_ends_a_run_that_has_nothing_to_go_back_to() -> None:
    story = Story().accepted().placed().prepared().reported()
    story.placed("beta", Purpose.HEDGE).do(failed(story))
    run = story.run
    assert (run.state, run.why.reason) == (RunState.FAILED, Reason.FAILED_BEFORE_CHECKPOINT)
    assert run.why.message == "alpha: no python3, before its first complete checkpoint"
    assert story.placement("alpha").word == NO_PYTHON
    left = story.placement("beta").withdraw
    assert left is not None
    assert left.reason is Reason.RUN_ENDED
    assert story.tell(failed(story)) == ()


def test_with_a_checkpoint_it_is_tried_again_as_often_as_the_run_may_fail() -> None:
    limits = Limits(user_restarts=2)
    story = Story(make_intent(terms=make_terms(limits=limits))).accepted().training().saved(10)
    story.preempted()
    for count in (1, 2):
        story.placed("beta").prepared("beta").do(failed(story, "beta"))
        assert (story.run.state, story.run.user_failures) == (RunState.QUEUED, count)
    story.placed("beta").prepared("beta").do(failed(story, "beta"))
    assert (story.run.state, story.run.why.reason) == (RunState.FAILED, Reason.USER_RESTARTS_SPENT)


def test_what_is_nobodys_fault_is_tried_again_as_often_as_places_may_be_lost() -> None:
    limits = Limits(infrastructure_losses=1)
    story = Story(make_intent(terms=make_terms(limits=limits))).accepted()
    story.placed().prepared().do(failed(story, reason=Reason.GANG_NOT_WHOLE))
    assert (story.run.state, story.run.infrastructure_losses) == (RunState.QUEUED, 1)
    story.placed().prepared().do(failed(story, reason=Reason.GANG_NOT_WHOLE))
    assert story.run.why.reason is Reason.INFRASTRUCTURE_LOSSES_SPENT


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        (Reason.GATE_TIMEOUT, PlacementEnd.FAILED),
        (Reason.QUOTA_TOO_SMALL, PlacementEnd.FAILED),
        (Reason.NODE_PREEMPTED, PlacementEnd.PREEMPTED),
        (Reason.GANG_NOT_WHOLE, PlacementEnd.WITHDRAWN),
    ],
)
def test_a_wait_that_came_to_nothing_is_no_failed_start(reason: Reason, end: PlacementEnd) -> None:
    story = Story().accepted().placed().prepared()
    story.do(failed(story, reason=reason, end=end))
    run = story.run
    assert (run.state, run.user_failures, run.infrastructure_losses) == (RunState.QUEUED, 0, 0)


def test_beside_a_gang_that_has_its_grant_an_attempt_counts_for_nothing() -> None:
    story = Story().accepted().placed().prepared().at_gate()
    story.placed("beta", Purpose.HEDGE).prepared("beta").granted().do(failed(story, "beta"))
    run = story.run
    assert (run.state, run.user_failures) == (RunState.STARTING, 0)
    assert story.placement("beta").word == NO_PYTHON


def test_the_word_for_the_end_of_a_start_is_kept_with_its_placement() -> None:
    story = Story().accepted().placed().prepared().granted()
    close = CloseEpoch(
        epoch=story.epoch.id,
        rule=CloseRule.NEVER_STARTED,
        ends=(),
        found=(),
        cause=Reason.COMMAND_FAILED,
        message="alpha: no python3",
        word=NO_PYTHON,
    )
    story.do(close)
    assert story.run.why.reason is Reason.FAILED_BEFORE_CHECKPOINT
    story.gone()
    assert story.placement("alpha").word == NO_PYTHON
