"""A start that nobody hears: what its run is told, and who may go on without it."""

from dataclasses import replace
from typing import Any

from broker.history.commands import (
    CloseEpoch,
    ExplainWait,
    ReplaceEpoch,
    StopEpoch,
    WarnRun,
    WithdrawPlacement,
)
from broker.history.events import Warned
from broker.loops.sight import not_configured
from broker.model.reasons import Reason
from broker.model.run import CloseRule, RankEnd
from broker.model.states import EpochState, RunState
from broker.policy.failing import MUTE_S
from broker.policy.judge import next_look_s
from broker.policy.regions import may_go_on_without
from tests.unit.policy.scene import Scene


def training(**policy: Any) -> Scene:
    scene = Scene()
    scene.story.training("alpha")
    scene.rules("alpha", **policy)
    return scene


def who(scene: Scene) -> str | None:
    return may_go_on_without(scene.view, scene.story.epoch, scene.story.now)


def replaced(scene: Scene) -> Scene:
    scene.story.do(ReplaceEpoch(epoch=scene.story.epoch.id, by="ada", message="the region burns"))
    return scene


def test_a_persons_word_stops_the_gang_and_goes_on_only_without_a_silent_region() -> None:
    scene = replaced(training())
    assert scene.story.epoch.state is EpochState.STOPPING
    assert scene.story.epoch.stop is not None
    assert scene.story.epoch.stop.message == "said by ada: the region burns"
    # It answers: the gang is fenced and heard, and no zombie is risked.
    assert who(scene) is None
    scene.falls_silent("alpha")
    assert who(scene) is None, "a moment's silence makes no region unreachable"
    scene.story.wait(60.0)
    assert who(scene) == "ada: the region burns"


def test_what_a_person_said_is_kept_when_it_is_said_again() -> None:
    scene = replaced(training())
    before = scene.run
    replaced(scene)
    assert scene.run == before


def test_going_on_by_a_persons_word_says_aloud_what_the_zombie_may_cost() -> None:
    scene = replaced(training())
    scene.falls_silent("alpha")
    scene.story.wait(60.0)
    scene.says(closed=CloseRule.UNREACHABLE)
    (close,) = scene.obeys()
    assert isinstance(close, CloseEpoch)
    assert (scene.run.state, scene.run.why.reason) == (
        RunState.QUEUED,
        Reason.REPLACED_UNREACHABLE,
    )
    assert scene.run.epochs[-1].is_owed
    (zombie,) = [
        one.event
        for one in scene.story.recorded
        if isinstance(one.event, Warned) and one.event.reason is Reason.ZOMBIE_POSSIBLE
    ]
    assert "USD an hour" in zombie.message
    assert "its fence is owed" in zombie.message


def test_a_run_on_a_silent_cluster_reads_what_comes_next_and_when_until_it_answers() -> None:
    scene = training(replace_unreachable_after_s=600.0)
    scene.falls_silent("alpha")
    silent_s = scene.story.now.elapsed_s
    scene.story.wait(60.0)
    scene.obeys()
    why = scene.run.why
    assert (why.reason, why.next_at_s) == (Reason.CLUSTER_SILENT, silent_s + 600.0)
    assert "believed to train on" in why.message
    assert why.next_action.startswith("the run goes on without it")
    (flavor,) = (f for f in scene.view.flavors.values() if f.region == "alpha")
    scene.sees(flavor)
    scene.obeys()
    assert scene.run.why.reason is Reason.TRAINING
    assert scene.told() == ()


def test_a_stop_that_nobody_hears_is_said_again_and_again_ever_more_rarely() -> None:
    scene = training()
    scene.story.do(StopEpoch(reason=Reason.NO_PROGRESS, message="no step"))
    told = []
    for _ in range(100):
        scene.story.wait(30.0)
        told.append(bool(scene.obeys()))
        assert scene.run.why.reason is Reason.STOPPING
        assert scene.run.why.next_at_s is not None
        # Law 6: no time that was named has long passed.
        assert scene.story.now.since(scene.run.why.next_at_s) <= 90.0
    assert 2 <= sum(told) <= 8


