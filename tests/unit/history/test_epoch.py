"""The open epoch: started, running, progress, drain, stop."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from broker.history.commands import (
    PayDebt,
    RecordDrainAck,
    RecordProgress,
    RecordRunning,
    RecordStart,
    RequestDrain,
    StopEpoch,
)
from broker.history.events import DrainRequested, EpochStarted, StopOrdered, Warned
from broker.history.refusals import Refused
from broker.history.thinning import progress_every_s
from broker.model.checkpoint import EpochId
from broker.model.intent import ProgressSpec
from broker.model.reasons import Reason
from broker.model.run import CloseRule, Purpose
from broker.model.states import EpochState, PlacementState, RunState
from tests.builders import Story, make_intent

DRAIN = RequestDrain(reason=Reason.REGION_DRAINING, message="leave", grace_s=30.0)
STOP = StopEpoch(reason=Reason.REGION_DRAINING, message="leave")


def test_a_start_is_believed_of_the_open_epoch_alone() -> None:
    story = Story().accepted().placed().prepared().granted()
    start = RecordStart(epoch=story.epoch.id, nonces=("a", "b"))
    stranger = replace(start, epoch=EpochId(number=1, nonce="stranger"))
    assert story.tell(stranger) == ()
    assert story.tell(start) == (EpochStarted(epoch=story.epoch.id, nonces=("a", "b")),)
    assert story.tell(start) == ()
    assert story.placement("alpha").state is PlacementState.RUNNING
    assert story.run.wait_began_s is None


@pytest.mark.parametrize("nonces", [(), ("a", "a")])
def test_an_owner_record_names_every_rank_once(nonces: tuple[str, ...]) -> None:
    story = Story().accepted().placed().prepared().granted()
    with pytest.raises(Refused):
        story.tell(RecordStart(epoch=story.epoch.id, nonces=nonces))


def test_a_revocation_that_came_too_late_leaves_a_gang_to_be_fenced() -> None:
    story = Story().accepted().placed("alpha").prepared().granted().stopped()
    story.placed("beta", Purpose.HEDGE).started()
    assert story.epoch.state is EpochState.STOPPING
    assert story.epoch.started_s is not None
    # What waits beside it is the run's next place.
    assert [p.site.region for p in story.run.waiting_placements] == ["beta"]
    story.closed(143, 143, rule=CloseRule.FENCE_HEARD)
    assert story.run.state is RunState.QUEUED


def test_a_grant_that_is_only_recalled_holds_if_its_gang_starts_all_the_same() -> None:
    story = Story().accepted().placed("alpha").prepared().granted()
    story.placed("beta", Purpose.HEDGE).stopped(Reason.OTHER_LEG_STARTED)
    assert story.epoch.is_recalled
    assert story.tell(StopEpoch(reason=Reason.OTHER_LEG_STARTED, message="again")) == ()
    story.started()
    assert (story.epoch.state, story.epoch.stop) == (EpochState.STARTED, None)
    assert story.run.state is RunState.STARTING
    assert story.run.waiting_placements == ()
    assert story.running().closed(0, 0).run.state is RunState.SUCCEEDED


def test_a_recalled_grant_is_stopped_for_another_reason_too() -> None:
    story = Story().accepted().placed("alpha").prepared().granted()
    story.stopped(Reason.OTHER_LEG_STARTED).stopped(Reason.REGION_DRAINING).started()
    assert story.epoch.state is EpochState.STOPPING
    assert story.epoch.stop is not None
    assert story.epoch.stop.reason is Reason.REGION_DRAINING


def test_running_follows_the_start() -> None:
    story = Story().accepted().placed().prepared().granted()
    running = RecordRunning(epoch=story.epoch.id)
    assert story.tell(running) == ()
    assert story.started().run.state is RunState.STARTING
    story.do(running)
    assert (story.run.state, story.run.why.reason) == (RunState.RUNNING, Reason.TRAINING)
    assert story.tell(running) == ()


def test_progress_is_thinned_and_never_goes_back() -> None:
    story = Story().accepted().training()
    assert story.wait(3).trained(10).run.first_step_s == 3.0

    def told(step: int, after_s: float, *, is_last: bool = False) -> int:
        story.wait(after_s)
        command = RecordProgress(epoch=story.epoch.id, step=step, loss=0.4, is_last=is_last)
        return len(story.tell(command))

    assert [told(11, 5.0), told(12, 5.0), told(12, 90.0), told(-1, 90.0)] == [0, 1, 0, 0]
    assert [told(13, 90.0), told(14, 1.0), told(15, 1.0, is_last=True)] == [1, 0, 1]
    assert story.run.progress is not None
    assert (story.run.progress.step, story.run.first_step_s) == (15, 3.0)


@pytest.mark.parametrize(
    ("timeout_s", "age_s", "every_s"),
    [
        (None, 0.0, 10.0),
        (None, 3600.0, 10.0),
        (None, 36_000.0, 100.0),
        (None, 9e6, 300.0),
        (1800.0, 9e6, 300.0),
        (60.0, 9e6, 15.0),
        (4.0, 0.0, 1.0),
    ],
)
def test_steps_are_written_down_ever_more_rarely_but_often_enough_to_tell_a_hang(
    timeout_s: float | None, age_s: float, every_s: float
) -> None:
    intent = make_intent()
    workload = replace(intent.workload, progress=ProgressSpec(timeout_s=timeout_s))
    story = Story(replace(intent, workload=workload)).accepted().training().wait(age_s)
    assert progress_every_s(story.run, story.now) == every_s


def test_a_step_that_is_no_step_is_not_believed() -> None:
    story = Story().accepted().training()
    for step in (-1, 2**70):
        assert story.tell(RecordProgress(epoch=story.epoch.id, step=step, loss=None)) == ()
        assert story.tell(story.found(step)) == ()
    story.do(DRAIN, RecordDrainAck(epoch=story.epoch.id, step=2**70))
    assert story.epoch.drain is not None
    assert (story.epoch.drain.is_acked, story.epoch.drain.acked_step) == (True, None)
    story.closed(1, 1, found=(story.found(2**70),))
    assert story.run.checkpoints == ()


@pytest.mark.parametrize("loss", [math.nan, math.inf, None])
def test_a_loss_that_is_no_number_is_none(loss: float | None) -> None:
    story = Story().accepted().training().trained(1, loss)
    assert story.run.progress is not None
    assert story.run.progress.loss is None


def test_a_drain_has_a_deadline_that_only_comes_nearer() -> None:
    story = Story().accepted().training()
    assert story.tell(DRAIN) == (
        DrainRequested(
            epoch=story.epoch.id,
            reason=Reason.REGION_DRAINING,
            message="leave",
            deadline_s=30.0,
        ),
    )
    assert story.wait(5).tell(DRAIN) == ()
    assert len(story.tell(replace(DRAIN, grace_s=10.0))) == 1
    assert story.run.why.reason is Reason.DRAINING
    ack = RecordDrainAck(epoch=story.epoch.id, step=90)
    assert len(story.tell(ack)) == 1
    assert story.tell(ack) == ()
    assert story.epoch.drain is not None
    assert (story.epoch.drain.ordered_s, story.epoch.drain.acked_step) == (0.0, 90)


def test_nothing_to_save_is_nothing_to_drain() -> None:
    story = Story().accepted().placed().prepared().granted()
    assert isinstance(story.tell(DRAIN)[0], StopOrdered)
    assert Story().accepted().tell(DRAIN) == ()


def test_a_drain_that_nobody_answered_is_said_aloud() -> None:
    story = Story().accepted().training().do(DRAIN).wait(31)
    warned, stop = story.tell(STOP)
    assert warned == Warned(
        reason=Reason.DRAIN_UNACKNOWLEDGED,
        message="Epoch 1 in alpha did not answer its drain within 30 s",
    )
    assert isinstance(stop, StopOrdered)
    assert story.tell(STOP) == ()


def test_an_answered_drain_is_stopped_in_silence() -> None:
    story = Story().accepted().training().do(DRAIN)
    story.do(RecordDrainAck(epoch=story.epoch.id, step=90)).wait(31)
    assert len(story.tell(STOP)) == 1


def test_a_debt_is_paid_once() -> None:
    story = Story().accepted().training().closed(rule=CloseRule.UNREACHABLE)
    pay = PayDebt(epoch=story.run.epochs[0].id)
    assert len(story.tell(pay)) == 1
    assert story.tell(pay) == ()
    assert not story.run.epochs[0].is_owed


def test_a_late_report_of_a_closed_epoch_is_not_believed() -> None:
    story = Story().accepted().training()
    closed = story.epoch.id
    story.preempted().training()
    late = (
        RecordStart(epoch=closed, nonces=("a", "b")),
        RecordRunning(epoch=closed),
        RecordProgress(epoch=closed, step=10**6, loss=0.0),
        RecordDrainAck(epoch=closed, step=1),
    )
    assert [story.tell(command) for command in late] == [(), (), (), ()]
