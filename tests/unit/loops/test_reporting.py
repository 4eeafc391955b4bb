"""What an observation tells the log about a run."""

from dataclasses import replace

import pytest

from broker.history.commands import (
    EndPlacement,
    RecordDrainAck,
    RecordProgress,
    RecordRunning,
    RecordStart,
    ReportPlacement,
    RequestDrain,
    WarnRun,
)
from broker.history.thinning import OFTEN_S
from broker.loops.reporting import reports
from broker.loops.sight import ClusterSight
from broker.model.policy import RegionPolicy
from broker.model.reasons import FailureClass, Reason
from broker.model.run import PhaseSeconds, Run, Why
from broker.model.states import PlacementEnd, PlacementState
from regions.cluster import Cause, MemberSeen, OwnerState, Stage
from tests.builders import Story, make_moment
from tests.unit.loops.seeing import (
    CLUSTER,
    NOW,
    ended,
    epoch_seen,
    placement_seen,
    report,
    sight_of,
    silent,
)
from tests.unit.loops.test_telling import SECRET


def told(run: Run, sight: ClusterSight) -> tuple[object, ...]:
    return reports(run, CLUSTER, sight, RegionPolicy(), NOW)


@pytest.mark.parametrize(
    ("stage", "cause", "state", "reason", "words"),
    [
        (Stage.QUEUED, Cause.WAITING_FOR_QUOTA, "QUEUED", "WAITING_FOR_QUOTA", "8 GPUs ahead"),
        (Stage.QUEUED, Cause.NONE, "QUEUED", "WAITING_FOR_QUOTA", "waiting for quota in alpha"),
        (Stage.QUEUED, Cause.QUOTA_NEVER_FITS, "QUEUED", "QUOTA_TOO_SMALL", "never take it"),
        (Stage.QUEUED, Cause.QUEUE_STOPPED, "QUEUED", "QUEUE_STOPPED", "stopped by its operators"),
        (Stage.QUEUED, Cause.WAITING_FOR_FLEX, "QUEUED", "WAITING_FOR_FLEX", "booked flex"),
        (Stage.QUEUED, Cause.FLEX_SILENT, "QUEUED", "FLEX_SILENT", "nothing is heard of it"),
        (Stage.QUEUED, Cause.FLEX_FAILED, "QUEUED", "FLEX_FAILED", "could not be given"),
        (Stage.QUEUED, Cause.BOOKING_EXPIRED, "QUEUED", "BOOKING_EXPIRED", "before it was used"),
        (Stage.QUEUED, Cause.CAPACITY_REVOKED, "QUEUED", "CAPACITY_REVOKED", "taken back"),
        (Stage.PROVISIONING, Cause.NODES_COMING, "PROVISIONING", "NODES_COMING", "0 of 2 machines"),
        (Stage.PROVISIONING, Cause.STOCKOUT, "PROVISIONING", "STOCKOUT", "out of stock"),
        (
            Stage.PROVISIONING,
            Cause.PARTIAL_ARRIVAL,
            "PROVISIONING",
            "PARTIAL_ARRIVAL",
            "the rest are out of stock",
        ),
        (Stage.STANDING, Cause.NONE, "PROVISIONING", "PODS_STARTING", "0 of 2 processes"),
        (Stage.STANDING, Cause.NODE_PREEMPTED, "PROVISIONING", "NODE_PREEMPTED", "taken back"),
    ],
)
def test_each_cause_has_its_state_reason_and_words(
    stage: Stage, cause: Cause, state: str, reason: str, words: str
) -> None:
    story = Story().accepted().placed().prepared()
    seen = placement_seen(story.placement("alpha"), story.run, stage=stage, cause=cause)
    (said,) = told(story.run, sight_of([seen]))
    assert isinstance(said, ReportPlacement)
    assert (said.state, said.reason) == (PlacementState(state), Reason(reason))
    assert words in said.message


