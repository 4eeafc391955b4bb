"""What to copy next, how far behind a region is, and what to keep: case by case."""

import pytest

from replicator.checkpoint.lag import KnownCheckpoint, Lag, RunCopies, lag
from replicator.checkpoint.paths import CheckpointPath
from replicator.checkpoint.plan import (
    Budget,
    Candidate,
    Copy,
    CopyPlan,
    Deferred,
    InFlight,
    Wanted,
    Why,
    plan,
)
from replicator.checkpoint.retention import KeepRule, prunable
from replicator.checkpoint.scan import FoundCheckpoint, Stage


def path(step: int, *, run_key: str = "r1", epoch: str = "e000001-a") -> CheckpointPath:
    return CheckpointPath(run_key=run_key, epoch=epoch, step=step)


def candidate(step: int, *, run_key: str = "r1", size_bytes: int = 10) -> Candidate:
    return Candidate(path=path(step, run_key=run_key), digest="d", size_bytes=size_bytes)


AMPLE = Budget(egress_bytes=1000, period_bytes=1000, max_parallel=8)


def test_the_newest_goes_to_the_likeliest_regions_first() -> None:
    wanted = Wanted(
        run_key="r1", candidates=(candidate(20), candidate(10)), regions=("b", "c", "a")
    )
    chosen = plan([wanted], {path(20): ["a"], path(10): ["a", "b"]}, [], AMPLE)
    assert chosen == CopyPlan(
        start=(
            Copy(candidate=candidate(20), source="a", destination="b"),
            Copy(candidate=candidate(20), source="a", destination="c"),
        ),
        deferred=(),
    )


def test_a_newest_that_nobody_can_give_yet_leaves_the_older_one_to_be_sent() -> None:
    wanted = Wanted(run_key="r1", candidates=(candidate(20), candidate(10)), regions=("b", "c"))
    chosen = plan([wanted], {path(10): ["a", "c"]}, [], AMPLE)
    assert chosen.start == (Copy(candidate=candidate(10), source="a", destination="b"),)
    assert chosen.deferred == (
        Deferred(candidate=candidate(20), destination="c", why=Why.NO_SOURCE),
    )


def test_every_run_is_served_once_before_any_is_served_twice() -> None:
    both = [
        Wanted(run_key=key, candidates=(candidate(5, run_key=key),), regions=("b", "c"))
        for key in ("r1", "r2")
    ]
    present = {path(5, run_key=key): ["a"] for key in ("r1", "r2")}
    chosen = plan(both, present, [], Budget(egress_bytes=99, period_bytes=99, max_parallel=3))
    assert [(one.candidate.path.run_key, one.destination) for one in chosen.start] == [
        ("r1", "b"),
        ("r2", "b"),
        ("r1", "c"),
    ]
    assert [one.why for one in chosen.deferred] == [Why.PARALLEL]


def test_what_nobody_waits_for_comes_after_all_that_somebody_does() -> None:
    waited = Wanted(run_key="r1", candidates=(candidate(5),), regions=("b", "c"))
    over = [
        Wanted(run_key=key, candidates=(candidate(5, run_key=key),), regions=("b",))
        for key in ("r2", "r3", "r4")
    ]
    present = {path(5, run_key=key): ["a"] for key in ("r1", "r2", "r3", "r4")}
    short = Budget(egress_bytes=25, period_bytes=99, max_parallel=8)
    chosen = plan([waited], present, [], short, idle=over, idle_slots=2)
    assert [(one.candidate.path.run_key, one.destination) for one in chosen.start] == [
        ("r1", "b"),
        ("r1", "c"),
    ]
    assert [one.why for one in chosen.deferred] == [Why.BUDGET] * 3
    chosen = plan([waited], present, [], AMPLE, idle=over, idle_slots=2)
    assert [one.candidate.path.run_key for one in chosen.start] == ["r1", "r1", "r2", "r3"]
    assert [one.why for one in chosen.deferred] == [Why.PARALLEL]


def test_a_copy_in_flight_is_finished_before_a_newer_step_goes_there() -> None:
    flight = InFlight(
        copy=Copy(candidate=candidate(10), source="a", destination="b"), remaining_bytes=4
    )
    wanted = Wanted(run_key="r1", candidates=(candidate(20), candidate(10)), regions=("b",))
    chosen = plan([wanted], {path(20): ["a"], path(10): ["a"]}, [flight], AMPLE)
    assert chosen == CopyPlan(
        start=(),
        deferred=(Deferred(candidate=candidate(20), destination="b", why=Why.IN_FLIGHT),),
    )


def test_a_large_copy_is_not_starved_by_small_ones_and_one_that_never_fits_stops_nobody() -> None:
    large, small, never = (
        Wanted(
            run_key=key, candidates=(candidate(5, run_key=key, size_bytes=size),), regions=("b",)
        )
        for key, size in (("large", 80), ("small", 5), ("never", 500))
    )
    present = {path(5, run_key=key): ["a"] for key in ("large", "small", "never")}
    budget = Budget(egress_bytes=50, period_bytes=100, max_parallel=8)
    chosen = plan([never, large, small], present, [], budget)
    assert chosen.start == ()
    assert [one.why for one in chosen.deferred] == [Why.NEVER_FITS, Why.BUDGET, Why.BUDGET]
    chosen = plan([never, small], present, [], budget)
    assert [one.candidate.path.run_key for one in chosen.start] == ["small"]


