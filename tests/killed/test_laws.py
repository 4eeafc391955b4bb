"""The alarms are seen to ring: each law is broken once, by a line or an event."""

from __future__ import annotations

from dataclasses import replace

from broker.history.events import Event, Granted, Recorded, Sealed
from broker.model.checkpoint import CheckpointRef, EpochId
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import CloseRule
from tests.builders import BROKER
from tests.killed.gang import first_state, next_state
from tests.killed.laws import (
    Line,
    Resumed,
    epochs_at_once,
    gangs_at_once,
    started_twice,
    unsealed_resumes,
    wrong_states,
)

RUN = "teams/t/runs/r"
FIRST, SECOND = EpochId(number=1, nonce="a" * 12), EpochId(number=2, nonce="b" * 12)
ONE_STEP = next_state(first_state(0), 1)
SAVED = CheckpointRef(epoch=FIRST, step=1, digest="d" * 64)
STARTED = Line(
    run=RUN, epoch=FIRST.folder, rank=0, what="start", step=0, state=first_state(0), pid=1
)
STEPPED = replace(STARTED, what="step", step=1, state=ONE_STEP)
RESUMED = replace(
    STARTED,
    epoch=SECOND.folder,
    step=1,
    state=ONE_STEP,
    resumed=Resumed(epoch=FIRST.folder, digest=SAVED.digest),
    pid=2,
)
GOOD = [STARTED, STEPPED, RESUMED]


def recorded(*events: Event) -> list[Recorded]:
    return [
        Recorded(
            position=position,
            stream=RUN,
            stream_version=position,
            at=Moment(elapsed_s=float(position), wall_s=0.0),
            actor=BROKER,
            event=event,
        )
        for position, event in enumerate(events, start=1)
    ]


def granted(epoch: EpochId, ref: CheckpointRef | None) -> Granted:
    return Granted(placement="p", epoch=epoch, resume_from=ref)


def sealed(epoch: EpochId, *refs: CheckpointRef) -> Sealed:
    return Sealed(
        epoch=epoch,
        rule=CloseRule.SEEN_ENDED,
        checkpoints=refs,
        ends=(),
        is_owed=False,
        reason=Reason.NODE_PREEMPTED,
        message="its machines were taken back",
        failure=None,
    )


EVENTS = recorded(granted(FIRST, None), sealed(FIRST, SAVED), granted(SECOND, SAVED))


def test_a_life_as_it_should_be_raises_no_alarm() -> None:
    assert gangs_at_once(GOOD) == []
    assert started_twice(GOOD) == []
    assert epochs_at_once(EVENTS) == []
    assert unsealed_resumes(GOOD, EVENTS) == []
    assert wrong_states(GOOD) == []


def test_a_gang_that_goes_on_beside_the_next_one_is_seen() -> None:
    zombie = replace(STEPPED, step=2, state=next_state(ONE_STEP, 2))
    assert len(gangs_at_once([*GOOD, zombie])) == 1


def test_two_processes_for_one_rank_of_one_epoch_are_seen() -> None:
    assert len(started_twice([*GOOD, replace(STARTED, pid=3)])) == 1


def test_a_grant_beside_an_open_epoch_is_seen() -> None:
    assert len(epochs_at_once(recorded(granted(FIRST, None), granted(SECOND, None)))) == 1


def test_a_resume_from_what_no_seal_counts_is_seen() -> None:
    events = recorded(granted(FIRST, None), sealed(FIRST), granted(SECOND, SAVED))
    assert len(unsealed_resumes(GOOD, events)) == 1


def test_a_resume_from_other_files_than_the_seal_names_is_seen() -> None:
    changed = replace(RESUMED, resumed=Resumed(epoch=FIRST.folder, digest="e" * 64))
    assert len(unsealed_resumes([STARTED, STEPPED, changed], EVENTS)) == 1


def test_a_start_from_nothing_that_should_have_resumed_is_seen() -> None:
    forgetful = replace(RESUMED, resumed=None, step=0, state=first_state(0))
    assert len(unsealed_resumes([STARTED, STEPPED, forgetful], EVENTS)) == 1


def test_a_start_that_nobody_granted_is_seen() -> None:
    assert len(unsealed_resumes([STARTED], recorded())) == 1


def test_a_step_lost_on_the_way_is_seen() -> None:
    assert len(wrong_states([STARTED, replace(STEPPED, step=2)])) == 1
