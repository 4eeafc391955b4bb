"""Who is granted, who is stopped, and when."""

from dataclasses import replace
from typing import Any

import pytest

from broker.history.commands import (
    EndPlacement,
    ExplainWait,
    GrantPlacement,
    MarkPrepared,
    RecordCopy,
    RequestDrain,
    RunCommand,
    StopEpoch,
    WarnRun,
    WithdrawPlacement,
)
from broker.model.intent import CheckpointSpec, ProgressSpec
from broker.model.policy import TeamCaps
from broker.model.reasons import Reason
from broker.model.run import CloseRule, Purpose, RankEnd
from broker.model.states import PlacementEnd, PlacementState
from broker.policy.judge import next_look_s
from tests.builders import make_standing
from tests.unit.placement.pictures import make_flavor
from tests.unit.policy.scene import Scene


def ends(*codes: int | None) -> tuple[RankEnd, ...]:
    return tuple(RankEnd(rank=rank, exit_code=code) for rank, code in enumerate(codes))


def training(**workload: Any) -> Scene:
    scene = Scene(**workload)
    scene.story.training()
    return scene


def kinds(commands: tuple[RunCommand, ...]) -> list[type]:
    return [type(one) for one in commands]


def stops(commands: tuple[RunCommand, ...]) -> list[Reason]:
    return [one.reason for one in commands if isinstance(one, StopEpoch)]


# ---- Gangs that do not do well -----------------------------------------------------------------


def test_a_gang_that_lost_a_rank_is_stopped_once_it_is_clear_why() -> None:
    scene = training()
    scene.says(ends=ends(3), first_end_s=0.0)
    assert kinds(scene.told_after(9.0)) == [ExplainWait]
    assert stops(scene.told_after(1.0)) == [Reason.COMMAND_FAILED]


def test_a_rank_that_vanished_is_a_lost_node() -> None:
    scene = training()
    scene.says(ends=ends(None), first_end_s=0.0)
    assert stops(scene.told_after(10.0)) == [Reason.NODE_LOST]


def test_a_rank_that_somebody_told_to_leave_is_no_failure_of_the_command() -> None:
    scene = training()
    told = replace(ends(143)[0], cause="preempted")
    scene.says(ends=(told,), first_end_s=0.0)
    assert stops(scene.told_after(10.0)) == [Reason.EVICTED]


def test_the_rank_that_failed_first_stops_the_rest_though_another_vanished_after_it() -> None:
    scene = training()
    scene.says(
        ends=ends(None, 1),
        first_end_s=0.0,
        cause=Reason.COMMAND_FAILED,
        message="Rank 1 ended with exit code 1",
    )
    (wait,) = scene.told_after(9.0)
    assert isinstance(wait, ExplainWait)
    assert wait.message.startswith("Rank 1 ended with exit code 1; ")
    (stop,) = scene.told_after(1.0)
    assert isinstance(stop, StopEpoch)
    assert (stop.reason, stop.message) == (
        Reason.COMMAND_FAILED,
        "Rank 1 ended with exit code 1 while others went on",
    )


def test_a_known_cause_stops_the_rest_at_once() -> None:
    scene = training()
    scene.says(ends=ends(None), first_end_s=0.0, cause=Reason.EVICTED)
    assert stops(scene.told()) == [Reason.EVICTED]


def test_a_rank_that_is_done_before_the_others_is_no_loss() -> None:
    scene = training()
    scene.says(ends=ends(0), first_end_s=0.0)
    assert scene.told_after(1000.0) == ()


def test_a_start_that_not_all_ranks_reported_is_fenced_and_said() -> None:
    scene = Scene()
    scene.story.placed().prepared().at_gate().granted().started()
    assert stops(scene.told_after(119.0)) == []
    commands = scene.told_after(1.0)
    assert kinds(commands) == [WarnRun, StopEpoch]
    assert stops(commands) == [Reason.START_NOT_REPORTED]


