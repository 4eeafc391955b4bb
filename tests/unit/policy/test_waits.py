"""Each cause of a wait has its own patience, verdict and remedy."""

from decimal import Decimal

import pytest

from broker.history.commands import (
    AcceptRun,
    JudgeStuck,
    MarkPrepared,
    RunCommand,
    StopEpoch,
    WithdrawPlacement,
)
from broker.model.capacity_seen import ClusterWord
from broker.model.image import PinnedImage
from broker.model.policy import RegionPolicy, TeamCaps, TeamStanding
from broker.model.reasons import Reason
from broker.model.run import Arrival, Purpose
from broker.model.states import PlacementState
from broker.placement.explain import explain
from broker.placement.patience import ROWS, Remedy
from tests.builders import Story
from tests.unit.history.test_charging import NO_PYTHON
from tests.unit.placement.pictures import make_flavor
from tests.unit.policy.scene import Scene

Q, P = PlacementState.QUEUED, PlacementState.PROVISIONING
CASES = [
    (Q, Reason.WAITING_FOR_QUOTA, 600.0, Reason.QUOTA_EXHAUSTED),
    (Q, Reason.WAITING_FOR_FLEX, 1800.0, Reason.FLEX_SILENT),
    (Q, Reason.FLEX_SILENT, 0.0, Reason.FLEX_SILENT),
    (Q, Reason.FLEX_FAILED, 0.0, Reason.FLEX_FAILED),
    (P, Reason.BOOKING_EXPIRED, 0.0, Reason.BOOKING_EXPIRED),
    (P, Reason.CAPACITY_REVOKED, 0.0, Reason.CAPACITY_REVOKED),
    (Q, Reason.QUEUE_STOPPED, 600.0, Reason.QUEUE_STOPPED),
    (Q, Reason.QUOTA_TOO_SMALL, 0.0, Reason.QUOTA_TOO_SMALL),
    (Q, Reason.CHECK_NOT_RERUN, 120.0, Reason.CHECK_NOT_RERUN),
    (Q, Reason.WEDGED, 120.0, Reason.WEDGED),
    (P, Reason.NODES_COMING, 120.0, Reason.NODES_DO_NOT_COME),
    (P, Reason.STOCKOUT, 120.0, Reason.STOCKOUT),
    (P, Reason.PARTIAL_ARRIVAL, 60.0, Reason.PARTIAL_ARRIVAL),
    (P, Reason.PODS_STARTING, 300.0, Reason.GANG_NOT_WHOLE),
    (P, Reason.IMAGE_PULL_FAILING, 300.0, Reason.IMAGE_PULL_FAILING),
    (P, Reason.GANG_NOT_WHOLE, 300.0, Reason.GANG_NOT_WHOLE),
    (P, Reason.WAITING_FOR_CAPACITY, 120.0, Reason.NODES_DO_NOT_COME),
    (P, Reason.NODE_PREEMPTED, 120.0, Reason.NODE_PREEMPTED),
    (P, Reason.NODE_LOST, 120.0, Reason.NODE_LOST),
    (Q, Reason.NEVER_FITS, 0.0, Reason.NEVER_FITS),
    (Q, Reason.REFUSED_BY_CLUSTER, 0.0, Reason.REFUSED_BY_CLUSTER),
    (Q, Reason.UNKNOWN, 600.0, Reason.UNKNOWN),
]
# By name, for what stands in the way of each is not in what its cluster reports of a wait.
ELSEWHERE = {
    Reason.PREPARING_CONTENT: "test_content_on_its_way_has_a_patience_of_its_own",
    Reason.IMAGE_NOT_THERE: "test_an_image_that_does_not_come_is_why_a_leg_is_judged",
    Reason.REGISTRY_UNREACHABLE: "test_an_image_that_does_not_come_is_why_a_leg_is_judged",
    Reason.AT_GATE: "test_a_gang_that_nobody_lets_pass_gives_its_nodes_back",
}


def waiting(state: PlacementState, reason: Reason) -> Scene:
    scene = Scene()
    scene.story.placed().prepared().reported(state=state, reason=reason)
    return scene


def causes(commands: tuple[RunCommand, ...]) -> list[Reason]:
    return [one.cause for one in commands if isinstance(one, JudgeStuck)]


def withdrawn(commands: tuple[RunCommand, ...]) -> list[tuple[str, Reason]]:
    return [
        (one.placement[:4], one.reason) for one in commands if isinstance(one, WithdrawPlacement)
    ]


