"""Limits end things, and what cannot be kept is said once, before the money is spent."""

from dataclasses import replace
from decimal import Decimal

import pytest

from broker.history.commands import ExplainWait, FailRun, RunCommand, WarnRun
from broker.model.intent import AfterMaxWait
from broker.model.reasons import Reason
from broker.model.states import RunState
from broker.policy.judge import next_look_s
from tests.builders import START_WALL_S, make_terms
from tests.unit.placement.pictures import make_flavor
from tests.unit.policy.scene import Scene


def fails(commands: tuple[RunCommand, ...]) -> list[Reason]:
    return [one.reason for one in commands if isinstance(one, FailRun)]


def warns(commands: tuple[RunCommand, ...]) -> list[Reason]:
    return [one.reason for one in commands if isinstance(one, WarnRun)]


def test_max_wait_ends_a_run_that_is_to_fail_then() -> None:
    scene = Scene(make_terms(max_wait_s=600.0, after_max_wait=AfterMaxWait.FAIL))
    assert fails(scene.told_after(599.0)) == []
    scene.story.wait(1.0)
    assert fails(scene.obeys()) == [Reason.MAX_WAIT_PASSED]
    assert scene.run.state is RunState.FAILED


@pytest.mark.parametrize("after", [AfterMaxWait.KEEP_WAITING, AfterMaxWait.LAST_RUNG])
def test_a_passed_max_wait_is_said_once_by_a_run_that_goes_on(after: AfterMaxWait) -> None:
    scene = Scene(make_terms(max_wait_s=600.0, after_max_wait=after))
    scene.story.wait(600.0)
    assert warns(scene.obeys()) == [Reason.MAX_WAIT_PASSED]
    assert scene.told_after(1000.0) == ()


def test_only_a_whole_picture_says_that_a_run_fits_nowhere() -> None:
    scene = Scene()
    scene.story.do(
        ExplainWait(
            reason=Reason.NEVER_FITS,
            message="no place can ever take it",
            next_action="it fails",
            next_at_s=600.0,
        )
    )
    scene.falls_silent("gamma")
    assert fails(scene.told_after(600.0)) == []
    scene.sees(make_flavor("gamma", flavor="spot", region="gamma", accelerator="h100"))
    assert fails(scene.told()) == [Reason.NEVER_FITS]


def test_a_gang_that_is_whole_is_not_ended_in_the_last_moment() -> None:
    scene = Scene(make_terms(max_wait_s=600.0, after_max_wait=AfterMaxWait.FAIL))
    scene.story.placed().prepared().at_gate()
    assert fails(scene.told_after(600.0)) == []


def test_a_start_ends_the_first_wait_and_a_requeue_has_a_bound_of_its_own() -> None:
    terms = make_terms(max_wait_s=600.0, max_requeue_wait_s=100.0, after_max_wait=AfterMaxWait.FAIL)
    scene = Scene(terms)
    scene.story.training()
    assert fails(scene.told_after(10_000.0)) == []
    scene.story.saved(1).preempted()
    assert fails(scene.told_after(99.0)) == []
    assert fails(scene.told_after(1.0)) == [Reason.MAX_WAIT_PASSED]


def test_the_deadline_is_kept_by_the_wall_clock_and_leaves_time_to_save() -> None:
    scene = Scene(make_terms(deadline_wall_s=START_WALL_S + 500.0))
    scene.story.training()
    assert scene.told_after(499.0) == ()
    (fail,) = scene.told_after(1.0)
    assert isinstance(fail, FailRun)
    assert (fail.reason, fail.grace_s) == (Reason.DEADLINE_PASSED, 60.0)


def test_a_deadline_that_cannot_be_kept_is_said_once() -> None:
    terms = make_terms(deadline_wall_s=START_WALL_S + 500.0, expected_duration_s=600.0)
    scene = Scene(terms)
    scene.story.training()
    assert warns(scene.obeys()) == [Reason.DEADLINE_TOO_NEAR]
    assert scene.told_after(1.0) == ()


def test_a_run_that_trains_longer_than_expected_is_said_once() -> None:
    scene = Scene(make_terms(expected_duration_s=600.0))
    scene.story.training()
    assert warns(scene.told_after(400.0)) == []
    scene.story.preempted()
    assert warns(scene.told_after(400.0)) == []  # it waits, which is no training
    scene.story.training()
    scene.story.wait(200.0)
    assert warns(scene.obeys()) == [Reason.EXPECTED_DURATION_PASSED]
    assert scene.told_after(10.0) == ()


def test_the_budget_ends_a_run_with_the_cost_of_saving_counted() -> None:
    # Two GPUs at 2.50: five dollars an hour; 60 s to save cost a twelfth of a dollar.
    scene = Scene(make_terms(budget=Decimal(10)))
    scene.story.training()
    assert fails(scene.told_after(7139.0)) == []
    (fail,) = scene.told_after(1.0)
    assert isinstance(fail, FailRun)
    assert (fail.reason, fail.grace_s) == (Reason.BUDGET_SPENT, 60.0)


def test_a_budget_that_is_nearly_spent_is_said_once() -> None:
    scene = Scene(make_terms(budget=Decimal(10)))
    scene.story.training().wait(6479.0)
    assert warns(scene.told()) == []
    scene.story.wait(1.0)
    assert warns(scene.obeys()) == [Reason.BUDGET_TOO_SMALL]
    assert scene.told_after(1.0) == ()


def test_limits_are_looked_at_when_they_are_reached() -> None:
    scene = Scene(make_terms(max_wait_s=600.0, deadline_wall_s=START_WALL_S + 500.0))
    scene.view.apply_run(scene.run)
    assert next_look_s(scene.view, scene.run, None, scene.story.now) == 500.0


def test_a_forward_step_of_the_wall_clock_expires_no_wait() -> None:
    scene = Scene(make_terms(max_wait_s=600.0, after_max_wait=AfterMaxWait.FAIL))
    scene.story.now = replace(scene.story.now, wall_s=scene.story.now.wall_s + 1e6)
    assert fails(scene.told()) == []