def test_training_that_does_not_save_as_it_said_is_said_once_until_it_saves() -> None:
    scene = training(checkpoint=CheckpointSpec(interval_s=600.0))
    assert scene.told_after(1799.0) == ()
    scene.story.wait(1.0)
    (said,) = scene.obeys()
    assert said == WarnRun(
        reason=Reason.CHECKPOINT_OVERDUE,
        message="no complete checkpoint was seen for 30 min, though it saves every 10 min",
    )
    assert scene.told_after(4000.0) == ()
    scene.story.saved(1)
    assert scene.told_after(1799.0) == ()
    assert [one.reason for one in scene.told_after(1.0) if isinstance(one, WarnRun)] == [
        Reason.CHECKPOINT_OVERDUE
    ]


def test_what_is_saved_behind_a_silence_is_not_missed() -> None:
    scene = training(checkpoint=CheckpointSpec(interval_s=600.0))
    scene.falls_silent(scene.story.epoch.region)
    reasons = [one.reason for one in scene.told_after(1800.0) if isinstance(one, WarnRun)]
    assert Reason.CHECKPOINT_OVERDUE not in reasons


def test_a_rank_that_is_not_heard_is_said_once_for_each_silence_and_nothing_is_stopped() -> None:
    scene = training()
    began_s = scene.story.now.elapsed_s
    scene.says(heard=((0, began_s + 60.0), (1, began_s)))
    assert scene.told_after(119.0) == ()
    scene.story.wait(1.0)
    said = WarnRun(reason=Reason.RANK_UNHEARD, message="rank 1 has not reported for 2 min")
    assert scene.obeys() == (said,)
    assert scene.told_after(30.0) == ()
    again_s = scene.story.now.elapsed_s
    scene.says(heard=((0, again_s), (1, again_s)))
    (said_again,) = scene.told_after(120.0)
    assert isinstance(said_again, WarnRun)
    assert said_again.message == "2 ranks, 0 first, have not reported for 2 min"


def test_a_rank_behind_a_silence_is_not_called_silent() -> None:
    scene = training()
    scene.says(heard=((0, scene.story.now.elapsed_s),))
    scene.falls_silent(scene.story.epoch.region)
    reasons = [one.reason for one in scene.told_after(600.0) if isinstance(one, WarnRun)]
    assert Reason.RANK_UNHEARD not in reasons


def test_training_without_a_step_is_stopped_after_the_users_timeout() -> None:
    scene = training(progress=ProgressSpec(timeout_s=300.0))
    scene.story.wait(200.0)
    scene.story.trained(10)
    assert scene.told_after(299.0) == ()
    assert stops(scene.told_after(1.0)) == [Reason.NO_PROGRESS]


def test_silence_is_no_evidence_against_a_gang() -> None:
    scene = training(progress=ProgressSpec(timeout_s=300.0))
    scene.falls_silent("alpha")
    commands = scene.told_after(10_000.0)
    assert stops(commands) == []
    assert [one.reason for one in commands if isinstance(one, WarnRun)] == [Reason.CLUSTER_SILENT]
    scene.story.do(*commands)
    assert scene.told_after(100.0) == ()


def test_a_silent_region_is_replaced_when_its_policy_says_so() -> None:
    scene = training()
    scene.rules("alpha", replace_unreachable_after_s=900.0)
    scene.falls_silent("alpha")
    scene.story.wait(899.0)
    assert stops(scene.obeys()) == []
    assert stops(scene.told_after(1.0)) == [Reason.REPLACED_UNREACHABLE]


def test_a_preemption_notice_gives_its_time_to_saving() -> None:
    scene = training()
    scene.says(notice_until_s=30.0, cause=Reason.NODE_PREEMPTED)
    (drain,) = scene.obeys()
    assert isinstance(drain, RequestDrain)
    assert (drain.reason, drain.grace_s) == (Reason.NODE_PREEMPTED, 30.0)
    scene.says(ends=ends(1), first_end_s=10.0, notice_until_s=30.0, cause=Reason.NODE_PREEMPTED)
    assert scene.told_after(29.0) == ()
    assert stops(scene.told_after(1.0)) == [Reason.NODE_PREEMPTED]


