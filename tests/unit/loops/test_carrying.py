"""Which content is wanted where, and which checkpoints need not be kept."""

from dataclasses import replace
from decimal import Decimal

import pytest

from broker.history.commands import (
    BeginRetirement,
    CancelRun,
    FailRun,
    MarkCheckpoint,
    RecordCopy,
    RecordPruned,
    ResumeRun,
)
from broker.history.lineage import resumable
from broker.loops.carrying import (
    holders,
    in_turn,
    kept_apart,
    newest_first,
    to_prune,
    wanted,
    what_it_holds,
)
from broker.model.intent import CapacityType, CheckpointSpec
from broker.model.policy import RegionPolicy
from broker.model.reasons import Reason
from broker.model.states import RunState
from broker.placement.standing import RegionStanding
from broker.placement.view import View
from tests.builders import Story, flat_egress, make_intent, make_terms, make_workload
from tests.unit.loops.seeing import NOW
from tests.unit.placement.pictures import make_cluster, make_flavor


def keeping(last: int, every: int | None = None) -> Story:
    spec = CheckpointSpec(keep_last=last, keep_every_steps=every)
    return Story(intent=make_intent(workload=make_workload(checkpoint=spec)))


def pruned(story: Story) -> list[int]:
    return [ref.step for ref in to_prune(story.run, frozenset(), frozenset())]


def test_the_open_epochs_own_saves_come_before_what_it_resumed_from() -> None:
    story = Story().accepted().training().saved(100).saved(200).preempted()
    story.placed().prepared().at_gate().granted().started().saved(300).saved(250)
    assert [c.ref.step for c in newest_first(story.run)] == [300, 250, 200, 100]


def test_the_last_are_kept_and_the_oldest_goes_first() -> None:
    story = keeping(2).accepted().training()
    for step in (100, 200, 300, 400):
        story.saved(step)
    assert pruned(story) == [100, 200]


def test_what_a_person_pinned_or_named_is_kept() -> None:
    story = keeping(1).accepted().training().saved(100).saved(200).saved(300)
    story.do(MarkCheckpoint(step=100, is_pinned=True), MarkCheckpoint(step=200, label="best"))
    assert pruned(story) == []


def test_every_so_many_steps_are_kept() -> None:
    story = keeping(1, every=200).accepted().training()
    for step in (100, 200, 300, 400):
        story.saved(step)
    assert pruned(story) == [100, 300]


def test_what_the_open_epoch_reads_is_kept() -> None:
    story = keeping(1).accepted().training().saved(100).preempted()
    story.placed().prepared().at_gate().granted().started().saved(200).saved(300)
    assert pruned(story) == [200]


def test_what_a_waiting_leg_would_read_is_kept() -> None:
    story = keeping(1).accepted().training().saved(100, "beta").saved(200).preempted()
    story.placed("beta")
    assert [c.ref.step for c in resumable(story.run)] == [200, 100]
    assert pruned(story) == []


def test_the_only_one_is_never_let_go() -> None:
    assert pruned(keeping(1).accepted().training().saved(100)) == []


def test_the_log_accepts_what_retention_lets_go() -> None:
    story = keeping(2).accepted().training()
    for step in (100, 200, 300, 400, 500):
        story.saved(step)
    story.do(*(RecordPruned(ref=ref) for ref in to_prune(story.run, frozenset(), frozenset())))
    assert [c.ref.step for c in story.run.checkpoints] == [400, 500]


def test_what_a_person_went_back_from_is_kept_until_the_new_start_has_saved() -> None:
    story = keeping(1).accepted().training().saved(100).saved(200).saved(300).preempted()
    story.do(ResumeRun(step=100, from_start=False))
    assert pruned(story) == []
    story.training()
    assert pruned(story) == []
    story.saved(150)
    # What the open epoch reads is kept beside its own.
    assert pruned(story) == [200, 300]


def test_of_what_a_person_left_behind_the_newest_is_kept_longest() -> None:
    story = keeping(2).accepted().training().saved(100).saved(200).saved(300).preempted()
    story.do(ResumeRun(step=None, from_start=True)).training().saved(150)
    assert pruned(story) == [100, 200]


def test_a_wish_is_made_anew_only_when_what_it_follows_from_changed() -> None:
    story = Story().accepted().training().saved(100)
    before = what_it_holds(story.run)
    story.wait(60.0).trained(150)
    assert what_it_holds(story.run) == before
    story.do(RecordCopy(ref=story.run.checkpoints[0].ref, region="beta"))
    assert what_it_holds(story.run) != before


def test_a_wish_is_made_anew_when_a_run_is_over_and_when_it_goes() -> None:
    story = Story().accepted().training().saved(100).preempted()
    assert not story.run.is_ended
    met = [what_it_holds(story.run)]
    for command in (CancelRun(grace_s=0.0, message="enough"), BeginRetirement()):
        story.do(command)
        assert what_it_holds(story.run) not in met
        met.append(what_it_holds(story.run))
    assert story.run.is_ended


def picture(story: Story, *regions: str) -> View:
    """A view of a run, with a cluster that could take it in each region."""
    view = View(resumable, flat_egress)
    for region in regions:
        flavor = make_flavor(
            cluster=region,
            region=region,
            accelerator="h100",
            capacity_type=CapacityType.SPOT,
        )
        view.apply_cluster(make_cluster(flavor))
    view.apply_run(story.run)
    return view