def test_a_whole_gang_at_its_gate_is_told() -> None:
    story = Story().accepted().placed().prepared()
    seen = placement_seen(
        story.placement("alpha"),
        story.run,
        stage=Stage.STANDING,
        cause=Cause.NONE,
        is_whole_at_gate=True,
    )
    (said,) = told(story.run, sight_of([seen]))
    assert isinstance(said, ReportPlacement)
    assert (said.state, said.reason) == (PlacementState.AT_GATE, Reason.AT_GATE)


def test_what_the_log_says_already_is_not_told() -> None:
    story = Story().accepted().placed().prepared()
    seen = placement_seen(story.placement("alpha"), story.run)
    sight = sight_of([seen])
    story.do(*reports(story.run, CLUSTER, sight, RegionPolicy(), NOW))
    assert told(story.run, sight) == ()


def test_the_word_for_what_only_the_user_can_mend_is_logged_with_its_placement() -> None:
    story = Story().accepted().placed().prepared()
    leg = story.placement("alpha")

    def says(fault: str, raw: str = "") -> tuple[object, ...]:
        word = replace(SECRET, fault=fault, raw=raw)
        stage = Stage.PROVISIONING
        seen = placement_seen(leg, story.run, stage=stage, cause=Cause.REFUSED, said=word)
        return told(story.run, sight_of([seen]))

    (said,) = says("USER")
    assert isinstance(said, ReportPlacement)
    assert said.word is not None
    assert (said.word.word, said.word.failure) == ("SECRET_MISSING", FailureClass.USER)
    story.do(said)
    assert story.placement("alpha").word == said.word
    assert says("USER", "said at length, and anew at each look") == ()
    (said,) = says("ORCHESTRATION")
    assert isinstance(said, ReportPlacement)
    story.do(said)
    assert story.placement("alpha").word is None


def test_what_cannot_be_read_of_a_run_is_said_to_its_users_and_to_no_others() -> None:
    story = Story().accepted().placed().prepared()
    unread = {story.run.uid: "runs/x:\x1b[2J a link stands there", "another": "why"}
    (said,) = told(story.run, sight_of(unread=unread))
    message = "the store of alpha holds what cannot be read: runs/x: [2J a link stands there"
    assert said == WarnRun(reason=Reason.STORE_UNREACHABLE, message=message)
    assert told(story.run, sight_of(unread={"another": "why"})) == ()
    granted = Story().accepted().placed().prepared().granted()
    in_store = epoch_seen(granted.run, owner=OwnerState.UNREADABLE, nonces=())
    (said,) = told(granted.run, sight_of(epochs=[in_store]))
    assert isinstance(said, WarnRun)
    assert "the owner record of epoch 1 is none" in said.message


def test_what_a_cluster_refuses_to_a_gang_is_said_to_its_user_once() -> None:
    story = Story().accepted().placed().prepared()
    seen = placement_seen(story.placement("alpha"), story.run, warning="it runs low: no\x1b right")
    sight = sight_of([seen])
    warned, _ = told(story.run, sight)
    assert warned == WarnRun(
        reason=Reason.REFUSED_BY_CLUSTER, message="alpha: it runs low: no  right"
    )
    story.do(*told(story.run, sight))  # type: ignore[arg-type]
    assert told(story.run, sight) == ()


def test_a_placement_that_was_never_seen_is_not_missed() -> None:
    story = Story().accepted().placed().prepared()
    assert told(story.run, sight_of()) == ()


def test_a_placement_that_was_seen_is_missed_in_a_whole_look_only() -> None:
    story = Story().accepted().placed().prepared().reported()
    (said,) = told(story.run, sight_of())
    assert isinstance(said, EndPlacement)
    assert said.end is PlacementEnd.LOST
    assert told(story.run, sight_of(is_whole=False)) == ()
    assert told(story.run, silent(sight_of())) == ()


