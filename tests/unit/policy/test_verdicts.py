"""What an ended gang means: when its epoch is closed, and for what cause."""

from dataclasses import replace
from typing import Any

import pytest

from broker.history.commands import CloseEpoch, ExplainWait, RunCommand, StopEpoch
from broker.model.reasons import Reason
from broker.model.run import CloseRule, RankEnd
from tests.unit.policy.scene import Scene


def ends(*codes: int | None) -> tuple[RankEnd, ...]:
    return tuple(RankEnd(rank=rank, exit_code=code) for rank, code in enumerate(codes))


def training(**workload: Any) -> Scene:
    scene = Scene(**workload)
    scene.story.training()
    return scene


def kinds(commands: tuple[RunCommand, ...]) -> list[type]:
    return [type(one) for one in commands]


def test_success_is_closed_at_once() -> None:
    scene = training()
    scene.says(ends=ends(0, 0), closed=CloseRule.SEEN_ENDED, first_end_s=0.0)
    (close,) = scene.told()
    assert isinstance(close, CloseEpoch)
    assert close.cause is None


def test_a_failure_waits_for_the_notice_that_explains_it_and_no_longer() -> None:
    scene = training()
    scene.says(ends=ends(1, None), closed=CloseRule.SEEN_ENDED, first_end_s=0.0)
    assert kinds(scene.told_after(9.0)) == [ExplainWait]
    (close,) = scene.told_after(1.0)
    assert isinstance(close, CloseEpoch)
    assert close.cause is None


def test_an_end_that_no_notice_could_explain_is_judged_at_once() -> None:
    """Of ranks that all ended by themselves no machine was taken, and who was first is known."""
    scene = training()
    scene.says(
        ends=ends(2, 1),
        closed=CloseRule.SEEN_ENDED,
        first_end_s=0.0,
        cause=Reason.COMMAND_FAILED,
        message="Rank 1 ended with exit code 1",
    )
    (close,) = scene.told()
    assert isinstance(close, CloseEpoch)
    assert (close.cause, close.message) == (
        Reason.COMMAND_FAILED,
        "Rank 1 ended with exit code 1",
    )


@pytest.mark.parametrize(
    ("told", "expected"), [(Reason.TRANSIENT_FAULT, Reason.TRANSIENT_FAULT), (None, None)]
)
def test_whose_fault_an_exit_code_was_waits_for_the_last_words_and_no_longer(
    told: Reason | None, expected: Reason | None
) -> None:
    """They are seen in the cluster, mostly a moment after the store has told the code."""
    scene = training()
    facts: dict[str, Any] = {"ends": ends(0, 1), "first_end_s": 0.0}
    scene.says(closed=CloseRule.SEEN_ENDED, **facts)
    assert kinds(scene.told_after(9.0)) == [ExplainWait]
    if told is not None:
        scene.says(closed=CloseRule.SEEN_ENDED, cause=told, message="NCCL", **facts)
    (close,) = scene.told_after(0.0 if told is not None else 1.0)
    assert isinstance(close, CloseEpoch)
    assert close.cause is expected


@pytest.mark.parametrize("codes", [(1, 1), (134, None)])
def test_a_fault_that_a_gang_tells_of_itself_is_its_end_and_nothing_that_was_done_to_it(
    codes: tuple[int | None, ...],
) -> None:
    scene = training()
    facts: dict[str, Any] = {"ends": ends(*codes), "first_end_s": 0.0, "message": "NCCL"}
    scene.says(closed=CloseRule.SEEN_ENDED, cause=Reason.TRANSIENT_FAULT, **facts)
    close = scene.told_after(10.0)[-1]
    assert isinstance(close, CloseEpoch)
    assert (close.cause, close.message) == (Reason.TRANSIENT_FAULT, "NCCL")
    scene = training()
    scene.says(cause=Reason.TRANSIENT_FAULT, **facts)
    stop = scene.told_after(10.0)[-1]
    assert isinstance(stop, StopEpoch)
    assert (stop.reason, stop.message) == (Reason.TRANSIENT_FAULT, "NCCL while others went on")


