"""The laws over a run's history ring: a fault is planted into a sound life, and its law says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from broker.history.commands import EndPlacement, ResumeRun
from broker.history.events import (
    CheckpointCompleted,
    CheckpointPruned,
    Granted,
    Requeued,
    RunEvent,
    Sealed,
)
from broker.history.refusals import IllegalMoveError
from broker.model.capacity_seen import ClusterWord
from broker.model.intent import Limits
from broker.model.reasons import FailureClass, Reason
from broker.model.states import PlacementEnd, RunState
from tests.builders import Story, make_checkpoint, make_intent, make_terms
from tests.property import test_laws_history as laws
from tests.property.lives import Life, Step


def sound_life() -> Life:
    """Tell a life that starts, saves, is preempted, starts again and finishes."""
    story = Story().accepted().training().saved(100).preempted().training().closed(0, 0)
    return with_events(Life(story=story, steps=()), story.events)


def with_events(life: Life, events: list[RunEvent]) -> Life:
    """Return a life of these events, told as one step."""
    story = Story()
    last = life.story.recorded[-1]
    story.recorded = [
        replace(last, event=event, stream_version=n, position=n)
        for n, event in enumerate(events, start=1)
    ]
    story._run = life.run
    before = Story().accepted().placed().run
    step = Step(
        before=before,
        command=life.story.submit,
        events=tuple(events),
        after=life.run,
        now_s=0.0,
    )
    return Life(story=story, steps=(step,))


def first(life: Life, kind: type[RunEvent]) -> tuple[int, RunEvent]:
    return next((n, event) for n, event in enumerate(life.events) if isinstance(event, kind))


def holds(law: Callable[..., None], life: Life) -> bool:
    """Return whether a law's check, without Hypothesis around it, passes for one life."""
    try:
        law.hypothesis.inner_test(life)  # type: ignore[attr-defined]
    except (AssertionError, IllegalMoveError, KeyError):
        return False
    return True


def test_a_sound_life_breaks_no_law() -> None:
    life = sound_life()
    assert holds(laws.test_law_1_one_open_epoch, life)
    assert holds(laws.test_law_1_an_epoch_is_closed_only_by_a_rule_of_the_protocol, life)


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Granted, laws.test_law_1_one_open_epoch),
        (Sealed, laws.test_law_1_one_open_epoch),
        (Granted, laws.test_law_3_the_log_is_the_truth),
    ],
)
def test_a_repeated_event_breaks_its_law(kind: type[RunEvent], law: Callable[..., None]) -> None:
    life = sound_life()
    at, event = first(life, kind)
    doubled = [*life.events[: at + 1], event, *life.events[at + 1 :]]
    assert not holds(law, with_events(life, doubled))


def test_a_rank_that_nobody_heard_of_breaks_its_law() -> None:
    life = sound_life()
    at, sealed = first(life, Sealed)
    assert isinstance(sealed, Sealed)
    events = [*life.events]
    events[at] = replace(sealed, ends=sealed.ends[:1])
    law = laws.test_law_1_an_epoch_is_closed_only_by_a_rule_of_the_protocol
    assert not holds(law, with_events(life, events))


def test_a_resume_from_what_no_seal_counts_breaks_its_law() -> None:
    life = sound_life()
    events = [
        replace(e, resume_from=make_checkpoint().ref) if isinstance(e, Granted) else e
        for e in life.events
    ]
    law = laws.test_law_4_a_resume_starts_from_a_sealed_checkpoint_or_from_nothing
    assert not holds(law, with_events(life, events))


def test_a_restart_without_an_anchor_breaks_its_law() -> None:
    story = Story().accepted().training().preempted()
    life = Life(story=story, steps=())
    events = [
        replace(e, failure=FailureClass.USER) if isinstance(e, Requeued) else e
        for e in story.events
    ]
    assert not holds(laws.test_law_5_no_anchor_no_automatic_restart, with_events(life, events))


def test_a_place_that_is_tried_for_ever_breaks_its_law() -> None:
    word = ClusterWord(
        word="SECRET_MISSING",
        failure=FailureClass.USER,
        deed="",
        advice="",
        look_at="",
        raw="",
        is_unknown=False,
    )
    limits = Limits(user_restarts=0)
    story = Story(make_intent(terms=make_terms(limits=limits))).accepted().placed().prepared()
    before = story.run
    end = EndPlacement(
        placement=story.placement("alpha").id,
        end=PlacementEnd.FAILED,
        reason=Reason.REFUSED_BY_CLUSTER,
        message="alpha: no secret",
        word=word,
    )
    events = story.tell(end)
    law = laws.test_law_5_what_only_its_user_can_mend_ends_a_run_once_it_is_the_last_to_try
    step = Step(before=before, command=end, events=events, after=story.run, now_s=0.0)
    assert holds(law, Life(story=story, steps=(step,)))
    goes_on = replace(step, after=replace(story.run, state=RunState.QUEUED))
    assert not holds(law, Life(story=story, steps=(goes_on,)))


def test_what_is_complete_again_after_it_went_breaks_its_law() -> None:
    story = Story().accepted().training().saved(100).saved(200)
    first_saved = story.found(100).ref
    pruned, life = CheckpointPruned(ref=first_saved), Life(story=story, steps=())
    again = [e for e in story.events if isinstance(e, CheckpointCompleted)][:1]
    law = laws.test_law_4_what_was_let_go_is_never_complete_again
    assert holds(law, with_events(life, [*story.events, pruned]))
    assert not holds(law, with_events(life, [*story.events, pruned, *again]))


@pytest.mark.parametrize("asks", [False, True])
def test_what_goes_too_early_breaks_its_law(asks: bool) -> None:
    story = Story().accepted().training().saved(100).saved(200).preempted()
    pruned, life = CheckpointPruned(ref=story.run.checkpoints[0].ref), Life(story=story, steps=())
    law = laws.test_law_10_nothing_goes_before_the_latest_start_has_saved
    assert holds(law, with_events(life, [*story.events, pruned]))
    if asks:
        story.do(ResumeRun(step=200, from_start=False))
    else:
        story.training()
    assert not holds(law, with_events(life, [*story.events, pruned]))


def test_capacity_that_is_kept_for_nothing_breaks_its_law() -> None:
    waiting = Story().accepted().placed().run
    step = Step(
        before=waiting,
        command=Story().submit,
        events=(),
        after=replace(waiting, state=RunState.FAILED),
        now_s=0.0,
    )
    life = Life(story=Story(), steps=(step,))
    assert not holds(laws.test_law_8_no_capacity_is_held_for_nothing, life)