def test_a_region_that_is_named_twice_is_sent_one_copy() -> None:
    wanted = Wanted(run_key="r1", candidates=(candidate(20),), regions=("b", "b"))
    chosen = plan([wanted], {path(20): ["a"]}, [], AMPLE)
    assert [one.destination for one in chosen.start] == ["b"]


def known(step: int, *, at_s: float, epoch: str = "e000001-a") -> KnownCheckpoint:
    return KnownCheckpoint(path=path(step, epoch=epoch), size_bytes=step * 10, completed_s=at_s)


def test_lag_is_told_in_steps_bytes_and_seconds() -> None:
    newest, middle, oldest = known(30, at_s=160.0), known(20, at_s=130.0), known(10, at_s=115.0)
    run = RunCopies(
        started_s=100.0,
        checkpoints=(newest, middle, oldest),
        present={"home": {newest.path, middle.path}, "near": {oldest.path}, "far": set()},
        copied_bytes={"near": 120},
    )
    assert lag(run) == {
        "home": Lag(newest=newest.path, steps_behind=0, bytes_behind=0, seconds_behind=0.0),
        "near": Lag(newest=oldest.path, steps_behind=20, bytes_behind=180, seconds_behind=45.0),
        "far": Lag(newest=None, steps_behind=30, bytes_behind=300, seconds_behind=60.0),
    }


def test_after_a_rollback_the_newest_is_the_lineages_and_not_the_highest_step() -> None:
    newest, rolled_back = known(25, at_s=200.0, epoch="e000002-b"), known(40, at_s=150.0)
    run = RunCopies(
        started_s=0.0,
        checkpoints=(newest, rolled_back),
        present={"b": {rolled_back.path}},
        copied_bytes={},
    )
    assert lag(run)["b"] == Lag(
        newest=rolled_back.path, steps_behind=0, bytes_behind=250, seconds_behind=50.0
    )


def test_without_a_checkpoint_nobody_is_behind() -> None:
    run = RunCopies(started_s=0.0, checkpoints=(), present={"a": set()}, copied_bytes={})
    assert lag(run) == {"a": Lag(newest=None, steps_behind=0, bytes_behind=0, seconds_behind=0.0)}


def found(step: int, stage: Stage = Stage.ATTESTED, epoch: str = "e000001-a") -> FoundCheckpoint:
    return FoundCheckpoint(
        is_marked=stage is not Stage.PARTIAL,
        path=path(step, epoch=epoch),
        stage=stage,
        why="",
        digest=None,
        size_bytes=1,
        modified_s=0.0,
    )


def keep(last_n: int, *, every_n: int | None = None, pinned: set[int] | None = None) -> KeepRule:
    return KeepRule(
        last_n=last_n,
        every_n=every_n,
        pinned={path(step) for step in pinned or ()},
        named=set(),
    )


ALL = tuple(found(step) for step in (60, 50, 40, 30, 20, 10))
SEALED = frozenset(one.path for one in ALL)


@pytest.mark.parametrize(
    ("sentence", "rule", "in_use", "gone"),
    [
        ("the newest two are kept", keep(2), set(), [10, 20, 30, 40]),
        ("and every thirtieth", keep(2, every_n=30), set(), [10, 20, 40]),
        ("and what is pinned", keep(2, pinned={10}), set(), [20, 30, 40]),
        ("and what is read", keep(2), {30}, [10, 20, 40]),
    ],
)
def test_pruning(sentence: str, rule: KeepRule, in_use: set[int], gone: list[int]) -> None:
    chosen = prunable(ALL, rule, in_use={path(step) for step in in_use}, sealed=SEALED)
    assert [one.step for one in chosen] == gone, sentence


def test_what_a_closed_epoch_wrote_after_its_seal_does_not_take_a_place() -> None:
    zombie = found(70)
    chosen = prunable((zombie, *ALL), keep(1), in_use=set(), sealed=SEALED)
    assert [one.step for one in chosen] == [10, 20, 30, 40, 50, 70]


def test_a_complete_one_that_has_no_manifest_yet_is_kept_beside_the_newest_that_has() -> None:
    fresh = found(70, Stage.COMPLETE)
    chosen = prunable((fresh, *ALL), keep(1), in_use=set(), sealed=SEALED | {fresh.path})
    assert [one.step for one in chosen] == [10, 20, 30, 40, 50]


def test_the_only_complete_one_is_kept_even_when_nothing_counts() -> None:
    chosen = prunable(ALL, keep(1), in_use=set(), sealed=frozenset())
    assert [one.step for one in chosen] == [10, 20, 30, 40, 50]


def test_a_rule_that_keeps_nothing_is_no_rule() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        keep(0)
    with pytest.raises(ValueError, match="at least 1"):
        keep(1, every_n=0)