def test_a_run_whose_end_waits_for_its_verdict_does_not_read_as_one_that_trains() -> None:
    scene = training()
    for ranks, closed, said in (
        (ends(None, 1), None, "Rank 1 ended with exit code 1"),
        (ends(None), None, "Rank 0 is gone without a word"),
        (
            ends(1, None),
            CloseRule.SEEN_ENDED,
            "Rank 0 ended with exit code 1, and its gang is over",
        ),
    ):
        scene.says(ends=ranks, closed=closed, first_end_s=0.0)
        scene.obeys()
        why = scene.run.why
        assert (why.reason, why.message, why.next_at_s) == (
            Reason.JUDGING_END,
            f"{said}; whether a machine was taken is asked of alpha",
            10.0,
        )
        version = scene.run.stream_version
        scene.obeys()
        assert scene.run.stream_version == version, "what was said is not written again"
    scene.falls_silent("alpha")
    scene.obeys()
    assert scene.run.why.reason is Reason.JUDGING_END


def test_a_notice_explains_the_failures_of_its_peers() -> None:
    scene = training()
    scene.says(
        ends=ends(1, None),
        closed=CloseRule.SEEN_ENDED,
        first_end_s=0.0,
        cause=Reason.NODE_PREEMPTED,
    )
    (close,) = scene.told()
    assert isinstance(close, CloseEpoch)
    assert close.cause is Reason.NODE_PREEMPTED
    assert close.message


def test_a_notice_that_comes_while_every_rank_failed_by_itself_explains_nothing() -> None:
    scene = training()
    scene.says(
        ends=ends(1, 2),
        closed=CloseRule.SEEN_ENDED,
        first_end_s=0.0,
        failed_s=0.0,
        cause=Reason.NODE_PREEMPTED,
    )
    assert kinds(scene.told()) == [ExplainWait]
    (close,) = scene.told_after(10.0)
    assert isinstance(close, CloseEpoch)
    assert close.cause is None


def test_a_verdict_that_was_reached_stands_whatever_comes_after_it() -> None:
    scene = training()
    scene.says(ends=ends(3), first_end_s=0.0, failed_s=0.0)
    scene.story.wait(10.0)
    scene.obeys()
    told = replace(ends(3, 143)[1], cause="fenced")
    scene.says(
        ends=(ends(3)[0], told),
        closed=CloseRule.FENCE_HEARD,
        first_end_s=0.0,
        failed_s=0.0,
        cause=Reason.EVICTED,
    )
    scene.obeys()
    assert scene.run.why.reason is Reason.FAILED_BEFORE_CHECKPOINT


@pytest.mark.parametrize(
    ("failed_s", "reason"),
    [(99.0, Reason.FAILED_BEFORE_CHECKPOINT), (101.0, Reason.REGION_DRAINING)],
)
def test_a_drain_explains_only_what_failed_after_it_was_asked(
    failed_s: float, reason: Reason
) -> None:
    scene = training()
    scene.story.wait(100.0 - scene.story.now.elapsed_s)
    scene.rules("alpha", drain=True)
    scene.obeys()
    scene.says(ends=ends(1), first_end_s=failed_s, failed_s=failed_s)
    scene.story.wait(3_600.0)
    scene.obeys()
    drained = replace(ends(0, 0)[1], cause="drained")
    scene.says(
        ends=(ends(1)[0], drained),
        closed=CloseRule.FENCE_HEARD,
        first_end_s=failed_s,
        failed_s=failed_s,
    )
    scene.obeys()
    assert scene.run.why.reason is reason


def test_a_stop_of_ours_needs_no_explanation() -> None:
    scene = training()
    scene.story.stopped()
    scene.says(ends=ends(143, 143), closed=CloseRule.FENCE_HEARD, first_end_s=0.0)
    assert kinds(scene.told()) == [CloseEpoch]


def test_facts_of_another_epoch_say_nothing() -> None:
    scene = training()
    scene.says(ends=ends(0, 0), closed=CloseRule.SEEN_ENDED)
    assert scene.facts is not None
    other = replace(scene.facts.epoch, number=7)
    scene.facts = replace(scene.facts, epoch=other)
    assert scene.told() == ()


def test_a_gang_that_was_told_to_save_and_then_failed_left_as_it_was_told() -> None:
    scene = training()
    scene.rules("alpha", drain=True)
    scene.obeys()
    scene.says(
        ends=(ends(1)[0], replace(ends(0, 0)[1], cause="preempted")),
        closed=CloseRule.SEEN_ENDED,
        first_end_s=scene.story.now.elapsed_s,
        failed_s=scene.story.now.elapsed_s,
        cause=Reason.COMMAND_FAILED,
        message="Rank 0 ended with exit code 1",
    )
    scene.story.wait(3_600.0)
    scene.obeys()
    assert scene.run.why.reason is Reason.REGION_DRAINING