@pytest.mark.parametrize(("state", "reason", "patience_s", "cause"), CASES)
def test_a_wait_is_judged_by_its_cause_once_its_patience_is_over(
    state: PlacementState, reason: Reason, patience_s: float, cause: Reason
) -> None:
    scene = waiting(state, reason)
    if patience_s:
        assert causes(scene.told_after(patience_s - 1.0)) == []
        scene.story.wait(1.0)
    commands = scene.obeys()
    assert causes(commands) == [cause]
    (verdict,) = (one for one in commands if isinstance(one, JudgeStuck))
    assert "alpha" in verdict.evidence
    assert verdict.action
    assert causes(scene.told()) == []


def test_every_named_cause_of_a_wait_has_its_case() -> None:
    assert {case[1] for case in CASES} | ELSEWHERE.keys() == ROWS.keys()
    assert set(ELSEWHERE.values()) <= globals().keys()


def test_content_on_its_way_has_a_patience_of_its_own() -> None:
    scene = Scene(bundle_digest="b" * 64)
    scene.story.placed()
    assert causes(scene.told_after(1_799.0)) == []
    scene.story.wait(1.0)
    assert causes(scene.obeys()) == [Reason.COPY_SLOW]
    assert withdrawn(scene.told_after(10_000.0)) == []


IMAGE = PinnedImage(name=f"r.example/llm@sha256:{'a' * 64}", size_bytes=5_000_000_000)


def pulling(*regions: str) -> Scene:
    """Return a scene whose run has an image, and whose regions pull it."""
    scene = Scene()
    scene.story = Story(scene.story.run.intent)
    scene.story.do(scene.story.submit, AcceptRun(image=IMAGE))
    for region in regions:
        scene.view.apply_registry(region, 1e8)
    return scene


@pytest.mark.parametrize("reason", [Reason.IMAGE_NOT_THERE, Reason.REGISTRY_UNREACHABLE])
def test_an_image_that_does_not_come_is_why_a_leg_is_judged(reason: Reason) -> None:
    scene = pulling("alpha")
    scene.story.placed()
    assert causes(scene.told_after(1_799.0)) == []
    scene.view.tell_image(IMAGE.name, "alpha", (reason, "it is being copied"))
    scene.story.wait(1.0)
    (verdict,) = [one for one in scene.told() if isinstance(one, JudgeStuck)]
    assert verdict.cause is reason
    assert verdict.evidence.endswith("in alpha: it is being copied")
    scene.obeys()
    assert causes(scene.told_after(10.0)) == []


def test_a_leg_is_queued_once_its_image_is_there_and_waits_where_it_was_taken() -> None:
    scene = pulling("alpha")
    scene.story.placed()
    prepared = [one for one in scene.told() if isinstance(one, MarkPrepared)]
    scene.view.apply_image(IMAGE.name, "alpha", is_there=True)
    there = [one for one in scene.told() if isinstance(one, MarkPrepared)]
    scene.view.apply_image(IMAGE.name, "alpha", is_there=False)
    gone = [one for one in scene.told() if isinstance(one, MarkPrepared)]
    assert (prepared, len(there), gone) == ([], 1, [])


def test_a_region_that_pulls_no_images_waits_for_none() -> None:
    scene = pulling("beta")
    scene.story.placed()
    assert any(isinstance(one, MarkPrepared) for one in scene.told())


def test_a_gang_that_nobody_lets_pass_gives_its_nodes_back() -> None:
    scene = Scene()
    scene.story.placed().prepared().at_gate()
    scene.rules("beta", cordon=True)
    scene.view.apply_team("vision", spent_cap())
    assert causes(scene.told_after(899.0)) == []
    scene.story.wait(1.0)
    assert causes(scene.obeys()) == [Reason.GATE_TIMEOUT]
    assert withdrawn(scene.told()) == [("alph", Reason.GATE_TIMEOUT)]


def spent_cap() -> TeamStanding:
    """Return a team that may run nothing more, so that no gang of it is granted."""
    return TeamStanding(
        caps=TeamCaps(running_gpus=0),
        running_gpus=0,
        gate_gpus=0,
        gate_gpu_minutes_today=0.0,
        spent=Decimal(0),
    )


def test_every_row_says_what_happens_next() -> None:
    assert all(row.next_action and row.patience_s(RegionPolicy()) >= 0.0 for row in ROWS.values())


def test_nodes_get_twice_the_time_that_they_are_known_to_take() -> None:
    scene = waiting(P, Reason.NODES_COMING)
    slow = make_flavor("alpha", flavor="spot", region="alpha", accelerator="h100", startup_s=300.0)
    scene.sees(slow)
    assert causes(scene.told_after(599.0)) == []
    assert causes(scene.told_after(1.0)) == [Reason.NODES_DO_NOT_COME]


