"""The laws of choosing: what to copy next, and what need not be kept."""

from hypothesis import given
from hypothesis import strategies as st

from replicator.checkpoint.paths import CheckpointPath
from replicator.checkpoint.plan import (
    Budget,
    Candidate,
    Copy,
    CopyPlan,
    InFlight,
    Wanted,
    Why,
    plan,
)
from replicator.checkpoint.retention import KeepRule, leftovers, prunable
from replicator.checkpoint.scan import FoundCheckpoint, Stage

REGIONS = ("east", "north", "south", "west")
STEPS = st.lists(st.integers(0, 9), unique=True, max_size=5)


def path(run_key: str, step: int, epoch: str = "e000001-a") -> CheckpointPath:
    return CheckpointPath(run_key=run_key, epoch=epoch, step=step)


@st.composite
def wishes(draw: st.DrawFn) -> tuple[Wanted, ...]:
    return tuple(
        Wanted(
            run_key=run_key,
            candidates=tuple(
                Candidate(
                    path=path(run_key, step), digest="d", size_bytes=draw(st.integers(0, 100))
                )
                for step in sorted(draw(STEPS), reverse=True)
            ),
            regions=tuple(draw(st.permutations(REGIONS))[: draw(st.integers(0, 4))]),
        )
        for run_key in ("r1", "r2", "r3")[: draw(st.integers(0, 3))]
    )


@st.composite
def situations(
    draw: st.DrawFn,
) -> tuple[tuple[Wanted, ...], dict[CheckpointPath, tuple[str, ...]], tuple[InFlight, ...], Budget]:
    wanted = draw(wishes())
    every = [candidate for one in wanted for candidate in one.candidates]
    present = {
        candidate.path: tuple(draw(st.permutations(REGIONS))[: draw(st.integers(0, 4))])
        for candidate in every
    }
    in_flight: dict[tuple[str, str], InFlight] = {}
    for candidate in every:
        holders = present[candidate.path]
        lacking = [region for region in REGIONS if region not in holders]
        if holders and lacking and draw(st.booleans()):
            flight = InFlight(
                copy=Copy(candidate=candidate, source=holders[0], destination=lacking[0]),
                remaining_bytes=draw(st.integers(0, candidate.size_bytes)),
            )
            in_flight.setdefault((candidate.path.run_key, lacking[0]), flight)
    period_bytes = draw(st.integers(0, 300))
    budget = Budget(
        egress_bytes=draw(st.integers(0, period_bytes)),
        period_bytes=period_bytes,
        max_parallel=draw(st.integers(1, 6)),
    )
    return wanted, present, tuple(in_flight.values()), budget


Situation = tuple[
    tuple[Wanted, ...], dict[CheckpointPath, tuple[str, ...]], tuple[InFlight, ...], Budget
]


@given(situations())
def test_the_budget_and_the_parallel_bound_are_kept(situation: Situation) -> None:
    _, _, in_flight, budget = situation
    chosen = plan(*situation)
    if chosen.start:
        moving = sum(one.remaining_bytes for one in in_flight)
        starting = sum(one.candidate.size_bytes for one in chosen.start)
        assert moving + starting <= budget.egress_bytes
        assert len(in_flight) + len(chosen.start) <= budget.max_parallel


@given(situations())
def test_what_is_in_flight_is_finished_before_another_step_takes_its_place(
    situation: Situation,
) -> None:
    _, _, in_flight, _ = situation
    busy = [(one.copy.candidate.path.run_key, one.copy.destination) for one in in_flight]
    started = [(one.candidate.path.run_key, one.destination) for one in plan(*situation).start]
    together = busy + started
    assert len(together) == len(set(together))


@given(situations())
def test_a_region_is_sent_the_newest_that_anyone_can_give_and_nothing_it_is_ahead_of(
    situation: Situation,
) -> None:
    wanted, present, _, _ = situation
    steps_of = {one.run_key: [item.path for item in one.candidates] for one in wanted}
    for one in plan(*situation).start:
        newer = steps_of[one.candidate.path.run_key]
        newer = newer[: newer.index(one.candidate.path)]
        assert all(not present[item] for item in newer)
        assert one.source in present[one.candidate.path]
        assert one.destination not in present[one.candidate.path]


@given(situations())
def test_a_run_is_served_in_the_order_of_its_likely_regions(situation: Situation) -> None:
    wanted, _, _, _ = situation
    chosen = plan(*situation)
    for one in wanted:
        started = [c.destination for c in chosen.start if c.candidate.path.run_key == one.run_key]
        assert started == [region for region in one.regions if region in started]
        held = {
            d.destination
            for d in chosen.deferred
            if d.candidate.path.run_key == one.run_key and d.why in (Why.BUDGET, Why.PARALLEL)
        }
        for region in started:
            assert held.isdisjoint(one.regions[: one.regions.index(region)])


