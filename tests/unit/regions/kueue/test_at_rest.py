"""A gang that completed is shown as it was, until there is news of it."""

from dataclasses import replace
from typing import Any

from regions.cluster import Cause, Stage
from regions.kueue.at_rest import AtRest
from regions.kueue.explanation import Evidence
from regions.kueue.members import Member
from regions.kueue.views import Shown
from tests.unit.regions.kueue.tellings import NOW_S, admitted, ended, said
from tests.unit.regions.kueue.test_members import member
from tests.unit.regions.kueue.test_views import EVICTED, Story, gang

OVER = gang(terminal_state="Completed")
DONE = admitted(said("Finished", "Succeeded"))
PODS = [member(ended(0, rank=rank, phase="Succeeded", finished_s=NOW_S), rank) for rank in range(2)]


def see(story: Story, **told: Any) -> Shown:
    [shown] = story.see(OVER, **{"workload": DONE, "pods": PODS, **told}).values()
    return shown


def rested(story: Story, rests: AtRest, shown: Shown) -> tuple[tuple[Member, ...], Evidence]:
    """Take note of a gang as it was shown; return what that was worked out from."""
    own, evidence = story.members.of(shown.seen.uid), shown.evidence
    assert evidence is not None
    rests.take_in(evidence, own, shown.seen, shown.said)
    return own, evidence


def test_a_gang_that_completed_is_shown_as_it_was() -> None:
    story = Story()
    first = see(story)
    assert (first.seen.stage, first.seen.cause) == (Stage.ENDED, Cause.NONE)
    again = see(story)
    assert again.seen == first.seen
    assert again.said is first.said


def test_news_of_it_is_heard_all_the_same() -> None:
    story = Story()
    see(story)
    assert see(story, workload=admitted(EVICTED)).is_put_out
    story = Story()
    see(story)
    failed = [PODS[0], member(ended(7, rank=1), 1)]
    assert see(story, pods=failed).seen.cause is Cause.MEMBER_EXITED


def test_a_gang_that_failed_is_never_at_rest() -> None:
    story, rests = Story(), AtRest()
    shown = see(story, pods=[PODS[0], member(ended(7, rank=1), 1)])
    assert shown.seen.stage is Stage.ENDED
    own, evidence = rested(story, rests, shown)
    assert rests.find("p1", evidence, own) is None


def test_how_long_ago_its_machines_went_grows() -> None:
    story, rests = Story(), AtRest()
    shown = see(story)
    own, evidence = rested(story, rests, shown)
    later = replace(evidence, now_s=NOW_S + 60.0)
    found = rests.find("p1", later, own)
    assert found is not None
    ages = [age_s for age_s, _ in shown.seen.history]
    assert [age_s for age_s, _ in found[0].history] == [age_s + 60.0 for age_s in ages]
    assert ages
    assert replace(found[0], history=shown.seen.history) == shown.seen


def test_one_that_is_gone_is_forgotten() -> None:
    story, rests = Story(), AtRest()
    own, evidence = rested(story, rests, see(story))
    assert rests.find("p1", evidence, own) is not None
    rests.keep(())
    assert rests.find("p1", evidence, own) is None