# ---- Regions -----------------------------------------------------------------------------------


def test_a_drained_region_is_left_and_a_cordoned_one_keeps_its_gangs() -> None:
    scene = training()
    scene.rules("alpha", cordon=True)
    assert scene.told() == ()
    scene.rules("alpha", drain=True)
    (drain,) = scene.told()
    assert isinstance(drain, RequestDrain)
    assert drain.reason is Reason.REGION_DRAINING


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"cordon": True}, (Reason.REGION_CORDONED, "alpha was cordoned: works")),
        ({"drain": True}, (Reason.REGION_DRAINING, "alpha is being drained: works")),
        ({"is_allowed": False}, (Reason.POLICY_DISALLOWS, "ops no longer allow alpha")),
    ],
)
def test_legs_leave_a_region_that_was_closed(
    rules: dict[str, bool], reason: tuple[Reason, str]
) -> None:
    scene = Scene()
    scene.story.placed().prepared().reported()
    scene.rules("alpha", said="works", **rules)
    withdrawals = [one for one in scene.told() if isinstance(one, WithdrawPlacement)]
    assert [(one.reason, one.message) for one in withdrawals] == [reason]


# ---- Grants ------------------------------------------------------------------------------------


def granted(commands: tuple[RunCommand, ...]) -> list[str]:
    return [one.placement[:4] for one in commands if isinstance(one, GrantPlacement)]


def test_the_first_whole_gang_is_granted() -> None:
    scene = Scene()
    scene.story.placed().prepared().reported()
    scene.story.placed("beta", Purpose.HEDGE).prepared("beta")
    assert granted(scene.told()) == []
    scene.story.at_gate("beta").wait(1.0).at_gate("alpha")
    assert granted(scene.obeys()) == ["beta"]
    assert granted(scene.told()) == []


def test_a_single_leg_whose_nodes_were_free_has_its_grant_at_once() -> None:
    scene = Scene()
    scene.story.placed(forecast_p50_s=5.0)
    assert granted(scene.obeys()) == ["alph"]
    assert granted(scene.told()) == []


def test_a_single_leg_that_may_yet_be_hedged_waits_at_its_gate() -> None:
    scene = Scene()
    scene.story.placed().prepared().reported()
    assert granted(scene.told()) == []


def test_nothing_is_granted_while_a_region_was_not_read_after_a_restore() -> None:
    scene = Scene()
    scene.story.placed().prepared().at_gate()
    scene.view.apply_region(replace(scene.view.region("gamma"), is_surveyed=False))
    assert granted(scene.told()) == []


def test_nothing_is_granted_where_it_would_not_be_heard() -> None:
    scene = Scene()
    scene.story.placed().prepared().at_gate()
    scene.falls_silent("alpha")
    assert granted(scene.told()) == []


@pytest.mark.parametrize(("cap", "went"), [(1, []), (2, ["alph"])])
def test_a_grant_keeps_the_teams_cap(cap: int, went: list[str]) -> None:
    scene = Scene()
    scene.story.placed().prepared().at_gate()
    scene.view.apply_team("vision", make_standing(caps=TeamCaps(running_gpus=cap)))
    assert granted(scene.told()) == went


def test_an_early_grant_gives_way_to_a_gang_that_is_whole_first() -> None:
    scene = Scene()
    scene.story.placed(forecast_p50_s=5.0).prepared().granted()
    scene.story.placed("beta", Purpose.HEDGE).prepared("beta").at_gate("beta")
    assert stops(scene.obeys()) == [Reason.OTHER_LEG_STARTED]
    scene.says(closed=CloseRule.NEVER_STARTED)
    scene.obeys()
    scene.facts = None
    assert granted(scene.told()) == ["beta"]


def test_no_gang_takes_a_grant_over_that_its_checkpoint_has_not_reached() -> None:
    scene = training()
    scene.story.saved(10, "beta").preempted()
    scene.story.placed("beta", Purpose.REQUEUE).prepared("beta").granted("beta")
    scene.story.placed("gamma", Purpose.HEDGE).prepared("gamma").at_gate("gamma")
    assert scene.told() == ()
    scene.story.do(RecordCopy(ref=scene.run.checkpoints[-1].ref, region="gamma"))
    assert stops(scene.told()) == [Reason.OTHER_LEG_STARTED]


