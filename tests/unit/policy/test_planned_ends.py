"""Machines with a planned end: when their gang leaves them, and for what."""

from typing import Any

from broker.history.commands import (
    GrantPlacement,
    JudgeStuck,
    RecordCopy,
    RecordDrainAck,
    RequestDrain,
    RunCommand,
    WithdrawPlacement,
)
from broker.model.intent import CapacityType, Terms
from broker.model.reasons import Reason
from broker.model.run import CloseRule, Purpose
from broker.model.states import PlacementState, RunState
from tests.builders import make_terms
from tests.unit.placement.pictures import make_flavor
from tests.unit.policy.scene import Scene

WEEK_S = 7 * 86_400.0
MARGIN_S = 60.0 + 30.0 + 10.0  # to save, to end when told to, and until that is heard


def bounded(scene: Scene, region: str = "alpha", **changes: Any) -> None:
    fields: dict[str, Any] = {"flavor": "spot", "region": region, "accelerator": "h100", **changes}
    scene.sees(make_flavor(region, **fields))


def training(**changes: Any) -> Scene:
    """A gang that trains on machines that stay for a week."""
    scene = Scene()
    bounded(scene, **{"max_run_s": WEEK_S, **changes})
    scene.story.training()
    return scene


def drains(commands: tuple[RunCommand, ...]) -> list[RequestDrain]:
    return [one for one in commands if isinstance(one, RequestDrain)]


def successor(scene: Scene, region: str = "beta", *, is_whole: bool = True) -> None:
    scene.story.placed(region, Purpose.SUCCESSOR).prepared(region)
    if is_whole:
        scene.story.at_gate(region)


def test_what_the_machines_themselves_are_told_counts_more_than_their_kind() -> None:
    scene = training()
    scene.story.reported("alpha", PlacementState.RUNNING, Reason.TRAINING, machines_end_s=50_000.0)
    assert drains(scene.told_after(50_000.0 - MARGIN_S - 1.0)) == []
    (drain,) = drains(scene.told_after(1.0))
    assert drain.reason is Reason.PLANNED_END


def test_of_machines_that_are_soon_gone_half_is_for_training() -> None:
    """Asked at once, the gang would be moved from one such place to the next and never train."""
    scene = training()
    scene.story.reported("alpha", PlacementState.RUNNING, Reason.TRAINING, machines_end_s=120.0)
    assert drains(scene.told_after(59.0)) == []
    assert len(drains(scene.told_after(1.0))) == 1


def test_a_look_that_tells_no_end_takes_none_back() -> None:
    scene = training()
    scene.story.reported("alpha", PlacementState.RUNNING, Reason.TRAINING, machines_end_s=50_000.0)
    scene.story.reported("alpha", PlacementState.RUNNING, Reason.TRAINING, message="again")
    assert scene.story.placement("alpha").machines_end_s == 50_000.0


def test_an_end_that_is_told_a_second_apart_is_no_news() -> None:
    scene = training()
    told: dict[str, Any] = {"machines_end_s": 50_000.0}
    scene.story.reported("alpha", PlacementState.RUNNING, Reason.TRAINING, **told)
    count = len(scene.story.events)
    scene.story.reported("alpha", PlacementState.RUNNING, Reason.TRAINING, machines_end_s=50_001.0)
    assert len(scene.story.events) == count


def test_a_gang_that_was_seen_to_save_slowly_is_asked_earlier() -> None:
    scene = training()
    scene.story.saved(10, "beta").wait(WEEK_S - MARGIN_S)
    scene.obeys()
    scene.story.wait(300.0).do(RecordDrainAck(epoch=scene.story.epoch.id, step=20))
    scene.obeys()
    scene.story.wait(100.0).closed(143, 143, rule=CloseRule.FENCE_HEARD)
    bounded(scene, "beta", max_run_s=WEEK_S)
    scene.story.training("beta", Purpose.REQUEUE)
    # It took 400 s: half as much again is kept for the next one.
    margin_s = 600.0 + 30.0 + 10.0
    assert drains(scene.told_after(WEEK_S - margin_s - 1.0)) == []
    (drain,) = drains(scene.told_after(1.0))
    assert drain.grace_s == 600.0


