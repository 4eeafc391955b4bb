"""Checkpoints: complete, copied, lost, marked, pruned."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from broker.history.commands import (
    BeginRetirement,
    CancelRun,
    FailRun,
    MarkCheckpoint,
    RecordCopy,
    RecordLostCopy,
    RecordPruned,
    RefuseCheckpoint,
    ResumeRun,
)
from broker.history.events import (
    CheckpointLost,
    CheckpointMarked,
    RetirementBegun,
    StopOrdered,
    Warned,
)
from broker.history.lineage import lost, resumable
from broker.history.refusals import Refused
from broker.model.checkpoint import HOLD_COMES_S
from broker.model.reasons import Reason
from tests.builders import Story, make_checkpoint


def test_a_checkpoint_of_the_open_epoch_is_written_down_once() -> None:
    story = Story().accepted().training()
    found = story.found(100)
    assert len(story.tell(found)) == 1
    assert story.tell(found) == ()
    # The same step with other bytes is not believed over the first.
    assert story.tell(replace(found, ref=replace(found.ref, digest="f" * 64))) == ()


def test_a_checkpoint_of_a_closed_epoch_comes_too_late() -> None:
    story = Story().accepted().training().saved(100)
    late = story.found(200)
    assert story.preempted().tell(late) == ()
    assert story.training().tell(late) == ()


def test_a_gang_that_has_not_started_writes_nothing() -> None:
    story = Story().accepted().placed().prepared().granted()
    assert story.tell(story.found(100)) == ()


def test_an_epoch_writes_in_its_own_region() -> None:
    story = Story().accepted().training()
    with pytest.raises(Refused):
        story.tell(replace(story.found(100), region="beta"))


def test_copies_come_and_go() -> None:
    story = Story().accepted().training().saved(100)
    ref = story.run.checkpoints[0].ref
    copy = RecordCopy(ref=ref, region="beta")
    lost = RecordLostCopy(ref=ref, region="beta", message="damaged")
    assert len(story.tell(copy)) == 1
    assert story.tell(copy) == ()
    assert story.run.checkpoints[0].regions == {"alpha", "beta"}
    assert len(story.tell(lost)) == 1
    assert story.tell(lost) == ()
    stranger = make_checkpoint().ref
    assert story.tell(RecordCopy(ref=stranger, region="beta")) == ()


def test_what_copies_cost_is_added_up_by_where_they_went() -> None:
    story = Story().accepted().training().saved(100).saved(200)
    first, second = (one.ref for one in story.run.checkpoints)
    for ref, region, usd in ((first, "beta", "0.10"), (second, "beta", "0.25"), (second, "c", "1")):
        copy = RecordCopy(ref=ref, region=region, source="alpha", sent_bytes=7, usd=Decimal(usd))
        story.do(copy)
        assert story.tell(copy) == ()
    # What somebody else copied there is only found, and costs the run nothing.
    story.do(RecordCopy(ref=first, region="c"))
    story.do(RecordPruned(ref=first))
    assert {one.region: (one.copies, one.sent_bytes, one.usd) for one in story.run.copy_spends} == {
        "beta": (2, 14, Decimal("0.35")),
        "c": (1, 7, Decimal(1)),
    }
    assert story.run.copies_usd == Decimal("1.35")


def test_a_step_that_was_trained_twice_is_marked_in_both() -> None:
    story = Story().accepted().training().saved(100).saved(200).preempted()
    story.do(ResumeRun(step=100, from_start=False)).training().saved(200).preempted()
    marked = story.tell(MarkCheckpoint(step=200, is_bad=True))
    assert [type(event) for event in marked] == [CheckpointMarked, CheckpointMarked]
    assert story.tell(MarkCheckpoint(step=200, is_bad=True)) == ()


def test_a_gang_that_read_a_bad_step_is_stopped() -> None:
    story = Story().accepted().training().saved(100).preempted().training()
    *_, stop = story.tell(MarkCheckpoint(step=100, is_bad=True))
    assert stop == StopOrdered(
        epoch=story.epoch.id, reason=Reason.STEP_MARKED_BAD, message="Step 100 was marked bad"
    )


def test_a_gang_whose_ancestor_read_a_bad_step_is_stopped_too() -> None:
    story = Story().accepted().training().saved(100).preempted().training().saved(200)
    story.preempted().training().do(MarkCheckpoint(step=100, is_bad=True))
    assert story.epoch.stop is not None


def test_a_step_of_its_own_that_is_marked_bad_stops_no_gang() -> None:
    story = Story().accepted().training().saved(100)
    assert len(story.tell(MarkCheckpoint(step=100, is_bad=True))) == 1


def test_the_wish_for_a_step_falls_with_it() -> None:
    story = Story().accepted().training().saved(100).saved(200).preempted()
    story.do(ResumeRun(step=100, from_start=False), MarkCheckpoint(step=100, is_bad=True))
    assert story.run.resume_wish is None


def test_pins_and_names_are_kept_and_taken_off() -> None:
    story = Story().accepted().training().saved(100)
    story.do(MarkCheckpoint(step=100, is_pinned=True, label="best"))
    checkpoint = story.run.checkpoints[0]
    assert (checkpoint.is_pinned, checkpoint.label, checkpoint.is_bad) == (True, "best", False)
    story.do(MarkCheckpoint(step=100, is_pinned=False, label=""))
    assert not story.run.checkpoints[0].is_pinned
    for wrong in (
        MarkCheckpoint(step=999, is_bad=True),
        MarkCheckpoint(step=100, label="x" * 101),
    ):
        with pytest.raises(Refused):
            story.tell(wrong)


def prune_refused(story: Story, step: int) -> bool:
    ref = next(c.ref for c in story.run.checkpoints if c.ref.step == step)
    try:
        story.tell(RecordPruned(ref=ref))
    except Refused:
        return True
    return False


def test_retention_takes_what_nobody_needs_and_nothing_else() -> None:
    story = Story().accepted().training().saved(100).saved(200).saved(300).preempted()
    story.do(MarkCheckpoint(step=100, is_pinned=True)).training().saved(400)
    refused = {step: prune_refused(story, step) for step in (100, 200, 300, 400)}
    # 100 is pinned, the open epoch reads 300 and has just written 400.
    assert refused == {100: True, 200: False, 300: True, 400: True}
    assert [c.ref.step for c in story.run.checkpoints] == [100, 300, 400]


def test_the_only_one_to_resume_from_is_never_removed() -> None:
    story = Story().accepted().training().saved(100).preempted()
    assert prune_refused(story, 100)


def test_a_step_that_was_let_go_is_never_complete_again() -> None:
    # A look that began before the step was let go still shows it, whole or half removed.
    story = Story().accepted().training().saved(100).saved(200)
    first = story.found(100)
    story.do(RecordPruned(ref=first.ref))
    assert story.tell(first) == ()
    half = RefuseCheckpoint(epoch=story.epoch.id, step=100, why="weights is not there")
    assert story.tell(half) == ()


def test_nor_does_the_seal_count_it() -> None:
    story = Story().accepted().training().saved(100).saved(200)
    first = story.found(100)
    half = RefuseCheckpoint(epoch=story.epoch.id, step=100, why="weights is not there")
    story.do(RecordPruned(ref=first.ref)).closed(found=(first,), refused=(half,))
    assert [c.ref.step for c in story.run.checkpoints] == [200]
    assert story.run.refused == ()


@pytest.mark.parametrize("step", [100, None], ids=["to a step", "to the start"])
def test_who_goes_back_loses_nothing_before_the_new_start_has_saved(step: int | None) -> None:
    # What it is to begin with may turn out to be gone, and the word may be taken back.
    story = Story().accepted().training().saved(100).saved(200).saved(300).preempted()
    story.do(ResumeRun(step=step, from_start=step is None))
    assert all(prune_refused(story, one) for one in (100, 200, 300))
    story.training()
    assert all(prune_refused(story, one) for one in (100, 200, 300))
    story.saved(150)
    kept = {one: prune_refused(story, one) for one in (100, 200, 300, 150)}
    assert kept == {100: step == 100, 200: False, 300: False, 150: True}


def test_a_start_that_saved_nothing_leaves_all_as_it_was() -> None:
    story = Story().accepted().training().saved(100).saved(200).saved(300).preempted()
    assert not prune_refused(story, 100)
    story.training()
    assert prune_refused(story, 200)
    # What it saved and lost again is nothing.
    story.saved(400).do(RecordLostCopy(ref=story.found(400).ref, region="alpha", message="gone"))
    assert prune_refused(story, 200)
    assert not prune_refused(story.saved(500), 200)


def test_what_was_lost_and_is_looked_for_again_lets_nothing_go() -> None:
    story = Story().accepted().training().saved(100).saved(200).preempted()
    newest = story.run.checkpoints[-1].ref
    story.do(
        RecordLostCopy(ref=newest, region="alpha", message="gone"),
        FailRun(reason=Reason.MAX_WAIT_PASSED, message="waited"),
        ResumeRun(step=None, from_start=False),
    )
    assert resumable(story.run)[0].ref == newest
    assert prune_refused(story, 100)


def test_the_last_copy_lost_of_what_was_to_be_read_is_said_with_what_follows() -> None:
    story = Story().accepted().training().saved(100).saved(200).preempted()
    first, second = (c.ref for c in story.run.checkpoints)
    (gone, warned) = story.tell(RecordLostCopy(ref=second, region="alpha", message="gone"))
    assert gone == CheckpointLost(ref=second, region="alpha", message="gone")
    assert warned == Warned(
        reason=Reason.CHECKPOINT_LOST,
        message="no copy of step 200 is left in any store; the next start goes back to step 100",
    )
    assert [c.ref for c in resumable(story.run)] == [first]
    assert lost(story.run) == ()


def test_what_is_lost_is_no_longer_so_once_it_is_found_again() -> None:
    story = Story().accepted().training().saved(100).preempted()
    ref = story.run.checkpoints[0].ref
    story.do(RecordLostCopy(ref=ref, region="alpha", message="gone"))
    assert [c.ref for c in lost(story.run)] == [ref]
    failing = FailRun(reason=Reason.CHECKPOINT_LOST, message="gone")
    story.do(RecordCopy(ref=ref, region="beta"))
    # The end was judged before the copy was heard of.
    assert (lost(story.run), story.tell(failing)) == ((), ())


def test_a_run_retires_when_nobody_needs_what_it_saved_and_then_nobody_may() -> None:
    story = Story().accepted().training().saved(100)
    with pytest.raises(Refused):
        story.tell(BeginRetirement())
    story.preempted().do(CancelRun(grace_s=0.0, message="enough"))
    story.do(MarkCheckpoint(step=100, hold_for="teams/vision/runs/fork"))
    with pytest.raises(Refused):
        story.tell(BeginRetirement())
    story.wait(HOLD_COMES_S)
    assert story.tell(BeginRetirement()) == (RetirementBegun(),)
    assert story.tell(BeginRetirement()) == ()
    for late in (
        ResumeRun(step=None, from_start=False),
        ResumeRun(step=None, from_start=True),
        MarkCheckpoint(step=100, is_pinned=True),
    ):
        with pytest.raises(Refused) as refused:
            story.tell(late)
        assert refused.value.reason is Reason.RETENTION_PASSED