# ---- Content -----------------------------------------------------------------------------------


def prepared(commands: tuple[RunCommand, ...]) -> int:
    return sum(isinstance(one, MarkPrepared) for one in commands)


def test_a_leg_waits_for_its_bundle() -> None:
    scene = Scene(bundle_digest="b" * 64)
    scene.story.placed()
    assert prepared(scene.told()) == 0
    scene.view.apply_bundle("b" * 64, frozenset({"alpha"}))
    assert prepared(scene.told()) == 1


def test_a_bundle_that_a_gang_found_damaged_is_waited_for_again() -> None:
    scene = Scene(bundle_digest="b" * 64)
    scene.view.apply_bundle("b" * 64, frozenset({"alpha", "beta"}))
    scene.story.placed().prepared()
    scene.told()
    end = EndPlacement(
        placement=scene.story.placement("alpha").id,
        end=PlacementEnd.FAILED,
        reason=Reason.BUNDLE_DAMAGED,
        message="its bundle is damaged",
    )
    scene.story.do(end).placed()
    assert prepared(scene.told()) == 0
    assert scene.view.bundle_regions == {"b" * 64: frozenset({"beta"})}
    scene.view.apply_bundle("b" * 64, frozenset({"alpha", "beta"}))
    assert prepared(scene.told()) == 1


def test_a_leg_waits_for_the_newest_checkpoint_then_takes_one_within_reach() -> None:
    scene = training()
    scene.story.saved(10, "beta").saved(20).preempted().placed("beta", Purpose.REQUEUE)
    assert prepared(scene.told_after(1799.0)) == 0
    assert prepared(scene.told_after(1.0)) == 1


def test_a_run_with_checkpoints_never_starts_from_nothing_for_want_of_a_copy() -> None:
    scene = training()
    scene.story.saved(10).preempted().placed("beta", Purpose.REQUEUE)
    assert prepared(scene.told_after(100_000.0)) == 0


# ---- Planned ends and gates --------------------------------------------------------------------


def test_a_gang_on_bounded_machines_saves_before_they_go() -> None:
    scene = training()
    scene.sees(
        make_flavor("alpha", flavor="spot", region="alpha", accelerator="h100", max_run_s=3600.0)
    )
    # A minute to save, half of one to end when told to, and ten seconds until it is heard.
    assert scene.told_after(3499.0) == ()
    (drain,) = scene.told_after(1.0)
    assert isinstance(drain, RequestDrain)
    assert (drain.reason, drain.grace_s) == (Reason.PLANNED_END, 60.0)


def test_a_team_without_minutes_left_keeps_its_most_advanced_leg() -> None:
    scene = Scene()
    scene.story.placed().prepared().reported()
    scene.story.placed("beta", Purpose.HEDGE).prepared("beta")
    scene.story.reported("beta", PlacementState.PROVISIONING, Reason.NODES_COMING)
    caps = TeamCaps(gate_gpu_minutes_per_day=10.0)
    scene.view.apply_team("vision", make_standing(caps=caps, gate_gpu_minutes_today=10.0))
    (order,) = scene.told()
    assert isinstance(order, WithdrawPlacement)
    assert order.placement.startswith("alpha")


# ---- The next look -----------------------------------------------------------------------------


def test_the_next_look_is_when_something_is_due() -> None:
    scene = Scene()
    scene.story.placed().prepared().at_gate().granted().started()
    scene.view.apply_run(scene.run)
    assert next_look_s(scene.view, scene.run, None, scene.story.now) == 30.0
    scene.story.wait(100.0)
    assert next_look_s(scene.view, scene.run, None, scene.story.now) == 120.0


def test_nothing_is_due_for_a_run_that_has_ended() -> None:
    scene = training()
    scene.story.closed()
    assert next_look_s(scene.view, scene.run, None, scene.story.now) is None
    assert scene.told() == ()
