"""Since when a placement has how many machines, from what its cluster tells to the bill."""

from collections.abc import Iterable
from decimal import Decimal

from broker.history.commands import RecordStart, ReportPlacement
from broker.loops.reporting import reports
from broker.loops.translate import machines_of
from broker.model.bill import NodesFrom
from broker.model.billing import live_cost
from broker.model.policy import RegionPolicy
from broker.model.run import CloseRule
from regions.cluster import Cause, PlacementSeen, Stage
from tests.builders import Story
from tests.unit.loops.seeing import CLUSTER, NOW, epoch_seen, placement_seen, sight_of

NOW_S = NOW.elapsed_s


def tell(story: Story, placements: Iterable[PlacementSeen], **sight: object) -> Story:
    """Look at the cluster at NOW, and tell the log."""
    story.wait(NOW_S - story.now.elapsed_s)
    found = reports(story.run, CLUSTER, sight_of(placements, **sight), RegionPolicy(), story.now)  # type: ignore[arg-type]
    return story.do(*found)


def test_machines_are_told_with_the_time_that_each_came() -> None:
    story = Story().accepted().placed().prepared()
    seen = placement_seen(
        story.placement("alpha"),
        story.run,
        stage=Stage.PROVISIONING,
        cause=Cause.NODES_COMING,
        nodes_here=2,
        history=((360.0, 1), (180.0, 2)),
    )
    (report,) = reports(story.run, CLUSTER, sight_of([seen]), RegionPolicy(), NOW)
    assert isinstance(report, ReportPlacement)
    assert report.nodes == (NodesFrom(at_s=640.0, nodes=1), NodesFrom(at_s=820.0, nodes=2))
    tell(story, [seen])
    assert live_cost(story.run, story.now) == Decimal("0.375")  # 540 s at 2.50 an hour


def test_of_what_is_booked_only_the_last_is_told_again() -> None:
    story = Story().accepted().placed().prepared().reported().wait(700.0).provisioned(1)
    leg = story.placement("alpha")
    seen = placement_seen(leg, story.run, history=((900.0, 2), (299.95, 1), (10.0, 0)))
    assert machines_of(leg, seen, NOW_S) == (
        NodesFrom(at_s=700.0, nodes=1),
        NodesFrom(at_s=990.0, nodes=0),
    )
    assert machines_of(leg, seen, None) == ()
    assert len(machines_of(None, seen, NOW_S)) == 3


def test_a_placement_that_ended_between_two_looks_is_paid_until_its_end() -> None:
    story = Story().accepted().placed().prepared().reported()
    seen = placement_seen(
        story.placement("alpha"),
        story.run,
        stage=Stage.ENDED,
        cause=Cause.EVICTED,
        history=((720.0, 2), (360.0, 0)),
    )
    tell(story, [seen])
    assert story.run.spent == Decimal("0.5")
    assert not story.placement("alpha").is_live


def test_a_zombie_found_dead_is_paid_until_it_died() -> None:
    story = Story().accepted().training().closed(rule=CloseRule.UNREACHABLE).wait(500.0)
    seen = placement_seen(
        story.placement("alpha"), story.run, stage=Stage.ENDED, history=((NOW_S, 2), (640.0, 0))
    )
    tell(story, [seen])
    assert story.run.spent == Decimal("0.5")


def test_a_start_that_nobody_saw_is_paid_from_when_its_machines_came() -> None:
    story = Story().accepted().placed().prepared().granted().reported()
    seen = placement_seen(
        story.placement("alpha"),
        story.run,
        stage=Stage.STANDING,
        cause=Cause.NONE,
        nodes_here=2,
        history=((360.0, 2),),
    )
    found = reports(
        story.run, CLUSTER, sight_of([seen], epochs=[epoch_seen(story.run)]), RegionPolicy(), NOW
    )
    assert [command.nodes for command in found if isinstance(command, RecordStart)] == [
        (NodesFrom(at_s=640.0, nodes=2),)
    ]
    story.wait(NOW_S).do(*found)
    assert live_cost(story.run, story.now) == Decimal("0.5")
    assert story.placement("alpha").phases.running == 0.0
    assert story.placement("alpha").entered_s == 640.0


def test_what_vanished_without_a_word_is_paid_until_it_was_missed() -> None:
    story = Story().accepted().placed().prepared().reported().wait(280.0).provisioned(2)
    tell(story, [])
    assert story.run.spent == Decimal("1.0")