def test_a_cluster_that_is_no_longer_configured_is_said_and_can_be_gone_on_without() -> None:
    scene = training()
    facts = not_configured("alpha", "alpha", scene.story.now)
    scene.view.clusters.pop("alpha")
    scene.view.apply_cluster(facts)
    scene.story.wait(60.0)
    (warning, *_) = scene.obeys()
    assert isinstance(warning, WarnRun)
    assert warning.reason is Reason.CLUSTER_UNREACHABLE
    assert "taken out of the configuration" in warning.message
    assert scene.run.why.reason is Reason.CLUSTER_UNREACHABLE
    assert "configured again" in scene.run.why.next_action
    assert scene.told() == ()
    replaced(scene)
    assert who(scene) == "ada: the region burns"


def test_a_policy_judges_a_cluster_that_is_no_longer_configured_as_any_silent_one() -> None:
    scene = training(replace_unreachable_after_s=900.0)
    began_s = scene.story.now.elapsed_s
    scene.view.apply_cluster(not_configured("alpha", "alpha", scene.story.now))
    scene.story.wait(899.0)
    scene.obeys()
    assert next_look_s(scene.view, scene.run, None, scene.story.now) == began_s + 900.0
    scene.story.wait(1.0)
    scene.obeys()
    assert scene.story.epoch.stop is not None


def test_a_start_reads_the_time_that_the_policy_gives_its_ranks() -> None:
    scene = Scene()
    scene.story.placed().prepared().at_gate().granted().started()
    policy = scene.view.region("alpha").policy
    patience = replace(policy.patience, start_report_s=90.0)
    scene.rules("alpha", patience=patience)
    scene.obeys()
    assert scene.run.why.reason is Reason.STARTING
    assert scene.run.why.next_at_s == scene.story.now.elapsed_s + 90.0


def test_a_leg_where_nobody_looks_any_more_is_given_up_at_once() -> None:
    scene = Scene()
    scene.story.placed().prepared()
    scene.view.apply_cluster(not_configured("alpha", "alpha", scene.story.now))
    (order,) = (one for one in scene.obeys() if isinstance(one, WithdrawPlacement))
    assert order.reason is Reason.CLUSTER_UNREACHABLE
    assert "alpha was taken out of the configuration" in order.message
    assert scene.run.live_placements
    assert not scene.run.waiting_placements


def test_a_gang_that_reports_trains_on_whatever_its_cluster_says_of_its_machines() -> None:
    scene = training()
    for _ in range(10):
        scene.story.wait(MUTE_S)
        now_s = scene.story.now.elapsed_s
        scene.says(cause=Reason.NODE_LOST, heard=((0, now_s - 5.0), (1, now_s)))
        assert scene.told() == ()
    scene.says(cause=Reason.NODE_LOST)  # its store cannot be read: nobody knows
    assert scene.told() == ()


def test_a_gang_that_lost_a_machine_is_stopped_though_nobody_saw_its_process_end() -> None:
    scene = training()
    silent_s = scene.story.now.elapsed_s
    lost: dict[str, Any] = {"cause": Reason.NODE_LOST}
    scene.says(
        **lost, message="One of its machines does not answer.", heard=((0, silent_s), (1, silent_s))
    )
    assert scene.told_after(MUTE_S - 1.0) == ()
    scene.says(
        **lost,
        message="One of its machines does not answer.",
        heard=((0, silent_s + MUTE_S), (1, silent_s)),
    )
    scene.story.wait(1.0)
    (stop,) = scene.obeys()
    assert isinstance(stop, StopEpoch)
    assert (stop.reason, stop.message) == (Reason.NODE_LOST, "One of its machines does not answer.")
    stopped = RankEnd(rank=0, exit_code=143)
    scene.says(**lost, ends=(stopped,))
    assert scene.told_after(60.0) == ()
    (late,) = scene.told_after(60.0)
    assert isinstance(late, ExplainWait)
    assert late.message == (
        "One of its machines does not answer; rank 1 was not seen to stop, and may run on until the"
        " machine is gone for good"
    )
    scene.says(
        **lost, ends=(stopped, RankEnd(rank=1, exit_code=None)), closed=CloseRule.FENCE_HEARD
    )
    (close,) = scene.told()
    assert isinstance(close, CloseEpoch)