def test_a_change_of_cause_starts_another_patience() -> None:
    scene = waiting(P, Reason.NODES_COMING)
    scene.story.wait(119.0)
    scene.story.reported(state=P, reason=Reason.PARTIAL_ARRIVAL)
    assert causes(scene.told_after(59.0)) == []
    assert causes(scene.told_after(1.0)) == [Reason.PARTIAL_ARRIVAL]


def flips(scene: Scene, times: int) -> None:
    """Let a cloud try again and again, and be out of stock each time."""
    for _ in range(times):
        for reason in (Reason.STOCKOUT, Reason.NODES_COMING):
            scene.story.reported(state=P, reason=reason).wait(5.0)


def test_a_cause_that_comes_and_goes_is_judged_when_it_first_came_so_long_ago() -> None:
    scene = waiting(P, Reason.NODES_COMING)
    flips(scene, 12)
    assert causes(scene.told_after(0.0)) == [Reason.NODES_DO_NOT_COME]
    scene = waiting(P, Reason.NODES_COMING)
    flips(scene, 6)
    scene.story.reported(state=Q, reason=Reason.WAITING_FOR_QUOTA)
    flips(scene, 6)
    assert causes(scene.told()) == [], "it came on and fell back, and waits anew"


def test_machines_are_given_back_by_the_first_verdict_though_its_cause_comes_and_goes() -> None:
    scene = waiting(P, Reason.STOCKOUT)
    scene.story.wait(120.0)
    assert causes(scene.obeys()) == [Reason.STOCKOUT]
    for _ in range(12):
        flips(scene, 1)
        if orders := withdrawn(scene.obeys()):
            break
    assert orders == [("alph", Reason.STOCKOUT)]


def test_the_evidence_counts_the_nodes_that_came() -> None:
    scene = waiting(P, Reason.NODES_COMING)
    scene.story.reported(
        state=P,
        reason=Reason.PARTIAL_ARRIVAL,
        arrival=Arrival(nodes_here=5, nodes_wanted=8),
    )
    (verdict,) = scene.told_after(60.0)
    assert isinstance(verdict, JudgeStuck)
    assert "5 of 8 nodes there" in verdict.evidence


def test_nodes_held_for_nothing_are_given_back_after_as_long_again() -> None:
    scene = waiting(P, Reason.PARTIAL_ARRIVAL)
    scene.story.wait(60.0)
    scene.obeys()
    assert withdrawn(scene.told_after(59.0)) == []
    assert withdrawn(scene.told_after(1.0)) == [("alph", Reason.PARTIAL_ARRIVAL)]


NO_OTHER = "no other place is open to it now; all are looked at again"


def said(scene: Scene) -> tuple[str, float]:
    """Return what the run is told that happens next, and in how many seconds."""
    scene.view.apply_run(scene.run)
    wait = explain(scene.view, scene.run, scene.story.now).wait
    return wait.next_action, wait.next_at_s - scene.story.now.elapsed_s


def alone(state: PlacementState, reason: Reason) -> Scene:
    """Return a run whose leg waits in the one place that is open to it."""
    scene = waiting(state, reason)
    scene.rules("beta", cordon=True)
    scene.rules("gamma", cordon=True)
    return scene


def test_without_another_place_what_is_held_is_said_to_be_given_back_when_it_is() -> None:
    scene = alone(P, Reason.PARTIAL_ARRIVAL)
    back = f"this one is given back, though {NO_OTHER}"
    assert said(scene) == (back, 120.0)
    scene.story.wait(60.0)
    (verdict,) = scene.obeys()
    assert isinstance(verdict, JudgeStuck)
    assert verdict.action == back
    told = "this one is given back; other places are looked at till then"
    assert said(scene) == (told, 60.0)
    assert withdrawn(scene.told_after(59.0)) == []
    assert withdrawn(scene.told_after(1.0)) == [("alph", Reason.PARTIAL_ARRIVAL)]


def test_with_another_place_its_leg_is_said_to_come_first() -> None:
    scene = waiting(P, Reason.PARTIAL_ARRIVAL)
    action = "a leg in another place is added, then this one is given back"
    assert said(scene) == (action, 60.0)
    (verdict,) = scene.told_after(60.0)
    assert isinstance(verdict, JudgeStuck)
    assert verdict.action == action


def test_without_another_place_a_place_in_line_is_said_to_be_kept() -> None:
    scene = alone(Q, Reason.WAITING_FOR_QUOTA)
    assert said(scene) == (f"this one keeps its place, for {NO_OTHER}", 600.0)


def test_a_policy_without_a_second_leg_leaves_no_other_place_open() -> None:
    scene = waiting(P, Reason.PARTIAL_ARRIVAL)
    scene.rules("alpha", hedge_width=1)
    assert said(scene)[0].endswith(NO_OTHER)