def test_a_gang_hands_over_as_soon_as_its_successor_stands() -> None:
    scene = training()
    scene.story.saved(10)
    successor(scene, is_whole=False)
    assert drains(scene.told()) == []
    scene.story.at_gate("beta")
    (drain,) = drains(scene.told())
    assert drain.reason is Reason.PLANNED_END
    assert "its successor stands ready in beta" in drain.message


def test_a_gang_that_saved_nothing_yet_is_left_its_time() -> None:
    scene = training()
    successor(scene)
    assert drains(scene.told()) == []
    assert drains(scene.told_after(WEEK_S - MARGIN_S)) != []


def test_a_hedge_hands_nothing_over() -> None:
    scene = Scene()
    scene.story.training().saved(10)
    successor(scene)
    assert drains(scene.told()) == []


def test_a_handover_is_no_loss_and_the_successor_is_granted_after_the_close_alone() -> None:
    scene = training()
    scene.story.saved(10, "beta")
    successor(scene)
    scene.obeys()
    assert not any(isinstance(one, GrantPlacement) for one in scene.told())
    scene.story.do(RecordDrainAck(epoch=scene.story.epoch.id, step=10))
    scene.obeys()
    assert not any(isinstance(one, GrantPlacement) for one in scene.told())
    scene.story.closed(143, 143, rule=CloseRule.FENCE_HEARD)
    run = scene.run
    assert (run.state, run.why.reason) == (RunState.QUEUED, Reason.PLANNED_END)
    assert (run.infrastructure_losses, run.user_failures) == (0, 0)
    (grant,) = (one for one in scene.told() if isinstance(one, GrantPlacement))
    assert grant.placement.startswith("beta")


def test_a_successor_waits_for_what_was_saved_last_within_its_time_at_the_gate() -> None:
    scene = training()
    scene.story.saved(10, "beta")
    successor(scene)
    scene.obeys()
    scene.story.do(RecordDrainAck(epoch=scene.story.epoch.id, step=20))
    scene.obeys()
    last = scene.story.found(20)
    scene.story.closed(143, 143, rule=CloseRule.FENCE_HEARD, found=(last,))

    def grants(commands: tuple[RunCommand, ...]) -> list[GrantPlacement]:
        return [one for one in commands if isinstance(one, GrantPlacement)]

    assert grants(scene.told_after(449.0)) == []
    assert len(grants(scene.told_after(1.0))) == 1
    scene.story.do(RecordCopy(ref=last.ref, region="beta"))
    assert len(grants(scene.told())) == 1


FLEX_ONLY = make_terms(capacity_types=(CapacityType.FLEX,))


def booked(*, terms: Terms = FLEX_ONLY) -> Scene:
    """A run whose one leg waits in alpha for a booking; beta and gamma have flex too."""
    scene = Scene(terms=terms)
    for region in ("alpha", "beta", "gamma"):
        bounded(scene, region, capacity_type=CapacityType.FLEX)
    scene.story.placed(capacity_type=CapacityType.FLEX).prepared()
    return scene


def test_a_booking_with_a_time_is_not_silent_before_it_has_passed() -> None:
    scene = booked()
    scene.story.reported(reason=Reason.WAITING_FOR_FLEX, expected_s=9_000.0)
    assert causes(scene.told_after(9_119.0)) == []
    assert causes(scene.told_after(1.0)) == [Reason.FLEX_SILENT]


def test_a_silent_booking_leaves_where_every_other_place_is_flex() -> None:
    """No second booking stands beside it: kept, it would keep its run from all of them."""
    scene = booked()
    scene.story.reported(reason=Reason.FLEX_SILENT)
    assert causes(scene.obeys()) == [Reason.FLEX_SILENT]
    assert left(scene.told_after(1_799.0)) == []
    assert left(scene.told_after(1.0)) == [Reason.FLEX_SILENT]


def test_a_silent_booking_stays_where_another_kind_of_place_can_stand_beside_it() -> None:
    scene = booked(terms=make_terms(capacity_types=(CapacityType.FLEX, CapacityType.SPOT)))
    bounded(scene, "gamma")
    scene.story.reported(reason=Reason.FLEX_SILENT)
    scene.obeys()
    assert left(scene.told_after(10_000.0)) == []


def causes(commands: tuple[RunCommand, ...]) -> list[Reason]:
    return [one.cause for one in commands if isinstance(one, JudgeStuck)]


def left(commands: tuple[RunCommand, ...]) -> list[Reason]:
    return [one.reason for one in commands if isinstance(one, WithdrawPlacement)]
