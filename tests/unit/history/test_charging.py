"""Attempts that fail at their gate, and what they count for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.history.commands import CloseEpoch, EndPlacement, StopEpoch, WithdrawPlacement
from broker.model.capacity_seen import ClusterWord
from broker.model.intent import Limits
from broker.model.reasons import FailureClass, Reason
from broker.model.run import CloseRule, Purpose
from broker.model.states import PlacementEnd, PlacementState, RunState
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
        word=NO_PYTHON if reason is Reason.COMMAND_FAILED else None,
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


SECRET = replace(NO_PYTHON, word="SECRET_MISSING", advice="Have it created.", raw="no such secret")
REFUSED = Reason.REFUSED_BY_CLUSTER


def limited(restarts: int) -> Story:
    limits = Limits(user_restarts=restarts, infrastructure_losses=0)
    return Story(make_intent(terms=make_terms(limits=limits))).accepted()


def stands(
    story: Story, region: str = "alpha", word: ClusterWord | None = SECRET, reason: Reason = REFUSED
) -> Story:
    """Let a placement's cluster say what keeps it from its start."""
    return story.reported(region, PlacementState.PROVISIONING, reason, word=word)


def is_given_back(story: Story, region: str = "alpha", reason: Reason = REFUSED) -> Story:
    """Take a region's placement back, or its grant first, and let it be seen gone."""
    placement, message = story.placement(region), f"{region}: a secret is not there"
    epoch = story.run.open_epoch
    if epoch is not None and epoch.placement == placement.id:
        story.do(StopEpoch(reason=reason, message=message))
        close = CloseEpoch(
            epoch=epoch.id, rule=CloseRule.NEVER_STARTED, ends=(), found=(), cause=None, message=""
        )
        story.do(close)
    else:
        story.do(WithdrawPlacement(placement=placement.id, reason=reason, message=message))
    end = EndPlacement(
        placement=placement.id, end=PlacementEnd.WITHDRAWN, reason=reason, message=message
    )
    return story.do(end)


@pytest.mark.parametrize("is_granted", [False, True])
def test_what_only_the_user_can_mend_before_the_start_is_tried_as_often_as_it_may_fail(
    is_granted: bool,
) -> None:
    story = limited(2)
    for count in (1, 2):
        story.placed().prepared()
        if is_granted:
            story.granted()
        is_given_back(stands(story))
        assert (story.run.state, story.run.user_failures) == (RunState.QUEUED, count)
    is_given_back(stands(story.placed().prepared()))
    run = story.run
    assert (run.state, run.why.reason) == (RunState.FAILED, Reason.USER_RESTARTS_SPENT)
    said = "alpha: a secret is not there; 2 restarts are spent. Have it created."
    assert (run.why.message, run.infrastructure_losses) == (said, 0)
    last = story.placement("alpha")
    assert (last.word, last.failure) == (SECRET, FailureClass.USER)


@pytest.mark.parametrize(
    "fault", [None, *(one for one in FailureClass if one is not FailureClass.USER)]
)
def test_what_is_not_the_users_fault_before_the_start_counts_for_nothing(
    fault: FailureClass | None,
) -> None:
    word = None if fault is None else replace(SECRET, failure=fault)
    story = is_given_back(stands(limited(0).placed().prepared(), word=word))
    assert (story.run.state, story.run.user_failures) == (RunState.QUEUED, 0)


def test_the_last_word_before_a_placement_is_told_to_go_is_the_one_that_counts() -> None:
    mended = stands(limited(0).placed().prepared())
    stands(mended, word=None, reason=Reason.PODS_STARTING)
    is_given_back(mended, reason=Reason.GANG_NOT_WHOLE)
    assert (mended.run.state, mended.run.user_failures) == (RunState.QUEUED, 0)
    going = stands(limited(1).placed().prepared())
    leg = going.placement("alpha")
    going.do(WithdrawPlacement(placement=leg.id, reason=REFUSED, message="alpha: no secret"))
    stands(going, word=None, reason=Reason.UNKNOWN)
    assert going.placement("alpha").word == SECRET
    is_given_back(going)
    assert going.run.user_failures == 1
    sound = limited(1).placed().prepared()
    leg = sound.placement("alpha")
    sound.do(WithdrawPlacement(placement=leg.id, reason=Reason.STOCKOUT, message="none came"))
    is_given_back(stands(sound), reason=Reason.STOCKOUT)
    assert sound.run.user_failures == 0


def test_who_leaves_as_planned_has_not_failed_whatever_kept_it() -> None:
    story = stands(limited(0).placed().prepared())
    is_given_back(story, reason=Reason.TERMS_CHANGED)
    assert (story.run.state, story.run.user_failures) == (RunState.QUEUED, 0)


def test_a_leg_that_nothing_is_amiss_with_decides_before_the_run_ends() -> None:
    story = stands(limited(0).placed().prepared())
    story.placed("beta", Purpose.HEDGE).prepared("beta")
    is_given_back(story)
    assert (story.run.state, story.run.user_failures) == (RunState.QUEUED, 1)
    stands(story.placed("gamma", Purpose.HEDGE).prepared("gamma"), "gamma")
    is_given_back(stands(story, "beta"), "beta")
    assert story.run.why.reason is Reason.USER_RESTARTS_SPENT
    left = story.placement("gamma").withdraw
    assert left is not None
    assert left.reason is Reason.RUN_ENDED


def test_beside_a_gang_that_trains_it_counts_for_nothing() -> None:
    story = stands(limited(0).placed().prepared())
    story.placed("beta", Purpose.HEDGE).prepared("beta").granted("beta").started().running()
    is_given_back(story, reason=Reason.OTHER_LEG_STARTED)
    assert (story.run.state, story.run.user_failures) == (RunState.RUNNING, 0)


@pytest.mark.parametrize("is_granted", [False, True])
def test_who_was_put_out_by_its_users_fault_is_charged_for_that_alone(is_granted: bool) -> None:
    late = replace(SECRET, word="NOT_READY_IN_TIME")
    story = limited(1).placed().prepared()
    message, reason = "alpha: it was put out: no such image", Reason.EVICTED
    if is_granted:
        close = CloseEpoch(
            epoch=story.granted().epoch.id,
            rule=CloseRule.NEVER_STARTED,
            ends=(),
            found=(),
            cause=reason,
            message=message,
            word=late,
        )
        story.do(close)
    end = EndPlacement(
        placement=story.placement("alpha").id,
        end=PlacementEnd.PREEMPTED,
        reason=reason,
        message=message,
        word=None if is_granted else late,
    )
    story.do(end)
    run = story.run
    assert (run.state, run.user_failures, run.infrastructure_losses) == (RunState.QUEUED, 1, 0)
    assert story.placement("alpha").word == late
