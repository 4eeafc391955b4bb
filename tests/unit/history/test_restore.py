"""What a restored broker finds above its log."""

from __future__ import annotations

import pytest

from broker.history.commands import AdoptEpoch, CancelRun, MarkCheckpoint, SkipEpochs
from broker.history.events import (
    EpochAdopted,
    PlacementPrepared,
    Requeued,
    Resumed,
    Sealed,
    StopOrdered,
    Validated,
    WithdrawalOrdered,
)
from broker.history.lineage import resumable
from broker.history.refusals import Refused
from broker.model.checkpoint import CheckpointRef, EpochId
from broker.model.reasons import Reason
from broker.model.run import CloseRule, Purpose
from broker.model.states import PlacementState, RunState
from tests.builders import Story, make_site


def adopt(
    number: int,
    region: str = "beta",
    placement: str = "found0000000",
    resume_from: CheckpointRef | None = None,
    seals: tuple[CheckpointRef, ...] = (),
) -> AdoptEpoch:
    return AdoptEpoch(
        epoch=EpochId(number=number, nonce="after-backup"),
        placement=placement,
        site=make_site(region),
        nonces=("a", "b"),
        resume_from=resume_from,
        seals=seals,
    )


def kinds(story: Story, command: AdoptEpoch) -> list[type[object]]:
    return [type(event) for event in story.tell(command)]


def test_a_waiting_run_takes_over_what_it_finds_started() -> None:
    story = Story().accepted().placed("alpha")
    assert kinds(story, adopt(4)) == [EpochAdopted, WithdrawalOrdered]
    assert (story.run.state, story.run.next_epoch) == (RunState.STARTING, 5)
    assert story.placement("beta").state is PlacementState.RUNNING
    assert story.tell(adopt(4)) == ()
    # From here on it is an epoch like any other.
    story.running().saved(100).closed(0, 0)
    assert story.run.state is RunState.SUCCEEDED


def test_the_newer_grant_proves_that_the_open_epoch_was_closed() -> None:
    story = Story().accepted().training().saved(100).saved(200)
    former, (first, _) = story.epoch, story.run.checkpoints
    newer = adopt(2, resume_from=first.ref, seals=(first.ref,))
    assert kinds(story, newer) == [Sealed, WithdrawalOrdered, Requeued, EpochAdopted]
    # The seal that the grant carries comes before what the log believed (R2).
    assert [c.ref for c in story.run.checkpoints if c.is_sealed] == [first.ref]
    closed = story.run.epoch(former.id)
    assert closed is not None
    assert (closed.close_rule, closed.is_owed) == (CloseRule.UNREACHABLE, True)
    assert story.run.infrastructure_losses == 0


def test_seals_of_epochs_that_the_log_never_saw_count() -> None:
    unknown = CheckpointRef(epoch=EpochId(number=2, nonce="never-seen"), step=500, digest="e" * 64)
    story = Story().accepted().do(adopt(3, resume_from=unknown, seals=(unknown,)))
    story.running().preempted()
    assert [(c.ref, c.regions) for c in resumable(story.run)] == [(unknown, frozenset({"beta"}))]


def test_a_log_that_is_far_behind_catches_up() -> None:
    story = Story().do(Story().submit)
    assert kinds(story, adopt(1)) == [Validated, EpochAdopted]
    ended = Story().accepted().training().closed(0, 0)
    assert kinds(ended, adopt(2)) == [Resumed, EpochAdopted]
    preparing = Story().accepted().placed("beta")
    placement = preparing.placement("beta").id
    assert kinds(preparing, adopt(1, placement=placement)) == [PlacementPrepared, EpochAdopted]


def test_what_was_forbidden_before_the_backup_is_stopped() -> None:
    story = Story().accepted().training().saved(100)
    ref = story.run.checkpoints[0].ref
    story.preempted().do(MarkCheckpoint(step=100, is_bad=True)).do(adopt(2, resume_from=ref))
    assert story.epoch.stop is not None
    assert story.epoch.stop.reason is Reason.STEP_MARKED_BAD
    cancelled = Story().accepted().training().do(CancelRun(grace_s=30.0, message="enough"))
    assert kinds(cancelled, adopt(2))[-1] is StopOrdered


@pytest.mark.parametrize(
    "command",
    [
        adopt(1),  # below the log's next
        AdoptEpoch(
            epoch=EpochId(number=9, nonce="n"),
            placement="found0000000",
            site=make_site("beta"),
            nonces=(),
            resume_from=None,
            seals=(),
        ),
    ],
)
def test_what_cannot_be_adopted_is_refused(command: AdoptEpoch) -> None:
    story = Story().accepted().training().preempted()
    with pytest.raises(Refused):
        story.tell(command)


def test_numbers_start_above_what_a_store_may_hold() -> None:
    story = Story().accepted()
    skip = SkipEpochs(next_epoch=40)
    assert len(story.tell(skip)) == 1
    assert story.tell(skip) == ()
    assert story.training("alpha", Purpose.FIRST).epoch.id.number == 40
