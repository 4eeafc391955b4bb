"""Which checkpoints a start resumes from."""

from __future__ import annotations

from dataclasses import replace

from broker.history.commands import MarkCheckpoint, ResumeRun
from broker.history.lineage import (
    has_anchor,
    is_within_reach,
    nameable,
    named_step,
    pick,
    resumable,
)
from broker.model.run import CloseRule, Run
from tests.builders import Story, make_checkpoint


def steps(run: Run) -> list[tuple[int, int]]:
    """Return (epoch, step) of what the run may resume from, the preferred first."""
    return [(c.ref.epoch.number, c.ref.step) for c in resumable(run)]


def rolled_back() -> Story:
    """Epoch 1 saved 100, 200, 300; epoch 2 went back to 100 and saved 150."""
    story = Story().accepted().training().saved(100).saved(200).saved(300).preempted()
    story.do(ResumeRun(step=100, from_start=False))
    return story.training().saved(150).preempted()


def test_nothing_started_nothing_to_resume() -> None:
    run = Story().accepted().run
    assert steps(run) == []
    assert is_within_reach(run, "alpha")
    assert not has_anchor(run)


def test_the_newest_sealed_comes_first() -> None:
    story = Story().accepted().training().saved(100).saved(200)
    assert steps(story.run) == []  # nothing is sealed yet
    assert steps(story.preempted().run) == [(1, 200), (1, 100)]
    assert steps(story.training().saved(300).preempted().run) == [(2, 300), (1, 200), (1, 100)]


def test_a_rollback_is_not_undone_by_what_it_rolled_back() -> None:
    story = rolled_back()
    assert steps(story.run) == [(2, 150), (1, 100)]
    # An epoch that saved nothing leaves the lineage as it was.
    assert steps(story.training().preempted().run) == [(2, 150), (1, 100)]


def test_a_revoked_epoch_changes_no_lineage() -> None:
    story = rolled_back().placed("alpha").prepared().granted().stopped()
    assert steps(story.closed(rule=CloseRule.NEVER_STARTED).run) == [(2, 150), (1, 100)]


def test_a_user_can_still_name_what_was_rolled_back() -> None:
    run = rolled_back().run
    found = named_step(run, 300)
    assert found is not None
    assert found.ref.epoch.number == 1
    assert named_step(run, 400) is None


def test_what_the_open_epoch_saved_can_be_named_before_it_counts() -> None:
    story = rolled_back().training().saved(200)
    assert [(c.ref.epoch.number, c.ref.step) for c in nameable(story.run)] == [
        (3, 200),
        (2, 150),
        (1, 100),
        (1, 300),
        (1, 200),
    ]
    assert (3, 200) not in steps(story.run)


def test_what_read_a_bad_step_is_as_bad_as_it() -> None:
    story = Story().accepted().training().saved(100).saved(200).preempted()
    story.training().saved(300).preempted().do(MarkCheckpoint(step=200, is_bad=True))
    assert steps(story.run) == [(1, 100)]
    story.do(MarkCheckpoint(step=200, is_bad=False))
    assert steps(story.run) == [(2, 300), (1, 200), (1, 100)]


def test_a_bad_step_spoils_nothing_that_did_not_read_it() -> None:
    story = Story().accepted().training().saved(100).saved(200).saved(300).preempted()
    story.do(MarkCheckpoint(step=200, is_bad=True))
    assert steps(story.run) == [(1, 300), (1, 100)]


def test_the_newest_within_reach_is_picked() -> None:
    story = Story().accepted().training().saved(100, "beta").saved(200).preempted()
    picked = {region: pick(story.run, region) for region in ("alpha", "beta", "gamma")}
    assert {region: ref and ref.step for region, ref in picked.items()} == {
        "alpha": 200,
        "beta": 100,
        "gamma": None,
    }
    assert [r for r in picked if is_within_reach(story.run, r)] == ["alpha", "beta"]


def test_a_wish_is_within_reach_only_where_its_step_is() -> None:
    story = Story().accepted().training().saved(100).saved(200, "beta").preempted()
    run = story.do(ResumeRun(step=100, from_start=False)).run
    assert [r for r in ("alpha", "beta") if is_within_reach(run, r)] == ["alpha"]


def test_from_the_start_is_within_reach_everywhere() -> None:
    story = Story().accepted().training().saved(100).preempted()
    run = story.do(ResumeRun(step=None, from_start=True)).run
    assert is_within_reach(run, "gamma")
    assert pick(run, "alpha") is None


def test_a_seed_is_the_root_of_a_forks_lineage() -> None:
    story = Story()
    seed = make_checkpoint(900)
    seed = replace(seed, ref=replace(seed.ref, run_uid="p" * 20))
    story.submit = replace(story.submit, fork_checkpoint=seed)
    story.accepted()
    assert steps(story.run) == [(1, 900)]
    story.training().saved(1000).preempted()
    assert [(c.ref.step, c.ref.is_own) for c in resumable(story.run)] == [
        (1000, True),
        (900, False),
    ]
