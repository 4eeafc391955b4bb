"""Placements: added, reported, stuck, withdrawn, ended, granted."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from broker.history.commands import (
    AddPlacement,
    EndPlacement,
    GrantPlacement,
    JudgeStuck,
    MarkPrepared,
    RecordLostCopy,
    ReportPlacement,
    RequestDrain,
    ResumeRun,
    RunCommand,
    WithdrawPlacement,
)
from broker.history.events import (
    Granted,
    PlacementPrepared,
    PlacementSeen,
    StopOrdered,
    WithdrawalOrdered,
)
from broker.history.refusals import Code, Refused
from broker.model.intent import CapacityType
from broker.model.policy import TeamCaps
from broker.model.reasons import Reason
from broker.model.run import Arrival, Purpose
from broker.model.states import PlacementEnd, PlacementState
from tests.builders import Story, make_intent, make_site, make_standing, make_terms


def refusal(story: Story, command: RunCommand) -> tuple[Reason, Code]:
    with pytest.raises(Refused) as caught:
        story.tell(command)
    return caught.value.reason, caught.value.code


def add(region: str = "beta", purpose: Purpose = Purpose.HEDGE, **site: object) -> AddPlacement:
    return AddPlacement(
        placement="new000000000",
        purpose=purpose,
        site=replace(make_site(region), **site),  # type: ignore[arg-type]
        message="try",
    )


def grant(story: Story, region: str = "alpha") -> GrantPlacement:
    return GrantPlacement(placement=story.placement(region).id, nonce="n" * 12)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (add("gamma"), Reason.REGION_NOT_ACCEPTED),
        (add("us-east1"), Reason.RESIDENCY),
        (add(capacity_type=CapacityType.FLEX), Reason.CAPACITY_TYPE_NOT_ACCEPTED),
        (add(hardware_index=1), Reason.ACCELERATOR_MISMATCH),
        (add(nodes=3), Reason.ACCELERATOR_MISMATCH),
        (add("alpha"), Reason.ALREADY_WAITING_HERE),
    ],
)
def test_a_site_outside_the_intent_is_refused(command: AddPlacement, reason: Reason) -> None:
    terms = make_terms(regions=("alpha", "beta", "us-east1"), residency=("alpha", "beta"))
    story = Story(make_intent(terms=terms)).accepted().placed("alpha")
    assert refusal(story, command)[0] is reason


def test_the_same_placement_again_is_nothing_new() -> None:
    story = Story().accepted()
    assert len(story.tell(add())) == 1
    assert story.tell(add()) == ()
    assert refusal(story, add("gamma"))[0] is Reason.ALREADY_EXISTS


def test_at_most_one_flex_leg_waits() -> None:
    terms = make_terms(capacity_types=(CapacityType.FLEX,))
    story = Story(make_intent(terms=terms)).accepted()
    story.placed("alpha", capacity_type=CapacityType.FLEX)
    assert refusal(story, add(capacity_type=CapacityType.FLEX))[0] is Reason.HEDGE_LIMIT


def test_a_booking_that_has_its_grant_and_has_not_begun_is_a_flex_leg_too() -> None:
    terms = make_terms(capacity_types=(CapacityType.FLEX, CapacityType.SPOT))
    story = Story(make_intent(terms=terms)).accepted()
    story.placed("alpha", capacity_type=CapacityType.FLEX).prepared().granted()
    assert refusal(story, add(capacity_type=CapacityType.FLEX))[0] is Reason.HEDGE_LIMIT
    story.started().running()
    successor = add(purpose=Purpose.SUCCESSOR, capacity_type=CapacityType.FLEX)
    assert len(story.tell(successor)) == 1


def test_a_gang_that_runs_gets_only_a_successor_until_it_is_to_leave() -> None:
    story = Story().accepted().training()
    assert refusal(story, add(purpose=Purpose.REQUEUE))[0] is Reason.ILLEGAL_IN_STATE
    story.do(RequestDrain(reason=Reason.NODE_PREEMPTED, message="notice", grace_s=30.0))
    assert len(story.tell(add(purpose=Purpose.REQUEUE))) == 1
    assert len(Story().accepted().training().tell(add(purpose=Purpose.SUCCESSOR))) == 1


@pytest.mark.parametrize(
    ("caps", "reason"),
    [
        (TeamCaps(gate_gpus=3), Reason.TEAM_GATE_GPUS_SPENT),
        (TeamCaps(gate_gpu_minutes_per_day=10.0), Reason.TEAM_GATE_MINUTES_SPENT),
    ],
)
def test_a_hedge_is_held_to_the_teams_caps_and_a_first_leg_is_not(
    caps: TeamCaps, reason: Reason
) -> None:
    story = Story().accepted()
    story.team = make_standing(caps=caps, gate_gpus=2, gate_gpu_minutes_today=10.0)
    assert refusal(story, add()) == (reason, Code.RESOURCE_EXHAUSTED)
    assert len(story.tell(add(purpose=Purpose.FIRST))) == 1


# Reports.


def test_a_report_moves_a_placement_once() -> None:
    story = Story().accepted().placed().prepared()
    report = ReportPlacement(
        placement=story.placement("alpha").id,
        state=PlacementState.PROVISIONING,
        reason=Reason.NODES_COMING,
        message="1 of 2",
        arrival=Arrival(nodes_here=1, nodes_wanted=2),
        cluster_uid="uid",
    )
    assert len(story.tell(report)) == 1
    assert story.tell(report) == ()
    assert story.placement("alpha").arrival == Arrival(nodes_here=1, nodes_wanted=2)


def test_a_log_that_is_behind_its_cluster_catches_up() -> None:
    story = Story().accepted().placed().at_gate()
    assert [type(e) for e in story.events[-2:]] == [PlacementPrepared, PlacementSeen]
    assert story.placement("alpha").state is PlacementState.AT_GATE


def test_only_the_log_says_that_a_placement_runs() -> None:
    story = Story().accepted().placed().prepared()
    story.reported(state=PlacementState.RUNNING)
    assert story.placement("alpha").state is PlacementState.AT_GATE
    story.granted().started().reported(state=PlacementState.QUEUED)
    assert story.placement("alpha").state is PlacementState.RUNNING


def test_a_gang_that_its_cluster_made_again_is_left() -> None:
    story = Story().accepted().placed().prepared().at_gate()
    story.reported(state=PlacementState.QUEUED, cluster_uid="another")
    placement = story.placement("alpha")
    assert placement.cluster_uid == "another"
    assert placement.withdraw is not None
    assert placement.withdraw.reason is Reason.GANG_RECREATED


def test_a_started_gang_that_its_cluster_made_again_is_stopped() -> None:
    story = Story().accepted().training()
    story.reported(cluster_uid="another")
    assert isinstance(story.events[-1], StopOrdered)
    assert story.epoch.stop is not None
    assert story.epoch.stop.reason is Reason.GANG_RECREATED


def test_stuck_is_said_once_a_cause_and_forgotten_when_it_moves() -> None:
    story = Story().accepted().placed().prepared().reported()
    stuck = JudgeStuck(
        placement=story.placement("alpha").id,
        cause=Reason.STOCKOUT,
        evidence="no node came",
        action="a leg in beta",
    )
    assert len(story.tell(stuck)) == 1
    assert story.tell(stuck) == ()
    assert story.reported(state=PlacementState.PROVISIONING).placement("alpha").stuck is None


def test_what_a_leg_was_stuck_on_when_it_was_taken_out_is_remembered() -> None:
    story = Story().accepted().placed().prepared().reported()
    leg = story.placement("alpha").id
    story.tell(JudgeStuck(placement=leg, cause=Reason.STOCKOUT, evidence="no node", action="a leg"))
    story.tell(WithdrawPlacement(placement=leg, reason=Reason.OTHER_LEG_STARTED, message=""))
    story.reported(state=PlacementState.PROVISIONING)
    end, reason = PlacementEnd.WITHDRAWN, Reason.OTHER_LEG_STARTED
    story.tell(EndPlacement(placement=leg, end=end, reason=reason, message="seen gone"))
    ended = story.run.placements[leg]
    assert ended.end is PlacementEnd.WITHDRAWN
    assert ended.stuck is not None
    assert ended.stuck.reason is Reason.STOCKOUT


def test_an_early_grant_can_be_stuck_too() -> None:
    story = Story().accepted().placed().prepared().granted().reported()
    stuck = JudgeStuck(
        placement=story.placement("alpha").id,
        cause=Reason.STOCKOUT,
        evidence="no node came",
        action="revoke",
    )
    assert len(story.tell(stuck)) == 1


# Withdrawals and ends.


def test_what_holds_the_open_epoch_is_neither_withdrawn_nor_ended() -> None:
    story = Story().accepted().placed().prepared().granted()
    placement = story.placement("alpha").id
    withdraw = WithdrawPlacement(placement=placement, reason=Reason.STOCKOUT, message="moved")
    end = EndPlacement(
        placement=placement, end=PlacementEnd.LOST, reason=Reason.EVICTED, message="gone"
    )
    assert refusal(story, withdraw)[0] is Reason.ILLEGAL_IN_STATE
    assert refusal(story, end)[0] is Reason.ILLEGAL_IN_STATE


def test_a_waiting_leg_is_withdrawn_then_seen_gone() -> None:
    story = Story().accepted().placed().prepared().reported()
    withdraw = WithdrawPlacement(
        placement=story.placement("alpha").id, reason=Reason.STOCKOUT, message="moved"
    )
    assert len(story.tell(withdraw)) == 1
    assert story.tell(withdraw) == ()
    assert story.run.waiting_placements == ()
    story.gone("alpha")
    assert story.placement("alpha").end is PlacementEnd.WITHDRAWN
    assert story.tell(withdraw) == ()


def test_a_stranger_is_not_found() -> None:
    story = Story().accepted()
    assert refusal(story, MarkPrepared(placement="stranger")) == (
        Reason.NOT_FOUND,
        Code.NOT_FOUND,
    )


# Grants.


def test_an_early_grant_leaves_the_other_legs_waiting_until_it_has_started() -> None:
    story = Story().accepted().placed("alpha").prepared().granted().placed("beta", Purpose.HEDGE)
    assert len(story.run.waiting_placements) == 1
    story.started()
    assert not story.run.waiting_placements


def test_the_first_whole_gang_is_granted_and_the_others_withdrawn() -> None:
    story = Story().accepted().placed("alpha").placed("beta", Purpose.HEDGE).at_gate("beta")
    granted, withdrawal = story.tell(grant(story, "beta"))
    assert isinstance(granted, Granted)
    assert withdrawal == WithdrawalOrdered(
        placement=story.placement("alpha").id,
        reason=Reason.OTHER_LEG_STARTED,
        message="The gang in beta was whole first",
    )


def test_there_is_no_second_grant_while_an_epoch_is_open() -> None:
    story = Story().accepted().placed("alpha").placed("beta", Purpose.HEDGE).granted("alpha")
    assert refusal(story, grant(story, "beta"))[0] is Reason.ILLEGAL_IN_STATE
    assert story.tell(grant(story, "alpha")) == ()


def test_a_restored_broker_grants_nothing_before_it_has_seen_every_region() -> None:
    story = Story().accepted().placed()
    with pytest.raises(Refused) as caught:
        story.tell(grant(story), unseen_regions=frozenset({"gamma"}))
    assert caught.value.reason is Reason.NOT_SEEN_SINCE_RESTORE


def test_a_restored_broker_ends_no_placement_in_a_region_that_it_has_not_seen() -> None:
    story = Story().accepted().placed()
    end = EndPlacement(
        placement=story.placement("alpha").id,
        end=PlacementEnd.LOST,
        reason=Reason.NODE_LOST,
        message="It is not there",
    )
    with pytest.raises(Refused) as caught:
        story.tell(end, unseen_regions=frozenset({"alpha"}))
    assert caught.value.reason is Reason.NOT_SEEN_SINCE_RESTORE
    story.tell(end, unseen_regions=frozenset({"gamma"}))
    assert not story.placement("alpha").is_live


@pytest.mark.parametrize(
    ("caps", "reason"),
    [
        (TeamCaps(running_gpus=9), Reason.TEAM_GPUS_SPENT),
        (TeamCaps(budget=Decimal(100)), Reason.TEAM_BUDGET_SPENT),
    ],
)
def test_a_grant_is_held_to_the_teams_caps(caps: TeamCaps, reason: Reason) -> None:
    story = Story().accepted().placed()
    story.team = make_standing(caps=caps, running_gpus=8, spent=Decimal(100))
    assert refusal(story, grant(story)) == (reason, Code.RESOURCE_EXHAUSTED)


def test_a_grant_waits_for_the_copy_that_it_would_resume_from() -> None:
    story = Story().accepted().training().saved(100).preempted().placed("beta").prepared("beta")
    assert refusal(story, grant(story, "beta"))[0] is Reason.CHECKPOINT_NOT_AVAILABLE


def test_a_run_that_lost_all_it_saved_begins_from_nothing_only_when_a_person_says_so() -> None:
    story = Story().accepted().training().saved(100).preempted()
    ref = story.run.checkpoints[0].ref
    story.do(RecordLostCopy(ref=ref, region="alpha", message="bucket gone"))
    story.placed("beta").prepared("beta")
    assert refusal(story, grant(story, "beta"))[0] is Reason.CHECKPOINT_NOT_AVAILABLE
    story.do(ResumeRun(step=None, from_start=True), grant(story, "beta"))
    assert story.epoch.resume_from is None