def test_copies_go_ahead_to_the_likely_regions_but_not_to_where_the_run_is() -> None:
    story = Story().accepted().training().saved(100)
    wish = wanted(picture(story, "alpha", "beta", "gamma", "delta"), story.run, NOW)
    assert wish is not None
    assert [candidate.path.step for candidate in wish.candidates] == [100]
    assert len(wish.regions) == RegionPolicy().checkpoint_copies == 2
    assert "alpha" not in wish.regions


def test_the_policy_says_how_many_copies_are_made() -> None:
    story = Story().accepted().training().saved(100)
    view = picture(story, "alpha", "beta", "gamma")
    view.apply_region(RegionStanding(region="alpha", policy=RegionPolicy(checkpoint_copies=0)))
    wish = wanted(view, story.run, NOW)
    assert wish is not None
    assert wish.regions == ()


def test_where_a_leg_waits_comes_first() -> None:
    story = Story().accepted().training().saved(100).preempted().placed("gamma")
    wish = wanted(picture(story, "alpha", "beta", "gamma"), story.run, NOW)
    assert wish is not None
    assert wish.regions[0] == "gamma"


def test_no_copy_leaves_the_residency_of_the_run() -> None:
    terms = make_terms(residency=("alpha", "beta"))
    story = Story(intent=make_intent(terms=terms)).accepted().training().saved(100)
    wish = wanted(picture(story, "alpha", "beta", "gamma"), story.run, NOW)
    assert wish is not None
    assert wish.regions == ("beta",)


def test_nor_does_it_for_a_leg_that_waited_there_before_the_terms_were_changed() -> None:
    story = Story().accepted().training().saved(100).preempted().placed("gamma")
    terms = make_terms(residency=("alpha", "beta"))
    run = replace(story.run, intent=replace(story.run.intent, terms=terms))
    wish = wanted(picture(story, "alpha", "beta", "gamma"), run, NOW)
    assert wish is not None
    assert wish.regions == ("beta",)


def test_a_run_without_a_checkpoint_wants_nothing() -> None:
    story = Story().accepted().training()
    assert wanted(picture(story, "alpha", "beta"), story.run, NOW) is None


def test_only_regions_that_can_be_read_hold_a_checkpoint_and_its_home_is_first() -> None:
    story = Story().accepted().training().saved(100, "beta", "gamma")
    ((_, regions),) = holders(story.run, frozenset({"alpha", "gamma"})).items()
    assert regions == ("alpha", "gamma")


def over(state: RunState, **terms: object) -> Story:
    """A run that saved step 100 and then 200 in alpha, and is over."""
    intent = make_intent(terms=replace(make_terms(), **terms))  # type: ignore[arg-type]
    story = Story(intent=intent).accepted().training().saved(100, "beta").saved(200)
    if state is RunState.CANCELLED:
        story.do(CancelRun(grace_s=0.0, message="enough"))
    if state is RunState.FAILED:
        story.do(FailRun(reason=Reason.BUDGET_SPENT, message="its budget is spent"))
    story.closed(*(() if state is RunState.SUCCEEDED else (1, 1)))
    assert story.run.state is state
    return story


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED])
def test_law_the_last_checkpoint_of_a_run_that_is_over_is_wanted_in_a_second_region(
    state: RunState,
) -> None:
    story = over(state, budget=Decimal("0.01"))
    wish = kept_apart(picture(story, "alpha", "beta", "gamma"), story.run, NOW)
    assert wish is not None
    assert [candidate.path.step for candidate in wish.candidates] == [200]
    assert len(wish.regions) == 1
    assert "alpha" not in wish.regions
    story.do(RecordCopy(ref=story.run.checkpoints[-1].ref, region=wish.regions[0]))
    assert kept_apart(picture(story, "alpha", "beta", "gamma"), story.run, NOW) is None


def test_of_many_that_are_over_each_has_its_turn() -> None:
    names = dict.fromkeys(("a", "b", "c"))
    assert [in_turn(names, 2) for _ in range(3)] == [["a", "b"], ["c", "a"], ["b", "c"]]
    assert in_turn(names, 9) == ["a", "b", "c"]
    assert in_turn({}, 2) == []


def test_a_region_that_is_closed_counts_for_nothing_when_a_run_is_over() -> None:
    story = over(RunState.SUCCEEDED)
    story.do(RecordCopy(ref=story.run.checkpoints[-1].ref, region="beta"))
    view = picture(story, "alpha", "beta", "gamma")
    view.apply_region(RegionStanding(region="alpha", is_draining=True))
    wish = kept_apart(view, story.run, NOW)
    assert wish is not None
    assert wish.regions == ("gamma",)
    view.apply_region(RegionStanding(region="gamma", is_cordoned=True))
    closed = kept_apart(view, story.run, NOW)
    assert closed is not None, "it still lacks a copy, and is looked at again until it has one"
    assert closed.regions == ()
    view.apply_region(RegionStanding(region="gamma"))
    assert kept_apart(view, story.run, NOW) == wish


def test_what_is_over_is_copied_no_further_than_its_terms_and_its_region_allow() -> None:
    named = over(RunState.SUCCEEDED, regions=("alpha",))
    assert kept_apart(picture(named, "alpha", "beta"), named.run, NOW) is None
    resident = over(RunState.SUCCEEDED, residency=("alpha",))
    assert kept_apart(picture(resident, "alpha", "beta"), resident.run, NOW) is None
    story = over(RunState.SUCCEEDED)
    view = picture(story, "alpha", "beta")
    view.apply_region(RegionStanding(region="alpha", policy=RegionPolicy(checkpoint_copies=0)))
    assert kept_apart(view, story.run, NOW) is None