@given(situations())
def test_every_region_that_lacks_something_is_served_or_told_why(situation: Situation) -> None:
    wanted, present, _, _ = situation
    chosen = plan(*situation)
    told = [(one.candidate.path.run_key, one.destination) for one in chosen.start]
    told += [(one.candidate.path.run_key, one.destination) for one in chosen.deferred]
    lacking = [
        (one.run_key, region)
        for one in wanted
        for region in one.regions
        if one.candidates and region not in present[one.candidates[0].path]
    ]
    assert len(told) == len(set(told))
    assert set(told) <= set(lacking)
    for run_key, region in set(lacking) - set(told):
        # Nobody can give anything newer than what this region has already.
        (one,) = (one for one in wanted if one.run_key == run_key)
        held = [item.path for item in one.candidates if region in present[item.path]]
        assert held, "it has nothing, and was not told why"


@given(situations())
def test_planning_twice_is_planning_once(situation: Situation) -> None:
    wanted, present, in_flight, budget = situation
    chosen = plan(*situation)
    started = tuple(
        InFlight(copy=one, remaining_bytes=one.candidate.size_bytes) for one in chosen.start
    )
    again = plan(wanted, present, in_flight + started, budget)
    assert again.start == ()
    assert isinstance(again, CopyPlan)


@st.composite
def found(draw: st.DrawFn) -> tuple[FoundCheckpoint, ...]:
    places = draw(
        st.lists(
            st.tuples(st.sampled_from(["e000001-a", "e000002-b"]), st.integers(0, 12)),
            unique=True,
            max_size=10,
        )
    )
    return tuple(
        FoundCheckpoint(
            path=path("r1", step, epoch),
            stage=draw(st.sampled_from(Stage)),
            is_marked=draw(st.booleans()),
            why="",
            digest=None,
            size_bytes=1,
            modified_s=draw(st.floats(0, 1000)),
        )
        for epoch, step in places
    )


@st.composite
def kept(
    draw: st.DrawFn,
) -> tuple[
    tuple[FoundCheckpoint, ...], KeepRule, frozenset[CheckpointPath], frozenset[CheckpointPath]
]:
    here = draw(found())
    some = (
        st.frozensets(st.sampled_from([one.path for one in here]))
        if here
        else st.just(frozenset[CheckpointPath]())
    )
    rule = KeepRule(
        last_n=draw(st.integers(1, 3)),
        every_n=draw(st.none() | st.integers(1, 4)),
        pinned=draw(some),
        named=draw(some),
    )
    return here, rule, draw(some), draw(some)


Kept = tuple[
    tuple[FoundCheckpoint, ...], KeepRule, frozenset[CheckpointPath], frozenset[CheckpointPath]
]


@given(kept())
def test_pruning_never_removes_the_last_complete_one(case: Kept) -> None:
    here, rule, in_use, sealed = case
    gone = set(prunable(here, rule, in_use=in_use, sealed=sealed))
    whole = {one.path for one in here if one.stage is Stage.ATTESTED}
    complete = {one.path for one in here if one.stage is not Stage.PARTIAL}
    assert not complete or complete - gone
    assert not (whole & sealed) or (whole & sealed) - gone


@given(kept())
def test_pruning_touches_nothing_that_is_read_pinned_named_or_unfinished(case: Kept) -> None:
    here, rule, in_use, sealed = case
    gone = set(prunable(here, rule, in_use=in_use, sealed=sealed))
    assert gone.isdisjoint(in_use | rule.pinned | rule.named)
    assert gone.isdisjoint(one.path for one in here if one.stage is Stage.PARTIAL)


@given(kept())
def test_pruning_keeps_the_newest_that_count_and_every_nth(case: Kept) -> None:
    here, rule, in_use, sealed = case
    gone = set(prunable(here, rule, in_use=in_use, sealed=sealed))
    counting = [one.path for one in here if one.stage is Stage.ATTESTED and one.path in sealed]
    assert gone.isdisjoint(counting[: rule.last_n])
    if rule.every_n is not None:
        assert all(one.step % rule.every_n for one in counting if one in gone)


@given(kept())
def test_pruning_twice_is_pruning_once(case: Kept) -> None:
    here, rule, in_use, sealed = case
    gone = set(prunable(here, rule, in_use=in_use, sealed=sealed))
    rest = tuple(one for one in here if one.path not in gone)
    assert prunable(rest, rule, in_use=in_use, sealed=sealed) == ()


@given(
    here=found(),
    open_epochs=st.frozensets(st.sampled_from(["e000001-a", "e000002-b"])),
    now_s=st.floats(0, 2000),
    in_flight_step=st.integers(0, 12),
)
def test_a_leftover_is_half_old_and_nobodys(
    here: tuple[FoundCheckpoint, ...],
    open_epochs: frozenset[str],
    now_s: float,
    in_flight_step: int,
) -> None:
    in_flight = frozenset({path("r1", in_flight_step)})
    gone = leftovers(
        here, in_flight=in_flight, open_epochs=open_epochs, now_s=now_s, older_than_s=100.0
    )
    by_path = {one.path: one for one in here}
    for one in gone:
        assert by_path[one].stage is Stage.PARTIAL
        assert one.epoch not in open_epochs
        assert one not in in_flight
        assert now_s - by_path[one].modified_s > 100.0
