"""Law 10: nothing is removed on a guess, whatever a cluster shows, hides or was never asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.loops import converging, orders
from broker.loops.closing import weigh
from broker.loops.image_book import ImageBook
from broker.loops.sight import ClusterSight
from broker.model.policy import RegionPolicy
from broker.model.run import Placement, Run
from regions.cluster import Action, Stage, Withdraw
from tests.property.lives import Life, lives, tell_life_once
from tests.unit.loops.seeing import CLUSTER, NOW, placement_seen, sight_of, silent


def shown(chance: Random, run: Run) -> ClusterSight:
    """Return what a cluster may show of a run: some of its objects, none, or silence."""
    here = [p for p in run.placements.values() if p.site.key.cluster == CLUSTER]
    objects = [
        placement_seen(p, run, stage=chance.choice(list(Stage)))
        for p in here
        if chance.random() < 0.6
    ]
    sight = sight_of(
        objects, is_whole=chance.random() < 0.5, is_store_readable=chance.random() < 0.7
    )
    return silent(sight) if chance.random() < 0.2 else sight


def removals(run: Run, sight: ClusterSight, *, is_surveyed: bool) -> list[Withdraw]:
    """Return what the converger would remove in the cluster."""
    actions = converging.converge(
        run,
        CLUSTER,
        sight,
        verdicts={
            epoch.id: weigh(run, epoch, sight, is_lost=False, go_on_by=None)
            for epoch in run.epochs
            if epoch.is_open or epoch.is_owed
        },
        policy=RegionPolicy(),
        is_surveyed=is_surveyed,
        incarnation=1,
        mark="m",
        book=None,
        now=NOW,
    )
    return [action for action in actions if isinstance(action, Withdraw)]


@given(lives(), st.integers(0, 2**16))
def test_law_10_only_what_the_log_says_is_over_is_removed(life: Life, seed: int) -> None:
    chance = Random(seed)
    for step in life.steps:
        run, sight = step.after, shown(chance, step.after)
        for action in removals(run, sight, is_surveyed=True):
            placement = run.placements[action.placement]
            assert action.run_key == run.uid, "an object of another run was removed"
            assert placement.withdraw is not None, "nobody had ordered that it goes"
            seen = sight.placement(placement.id)
            known = {placement.cluster_uid, "" if seen is None else seen.uid}
            assert action.uid in known, "an object was removed that nobody had seen"
            assert action.uid or seen is None, "it was seen, and another one could be meant"
            epoch = None if placement.epoch is None else run.epoch(placement.epoch)
            is_started = epoch is not None and epoch.is_open and epoch.started_s is not None
            assert not (is_started and action.is_closed), "its gang counts still"


@given(lives(), st.integers(0, 2**16))
def test_law_10_nothing_is_removed_where_a_restored_broker_has_not_looked(
    life: Life, seed: int
) -> None:
    chance = Random(seed)
    for step in life.steps:
        assert removals(step.after, shown(chance, step.after), is_surveyed=False) == []


@given(lives(), st.integers(0, 2**16))
def test_law_10_nothing_is_removed_in_a_cluster_that_does_not_answer(life: Life, seed: int) -> None:
    chance = Random(seed)
    for step in life.steps:
        sight = silent(shown(chance, step.after))
        assert removals(step.after, sight, is_surveyed=True) == []


def test_the_lives_hold_removals() -> None:
    # A law over removals says nothing where nothing is removed.
    chance = Random(1)
    found = [
        action
        for seed in range(40)
        for step in tell_life_once(seed, 40).steps
        for action in removals(step.after, shown(chance, step.after), is_surveyed=True)
    ]
    assert len([a for a in found if a.uid]) > 20
    assert len([a for a in found if not a.uid]) > 5


def test_a_removal_on_a_guess_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def guesses(
        run: Run,
        placement: Placement,
        sight: ClusterSight,
        policy: RegionPolicy,
        mark: str,
        *,
        book: ImageBook | None,
    ) -> Iterator[Action]:
        if sight.placement(placement.id) is not None:
            yield orders.withdraw(run, placement, "")

    monkeypatch.setattr(converging, "_of_placement", guesses)
    lives_told = [tell_life_once(seed, 40) for seed in range(20)]
    for law in (
        test_law_10_only_what_the_log_says_is_over_is_removed,
        test_law_10_nothing_is_removed_in_a_cluster_that_does_not_answer,
    ):
        check = law.hypothesis.inner_test  # type: ignore[attr-defined]
        assert any(is_broken(check, life, seed) for seed, life in enumerate(lives_told))


def is_broken(check: Callable[[Life, int], None], life: Life, seed: int) -> bool:
    try:
        check(life, seed)
    except AssertionError:
        return True
    return False
