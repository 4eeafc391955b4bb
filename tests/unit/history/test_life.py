"""Submit, amend, cancel, fail, resume, explain."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from broker.history.commands import (
    AcceptRun,
    AmendTerms,
    CancelRun,
    ClimbLadder,
    ExplainWait,
    FailRun,
    GrantPlacement,
    MarkCheckpoint,
    RecordPruned,
    RejectRun,
    ResumeRun,
    RunCommand,
    WarnRun,
)
from broker.history.decide import decide
from broker.history.events import (
    DrainRequested,
    EndDecided,
    Ended,
    Resumed,
    StopOrdered,
    TermsAmended,
    WithdrawalOrdered,
)
from broker.history.refusals import Code, Refused
from broker.model.intent import CapacityType
from broker.model.reasons import Reason
from broker.model.run import CloseRule, Purpose, ResumeWish
from broker.model.states import RunState
from tests.builders import Story, make_checkpoint, make_context, make_intent, make_terms

CANCEL = CancelRun(grace_s=30.0, message="enough")
NEWEST = ResumeRun(step=None, from_start=False)


def refusal(story: Story, command: RunCommand) -> tuple[Reason, Code]:
    with pytest.raises(Refused) as caught:
        story.tell(command)
    return caught.value.reason, caught.value.code


def kinds(events: tuple[object, ...]) -> list[type[object]]:
    return [type(event) for event in events]


def test_a_submit_is_validated_then_waits() -> None:
    story = Story().do(Story().submit)
    assert story.run.state is RunState.VALIDATING
    assert story.wait(3).do(AcceptRun()).run.state is RunState.QUEUED
    # The user waits from the submit on.
    assert story.run.wait_began_s == 0.0


def test_the_same_submit_again_gives_the_same_run() -> None:
    story = Story().accepted()
    assert story.tell(story.submit) == ()


def test_another_body_under_the_same_request_id_is_refused() -> None:
    story = Story().accepted()
    reused = replace(story.submit, body_digest="c" * 64)
    assert refusal(story, reused) == (Reason.REQUEST_ID_REUSED, Code.ALREADY_EXISTS)
    other = replace(story.submit, request_id="request-2")
    assert refusal(story, other) == (Reason.ALREADY_EXISTS, Code.ALREADY_EXISTS)


def test_a_command_to_no_run_is_not_found() -> None:
    with pytest.raises(Refused) as caught:
        decide(None, AcceptRun(), make_context())
    assert caught.value.code is Code.NOT_FOUND


def test_a_rejected_run_is_over() -> None:
    story = Story()
    reject = RejectRun(reason=Reason.BUNDLE_MISSING, message="no bundle", field="intent")
    story.do(story.submit, reject)
    assert (story.run.state, story.run.why.reason) == (RunState.REJECTED, Reason.BUNDLE_MISSING)
    assert story.tell(reject) == ()
    assert refusal(story, NEWEST)[0] is Reason.ILLEGAL_IN_STATE


def test_a_forks_first_start_resumes_from_its_parents_checkpoint() -> None:
    parent = make_checkpoint(900)
    seed = replace(parent, ref=replace(parent.ref, run_uid="p" * 20), is_sealed=False)
    story = Story()
    story.submit = replace(
        story.submit, forked_from="teams/vision/runs/parent", fork_checkpoint=seed
    )
    story.accepted().placed().prepared().granted()
    assert story.epoch.resume_from == seed.ref
    # Its own code has proved nothing yet: the seed is no anchor.
    story.started().closed(1, 1)
    assert story.run.why.reason is Reason.FAILED_BEFORE_CHECKPOINT


# Amending.


def test_an_amendment_needs_the_present_etag() -> None:
    story = Story().accepted()
    terms = make_terms(max_wait_s=60.0)
    assert refusal(story, AmendTerms(terms=terms, expected_generation=2)) == (
        Reason.ETAG_MISMATCH,
        Code.ABORTED,
    )
    amend = AmendTerms(terms=terms, expected_generation=1)
    assert story.tell(amend) == (TermsAmended(terms=terms, generation=2),)
    assert story.tell(amend) == ()
    assert (story.run.terms, story.run.terms_generation) == (terms, 2)


def test_an_amendment_takes_legs_and_gang_out_of_what_it_excludes() -> None:
    story = Story().accepted().placed("alpha").prepared().granted()
    story.placed("beta", Purpose.HEDGE).placed(
        "gamma", Purpose.HEDGE, capacity_type=CapacityType.ON_DEMAND
    )
    terms = make_terms(regions=("alpha", "gamma"), capacity_types=(CapacityType.ON_DEMAND,))
    _, withdrawal, stop = story.tell(AmendTerms(terms=terms, expected_generation=1))
    assert withdrawal == WithdrawalOrdered(
        placement=story.placement("beta").id,
        reason=Reason.TERMS_CHANGED,
        message="beta SPOT is no longer accepted",
    )
    assert stop == StopOrdered(
        epoch=story.epoch.id,
        reason=Reason.TERMS_CHANGED,
        message="alpha SPOT is no longer accepted",
    )


def test_a_new_max_wait_is_climbed_anew() -> None:
    story = Story(make_intent(terms=make_terms(max_wait_s=60.0))).accepted()
    story.do(ClimbLadder(message="wait runs out"))
    assert story.run.climbed
    assert story.tell(ClimbLadder(message="again")) == ()
    story.do(AmendTerms(terms=make_terms(max_wait_s=600.0), expected_generation=1))
    assert not story.run.climbed


# Ending.


def test_a_waiting_run_is_cancelled_at_once_with_its_legs() -> None:
    story = Story().accepted().placed("alpha").placed("beta", Purpose.HEDGE)
    assert kinds(story.tell(CANCEL)) == [WithdrawalOrdered, WithdrawalOrdered, Ended]
    assert story.tell(CANCEL) == ()
    # They are withdrawn until they are seen gone.
    assert len(story.run.live_placements) == 2
    story.gone("alpha").gone("beta")
    assert not story.run.live_placements


def test_a_training_run_is_cancelled_by_a_drain_with_the_grace() -> None:
    story = Story().accepted().training().wait(10)
    decided, drain = story.tell(CANCEL)
    assert decided == EndDecided(
        state=RunState.CANCELLED,
        reason=Reason.CANCELLED_BY_USER,
        message="enough",
        grace_s=30.0,
    )
    assert drain == DrainRequested(
        epoch=story.epoch.id, reason=Reason.CANCELLED_BY_USER, message="enough", deadline_s=40.0
    )
    assert story.tell(CANCEL) == ()


def test_a_second_cancel_can_only_shorten_the_grace() -> None:
    story = Story().accepted().training().do(CANCEL)
    assert kinds(story.tell(replace(CANCEL, grace_s=0.0))) == [EndDecided, StopOrdered]
    assert story.tell(replace(CANCEL, grace_s=60.0)) == ()


def test_an_early_grant_is_revoked_when_its_run_is_cancelled() -> None:
    story = Story().accepted().placed().prepared().granted()
    assert kinds(story.tell(CANCEL)) == [EndDecided, StopOrdered]
    story.closed(rule=CloseRule.NEVER_STARTED)
    assert story.run.state is RunState.CANCELLED


def test_the_end_that_was_decided_first_stays() -> None:
    story = Story().accepted().training()
    story.do(FailRun(reason=Reason.DEADLINE_PASSED, message="too late", grace_s=60.0), CANCEL)
    assert story.run.ending is not None
    assert (story.run.ending.state, story.run.ending.grace_s) == (RunState.FAILED, 30.0)


def test_a_run_that_is_over_is_not_cancelled() -> None:
    story = Story().accepted().training().closed(0, 0)
    assert refusal(story, CANCEL)[0] is Reason.ILLEGAL_IN_STATE
    assert story.tell(FailRun(reason=Reason.BUDGET_SPENT, message="late")) == ()


# Resuming.


def test_an_ended_run_is_resumed_with_its_failures_forgiven() -> None:
    story = Story().accepted().training().saved(100)
    for _ in range(4):
        story.closed(1, 1)
        if not story.run.is_ended:
            story.training()
    assert story.run.why.reason is Reason.USER_RESTARTS_SPENT
    story.wait(60).do(NEWEST)
    run = story.run
    assert (run.state, run.user_failures, run.wait_began_s, run.ended) == (
        RunState.QUEUED,
        0,
        60.0,
        None,
    )
    story.training()
    assert story.epoch.resume_from is not None


def test_a_named_step_stops_the_gang_and_comes_first() -> None:
    story = Story().accepted().training().saved(100).saved(200).preempted().training()
    assert story.epoch.resume_from is not None
    assert story.epoch.resume_from.step == 200
    back = ResumeRun(step=100, from_start=False)
    assert kinds(story.tell(back)) == [Resumed, StopOrdered]
    assert story.tell(back) == ()
    story.closed(143, 143, rule=CloseRule.FENCE_HEARD).training()
    assert story.epoch.resume_from is not None
    assert story.epoch.resume_from.step == 100
    assert story.run.resume_wish is None
    # Told again after a lost answer, while the gang stands just there: nothing to go back from.
    assert story.tell(back) == ()
    assert kinds(story.trained(101).tell(back)) == [Resumed, StopOrdered]


def test_from_the_start_leaves_every_checkpoint_behind() -> None:
    story = Story().accepted().training().saved(100).preempted()
    story.do(ResumeRun(step=None, from_start=True))
    assert story.run.resume_wish == ResumeWish(step=None)
    assert story.training().epoch.resume_from is None


def test_a_wish_outlives_a_start_that_never_came_about() -> None:
    story = Story().accepted().training().saved(100).saved(200).preempted()
    story.do(ResumeRun(step=100, from_start=False)).placed("alpha").prepared().granted().stopped()
    story.closed(rule=CloseRule.NEVER_STARTED)
    assert story.run.resume_wish == ResumeWish(step=100)
    story.do(NEWEST)
    assert story.run.resume_wish is None


def test_a_run_goes_back_to_a_step_that_it_has_just_saved() -> None:
    story = Story().accepted().training().saved(100).saved(200)
    assert kinds(story.tell(ResumeRun(step=100, from_start=False))) == [Resumed, StopOrdered]
    # Its start is not sealed yet, and by then retention must not have taken the step.
    kept = next(c.ref for c in story.run.checkpoints if c.ref.step == 100)
    assert refusal(story, RecordPruned(ref=kept))[0] is Reason.ILLEGAL_IN_STATE
    story.closed(143, 143, rule=CloseRule.FENCE_HEARD).training()
    assert story.epoch.resume_from == kept


def test_a_step_that_does_not_count_is_refused() -> None:
    story = Story().accepted().training().saved(100).saved(200)
    story.do(MarkCheckpoint(step=200, is_bad=True, is_pinned=None, label=None))
    for step in (150, 200):
        assert refusal(story, ResumeRun(step=step, from_start=False))[0] is (
            Reason.CHECKPOINT_NOT_AVAILABLE
        )


def said_of(story: Story, command: RunCommand) -> str:
    with pytest.raises(Refused) as caught:
        story.tell(command)
    return caught.value.message


def test_a_step_that_does_not_count_is_answered_with_those_that_do() -> None:
    story = Story().accepted().training()
    back = ResumeRun(step=7, from_start=False)
    assert said_of(story, back).endswith("; no checkpoint of it counts yet; from the beginning it can begin anew")  # fmt: skip  # noqa: E501
    for step in range(100, 1300, 100):
        story.saved(step)
    assert said_of(story, back).endswith(
        "these can be named: 1200, 1100, 1000, 900, 800, 700, 600, 500, 400, 300 and 2 more"
    )
    assert said_of(story, NEWEST).startswith("the run has its place; name a step to go back: ")


def test_what_succeeded_goes_back_only_to_what_is_named() -> None:
    story = Story().accepted().training().saved(100).saved(200).closed(0, 0)
    assert story.run.state is RunState.SUCCEEDED
    assert refusal(story, NEWEST) == (Reason.ILLEGAL_IN_STATE, Code.FAILED_PRECONDITION)
    assert said_of(story, NEWEST).endswith("; these can be named: 200, 100")
    assert said_of(story, NEWEST).count("Fork it") == 1
    story.do(ResumeRun(step=100, from_start=False))
    assert story.run.resume_wish == ResumeWish(step=100)
    again = Story().accepted().training().saved(100).closed(0, 0)
    again.do(ResumeRun(step=None, from_start=True))
    assert again.run.state is RunState.QUEUED


def test_a_limit_that_would_end_it_again_is_said_before() -> None:
    story = Story(make_intent(terms=make_terms(budget=Decimal("0.01")))).accepted().training()
    story.wait(3600).do(FailRun(reason=Reason.BUDGET_SPENT, message="spent"))
    story.closed(143, 143, rule=CloseRule.FENCE_HEARD)
    assert refusal(story, NEWEST)[0] is Reason.BUDGET_SPENT
    story.do(AmendTerms(terms=make_terms(), expected_generation=1), NEWEST)
    assert story.run.state is RunState.QUEUED


def test_a_run_in_its_place_is_resumed_only_from_a_step() -> None:
    story = Story().accepted().training()
    assert refusal(story, NEWEST)[0] is Reason.ILLEGAL_IN_STATE


# Waiting.


def test_a_wait_keeps_its_beginning_while_its_reason_stays() -> None:
    story = Story().accepted()
    explain = ExplainWait(
        reason=Reason.WAITING_FOR_QUOTA,
        message="24 ahead",
        next_action="add a leg",
        next_at_s=100.0,
    )
    story.wait(10).do(explain)
    assert story.tell(replace(explain, next_at_s=100.5)) == ()
    story.wait(10).do(replace(explain, message="16 ahead"))
    assert (story.run.why.since_s, story.run.why.message) == (10.0, "16 ahead")


def test_a_wait_for_a_turn_keeps_its_beginning_whoever_goes_before() -> None:
    story = Story().accepted()
    turn = ExplainWait(
        reason=Reason.WAITING_FOR_TURN, message="2 before", next_action="look", next_at_s=100.0
    )
    large = replace(turn, reason=Reason.WOULD_DELAY_LARGER, message="a large gang waits")
    story.wait(10).do(turn).wait(10).do(large).wait(10).do(turn)
    assert story.run.why.since_s == 10.0
    story.do(replace(turn, reason=Reason.WAITING_FOR_QUOTA))
    assert story.run.why.since_s == 30.0


def test_a_wait_without_a_next_action_is_refused() -> None:
    silent = ExplainWait(
        reason=Reason.WAITING_FOR_QUOTA, message="waiting", next_action="", next_at_s=None
    )
    assert refusal(Story().accepted(), silent)[0] is Reason.INVALID_FIELD


def test_a_warning_is_said_once() -> None:
    story = Story().accepted()
    warn = WarnRun(reason=Reason.FENCE_OWED, message="epoch 1 in alpha")
    assert len(story.tell(warn)) == 1
    assert story.tell(warn) == ()


def test_a_deadline_that_passed_forbids_the_grant() -> None:
    deadline = Story().now.wall_s + 60
    story = Story(make_intent(terms=make_terms(deadline_wall_s=deadline))).accepted().placed()
    story.wait(60)
    grant = GrantPlacement(placement=story.placement("alpha").id, nonce="n" * 12)
    assert refusal(story, grant)[0] is Reason.DEADLINE_PASSED