@pytest.mark.parametrize(
    ("cause", "exit_code", "end", "reason"),
    [
        (Cause.NODE_PREEMPTED, None, PlacementEnd.PREEMPTED, Reason.NODE_PREEMPTED),
        (Cause.CAPACITY_REVOKED, None, PlacementEnd.PREEMPTED, Reason.CAPACITY_REVOKED),
        (Cause.FLEX_FAILED, None, PlacementEnd.FAILED, Reason.FLEX_FAILED),
        (Cause.BOOKING_EXPIRED, None, PlacementEnd.FAILED, Reason.BOOKING_EXPIRED),
        (Cause.EVICTED, None, PlacementEnd.PREEMPTED, Reason.EVICTED),
        (Cause.NODE_LOST, None, PlacementEnd.LOST, Reason.NODE_LOST),
        (Cause.REFUSED, None, PlacementEnd.FAILED, Reason.REFUSED_BY_CLUSTER),
        (Cause.MEMBER_EXITED, 80, PlacementEnd.FAILED, Reason.GATE_TIMEOUT),
        (Cause.MEMBER_EXITED, 84, PlacementEnd.FAILED, Reason.BUNDLE_DAMAGED),
        (Cause.MEMBER_EXITED, 90, PlacementEnd.FAILED, Reason.COPY_NOT_VERIFIED),
        (Cause.MEMBER_EXITED, 1, PlacementEnd.FAILED, Reason.GANG_NOT_WHOLE),
    ],
)
def test_an_ended_placement_says_how(
    cause: Cause, exit_code: int | None, end: PlacementEnd, reason: Reason
) -> None:
    story = Story().accepted().placed().prepared().reported()
    member = MemberSeen(rank=0, member="m", is_alive=False, exit_code=exit_code, signal=None)
    seen = placement_seen(
        story.placement("alpha"), story.run, stage=Stage.ENDED, cause=cause, members=(member,)
    )
    (said,) = told(story.run, sight_of([seen]))
    assert isinstance(said, EndPlacement)
    assert (said.end, said.reason) == (end, reason)


def test_a_placement_with_an_open_epoch_is_not_ended_by_its_cluster() -> None:
    story = Story().accepted().training()
    seen = placement_seen(
        story.placement("alpha"), story.run, stage=Stage.ENDED, cause=Cause.NODE_PREEMPTED
    )
    assert told(story.run, sight_of([seen])) == ()
    assert told(story.run, sight_of()) == ()


def test_a_start_is_told_before_anything_of_its_placement() -> None:
    story = Story().accepted().placed().prepared().at_gate().granted()
    seen = placement_seen(story.placement("alpha"), story.run, stage=Stage.STANDING)
    epoch = epoch_seen(story.run, reports=(report(0), report(1)))
    assert told(story.run, sight_of([seen], [epoch])) == (
        RecordStart(epoch=story.epoch.id, nonces=epoch.nonces, report_within_s=120.0),
        RecordRunning(epoch=story.epoch.id),
    )


@pytest.mark.parametrize("owner", [OwnerState.ABSENT, OwnerState.REVOKED])
def test_an_epoch_without_a_started_owner_tells_nothing(owner: OwnerState) -> None:
    story = Story().accepted().placed().prepared().at_gate().granted()
    epoch = epoch_seen(story.run, owner=owner, nonces=(), reports=(report(0, step=5),))
    assert told(story.run, sight_of((), [epoch])) == ()


def test_a_gang_runs_when_every_rank_has_said_so() -> None:
    story = Story().accepted().placed().prepared().at_gate().granted().started()
    one = epoch_seen(story.run, reports=(report(0),))
    assert told(story.run, sight_of((), [one])) == ()
    # A command that was over before it could report has run.
    both = epoch_seen(story.run, reports=(report(0),), ends=(ended(story.run, 1),))
    assert told(story.run, sight_of((), [both])) == (RecordRunning(epoch=story.epoch.id),)


