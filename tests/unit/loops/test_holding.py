"""What was forked from is kept as long as the fork would have to begin there again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.history.commands import CancelRun, MarkCheckpoint, RecordPruned
from broker.history.refusals import Refused
from broker.loops.carrying import to_prune
from broker.loops.holding import held
from broker.model.checkpoint import HOLD_COMES_S
from broker.model.moment import Moment
from broker.model.run import Run
from tests.builders import Story, make_checkpoint

FORK = "teams/vision/runs/fork"
NOW = Moment(elapsed_s=2 * HOLD_COMES_S, wall_s=0.0)


def parent() -> Run:
    """A run whose first step a fork begins with, and which has saved enough since."""
    story = Story().accepted().training().saved(100)
    story.do(MarkCheckpoint(step=100, hold_for=FORK))
    for step in (200, 300, 400, 500):
        story.saved(step)
    return story.run


def fork(run: Run) -> Story:
    """A run that begins with the parent's step 100."""
    seed = next(c for c in run.checkpoints if c.ref.step == 100)
    ref = replace(seed.ref, run_uid=run.uid)
    story = Story(name="fork")
    story._serial = 50  # two runs never draw one nonce
    story.submit = replace(
        story.submit,
        forked_from=run.name,
        fork_checkpoint=replace(make_checkpoint(), ref=ref, is_sealed=True),
    )
    return story.accepted()


def kept(run: Run, child: Run | None, now: Moment = NOW) -> list[int]:
    return [ref.step for ref in held(run, lambda name: child if name == FORK else None, now)]


def test_it_is_kept_until_the_fork_has_saved_by_itself() -> None:
    run = parent()
    story = fork(run)
    assert kept(run, story.run) == [100]
    story.training()
    assert kept(run, story.run) == [100]
    story.saved(50).preempted()
    assert kept(run, story.run) == []


def test_a_fork_that_was_cancelled_may_be_resumed_and_one_that_succeeded_needs_nothing() -> None:
    run = parent()
    cancelled = fork(run).do(CancelRun(grace_s=0.0, message="no"))
    assert kept(run, cancelled.run) == [100]
    assert kept(run, fork(run).training().closed(0, 0).run) == []


@pytest.mark.parametrize(("later_s", "steps"), [(HOLD_COMES_S - 1.0, [100]), (HOLD_COMES_S, [])])
def test_a_fork_that_never_came_holds_nothing_for_long(later_s: float, steps: list[int]) -> None:
    run = parent()
    since_s = run.checkpoints[0].holds[0].since_s
    assert kept(run, None, Moment(elapsed_s=since_s + later_s, wall_s=0.0)) == steps


def test_another_run_of_the_same_name_holds_nothing() -> None:
    assert kept(parent(), Story().accepted().run) == []


def test_retention_passes_over_what_is_held() -> None:
    run = parent()
    ref = next(c.ref for c in run.checkpoints if c.ref.step == 100)
    assert [one.step for one in to_prune(run, frozenset(), frozenset())] == [100, 200]
    assert [one.step for one in to_prune(run, frozenset(), frozenset({ref}))] == [200]


def test_a_hold_is_said_once() -> None:
    story = Story().accepted().training().saved(100)
    hold = MarkCheckpoint(step=100, hold_for=FORK)
    assert len(story.tell(hold)) == 1
    assert story.tell(hold) == ()
    assert len(story.tell(replace(hold, hold_for=f"{FORK}-2"))) == 1


def test_what_a_fork_is_just_about_to_begin_with_is_not_pruned_beside_it() -> None:
    story = Story().accepted().training().saved(100).saved(200)
    ref = story.run.checkpoints[0].ref
    story.do(MarkCheckpoint(step=100, hold_for=FORK))
    with pytest.raises(Refused, match="a fork is to begin with it"):
        story.tell(RecordPruned(ref=ref))
    assert len(story.wait(HOLD_COMES_S).tell(RecordPruned(ref=ref))) == 1