def test_a_leg_that_is_withdrawn_at_once_makes_room_for_another() -> None:
    scene = waiting(Q, Reason.WEDGED)
    scene.rules("alpha", hedge_width=1)
    assert said(scene)[0] == "this leg is withdrawn and another place is tried"
    scene.rules("beta", cordon=True)
    scene.rules("gamma", cordon=True)
    assert said(scene)[0] == f"this one is withdrawn, though {NO_OTHER}"


def test_a_place_in_line_costs_nothing_and_is_kept() -> None:
    scene = waiting(Q, Reason.WAITING_FOR_QUOTA)
    scene.story.wait(600.0)
    scene.obeys()
    assert withdrawn(scene.told_after(100_000.0)) == []


def test_the_oldest_place_in_line_is_left_when_the_run_has_no_room_and_another_place() -> None:
    scene = waiting(Q, Reason.WAITING_FOR_QUOTA)
    scene.story.wait(600.0)
    scene.obeys()
    scene.story.placed("beta", Purpose.HEDGE).prepared("beta").reported("beta")
    scene.story.wait(600.0)
    scene.obeys()
    assert withdrawn(scene.told_after(600.0)) == [("alph", Reason.QUOTA_EXHAUSTED)]
    scene.rules("gamma", cordon=True)
    assert withdrawn(scene.told()) == []


def test_what_can_never_come_is_left_at_once() -> None:
    scene = waiting(Q, Reason.QUOTA_TOO_SMALL)
    scene.obeys()
    assert withdrawn(scene.told()) == [("alph", Reason.QUOTA_TOO_SMALL)]


def test_a_cluster_that_does_not_answer_makes_its_legs_stuck_and_nothing_else() -> None:
    scene = waiting(P, Reason.PARTIAL_ARRIVAL)
    scene.falls_silent("alpha")
    assert causes(scene.told_after(59.0)) == []
    scene.story.wait(1.0)
    assert causes(scene.obeys()) == [Reason.CLUSTER_SILENT]
    assert withdrawn(scene.told_after(1_000.0)) == []


def test_a_whole_gang_is_not_given_back_for_an_old_verdict() -> None:
    scene = waiting(P, Reason.PARTIAL_ARRIVAL)
    scene.story.wait(60.0)
    scene.obeys()
    scene.story.at_gate()
    assert withdrawn(scene.told_after(500.0)) == []


def test_an_early_grant_that_is_given_up_is_revoked_first() -> None:
    scene = waiting(P, Reason.PARTIAL_ARRIVAL)
    scene.story.granted().wait(60.0)
    assert causes(scene.obeys()) == [Reason.PARTIAL_ARRIVAL]
    (order,) = scene.told_after(60.0)
    assert isinstance(order, StopEpoch)
    assert order.reason is Reason.PARTIAL_ARRIVAL


def test_remedies_that_hold_machines_move_and_those_in_line_widen() -> None:
    remedies = {row.cause: row.remedy for row in ROWS.values()}
    assert remedies[Reason.QUOTA_EXHAUSTED] is Remedy.WIDEN
    assert remedies[Reason.FLEX_SILENT] is Remedy.WIDEN
    assert remedies[Reason.STOCKOUT] is remedies[Reason.PARTIAL_ARRIVAL] is Remedy.MOVE
    assert remedies[Reason.WEDGED] is Remedy.LEAVE


def test_a_verdict_of_silence_gives_way_to_what_is_seen_when_the_cluster_is_back() -> None:
    scene = waiting(P, Reason.PARTIAL_ARRIVAL)
    scene.falls_silent("alpha")
    scene.story.wait(60.0)
    assert causes(scene.obeys()) == [Reason.CLUSTER_SILENT]
    scene.sees(make_flavor("alpha", flavor="spot", region="alpha", accelerator="h100"))
    assert causes(scene.obeys()) == [Reason.PARTIAL_ARRIVAL]
    assert withdrawn(scene.told_after(60.0)) == [("alph", Reason.PARTIAL_ARRIVAL)]


@pytest.mark.parametrize("word", [NO_PYTHON, None])
def test_what_the_cluster_refused_is_given_back_with_its_words(word: ClusterWord | None) -> None:
    scene = Scene()
    refused = Reason.REFUSED_BY_CLUSTER
    scene.story.placed().prepared().reported(state=P, reason=refused, word=word)
    scene.obeys()
    [order] = [one for one in scene.told() if isinstance(one, WithdrawPlacement)]
    assert (order.reason, order.message) == (refused, "REFUSED_BY_CLUSTER in alpha")