def test_progress_is_thinned_and_its_last_step_is_not_lost() -> None:
    story = Story()
    story.now = make_moment(NOW.elapsed_s)
    story.accepted().training().trained(3)
    soon = epoch_seen(story.run, reports=(report(0, step=4), report(1, step=5, loss=0.25)))
    assert told(story.run, sight_of((), [soon])) == ()
    over = epoch_seen(
        story.run,
        reports=soon.reports,
        ends=(ended(story.run, 0), ended(story.run, 1)),
    )
    record = RecordProgress(epoch=story.epoch.id, step=5, loss=0.25)
    assert told(story.run, sight_of((), [over])) == (replace(record, is_last=True),)
    later = make_moment(NOW.elapsed_s + OFTEN_S)
    assert reports(story.run, CLUSTER, sight_of((), [soon]), RegionPolicy(), later) == (record,)


def test_what_a_training_cannot_save_is_said_once_whichever_rank_says_it() -> None:
    story = Story().accepted().training()
    full = "step 20 was not saved: no space is left"
    seen = epoch_seen(story.run, reports=(report(0), report(1, trouble=full)))
    warning = WarnRun(reason=Reason.CHECKPOINT_NOT_SAVED, message=f"{full} (rank 1)")
    assert told(story.run, sight_of((), [seen])) == (warning,)
    story.do(warning)
    both = epoch_seen(story.run, reports=(report(0, trouble=full), report(1, trouble=full)))
    assert told(story.run, sight_of((), [both])) == ()
    later = epoch_seen(story.run, reports=(report(0, trouble=full.replace("20", "40")), report(1)))
    assert len(told(story.run, sight_of((), [later]))) == 1


def test_a_drain_is_answered_when_each_rank_that_runs_has_answered() -> None:
    story = Story().accepted().training()
    story.do(RequestDrain(reason=Reason.REGION_DRAINING, message="drain", grace_s=60.0))
    answer = report(0, is_drain_acked=True, drain_step=7)
    one = epoch_seen(story.run, reports=(answer, report(1)))
    assert told(story.run, sight_of((), [one])) == ()
    both = epoch_seen(story.run, reports=(answer, report(1, is_drain_acked=True, drain_step=6)))
    assert told(story.run, sight_of((), [both])) == (RecordDrainAck(epoch=story.epoch.id, step=6),)
    gone = epoch_seen(story.run, reports=(answer,), gone=frozenset({1}))
    assert told(story.run, sight_of((), [gone])) == (RecordDrainAck(epoch=story.epoch.id, step=7),)


def test_a_store_that_is_silent_tells_nothing_of_its_epochs() -> None:
    story = Story().accepted().training()
    epoch = epoch_seen(story.run, reports=(report(0, step=5),))
    assert told(story.run, sight_of((), [epoch], is_store_readable=False)) == ()


def test_a_store_tells_of_its_epochs_behind_a_silent_cluster() -> None:
    story = Story().accepted().training()
    epoch = epoch_seen(story.run, reports=(report(0, step=5),))
    store = sight_of((), [epoch]).observation
    said = told(story.run, silent(store=store))
    assert said == (RecordProgress(epoch=story.epoch.id, step=5, loss=None),)


@pytest.mark.parametrize(
    ("reason", "ran_s", "patience_s"),
    [
        (Reason.EVICTED, 60.0, RegionPolicy().patience.capacity_s),
        (Reason.EVICTED, 0.0, RegionPolicy().patience.quota_s),
        (Reason.NODE_PREEMPTED, 60.0, RegionPolicy().patience.quota_s),
    ],
)
def test_a_line_is_borne_for_less_where_the_run_was_put_out(
    reason: Reason, ran_s: float, patience_s: float
) -> None:
    story = Story().accepted().placed().prepared()
    leg = story.placement("alpha")
    former = replace(
        leg,
        id="former",
        state=PlacementState.ENDED,
        end=PlacementEnd.PREEMPTED,
        why=Why(reason=reason, message="", since_s=0.0),
        phases=PhaseSeconds(running=ran_s),
    )
    run = replace(story.run, placements={former.id: former, leg.id: leg})
    seen = placement_seen(leg, run, stage=Stage.QUEUED, cause=Cause.WAITING_FOR_QUOTA)
    (said,) = told(run, sight_of([seen]))
    assert isinstance(said, ReportPlacement)
    assert said.patience_s == patience_s
