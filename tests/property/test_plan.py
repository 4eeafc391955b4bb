"""The laws of planning, over drawn fleets, queues, caps and news."""

from collections import Counter
from dataclasses import replace
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.model.capacity import FlavorFacts, SignalKind
from broker.model.intent import AfterMaxWait, CapacityType, Terms
from broker.model.policy import RegionPolicy, TeamCaps, TeamStanding
from broker.model.reasons import Reason
from broker.model.run import Placement, Run
from broker.model.states import PlacementState
from broker.placement.assess import assess
from broker.placement.choices import AddLeg, SayWait
from broker.placement.explain import explain
from broker.placement.hedge import waiting_legs
from broker.placement.plan import plan
from broker.placement.share import QUEUE_AHEAD
from broker.placement.standing import RegionStanding
from broker.placement.view import View
from tests.unit.placement.pictures import (
    ANY,
    apply_plan,
    at,
    gang,
    ids,
    leg_at,
    legs_of,
    make_cluster,
    make_flavor,
    make_view,
    signal,
    stuck,
    waiting_run,
    with_legs,
)

NAMES = ("alpha", "beta", "gamma", "delta")
NOW = at(5000.0)


@st.composite
def flavors(draw: st.DrawFn, cluster: str) -> FlavorFacts:
    kind = draw(st.sampled_from(ANY))
    nominal = draw(st.sampled_from((None, 8, 16, 64, 128)))
    reserved = None if nominal is None else draw(st.integers(0, nominal))
    return make_flavor(
        cluster,
        flavor=kind.value.lower(),
        capacity_type=kind,
        price=draw(st.sampled_from((None, "1", "2", "9"))),
        nominal=nominal,
        reserved=reserved,
        nodes_free=draw(st.sampled_from((None, 0, 1, 4))),
        ahead_gpus=draw(st.sampled_from((None, 0, 8, 64))),
    )


@st.composite
def runs(draw: st.DrawFn, index: int) -> Run:
    terms = Terms(
        capacity_types=tuple(draw(st.sets(st.sampled_from(ANY), min_size=1))),
        regions=tuple(draw(st.sets(st.sampled_from([f"{n}-region" for n in NAMES]), max_size=2))),
        max_wait_s=draw(st.sampled_from((None, 600.0, 7200.0))),
        after_max_wait=draw(st.sampled_from(tuple(AfterMaxWait))),
        expected_duration_s=draw(st.sampled_from((None, 60.0, 36000.0))),
        budget=draw(st.sampled_from((None, Decimal(1), Decimal(10000)))),
        priority=draw(st.integers(0, 2)),
    )
    run = waiting_run(
        f"r{index:02d}",
        created_s=draw(st.floats(0.0, 4999.0)),
        hardware=gang(draw(st.sampled_from((1, 2, 4, 8)))),
        terms=terms,
    )
    return replace(run, climbed=draw(st.booleans()))


@st.composite
def views(draw: st.DrawFn) -> View:
    view = make_view()
    for name in NAMES[: draw(st.integers(0, 4))]:
        made = draw(flavors(name))
        view.apply_cluster(make_cluster(made, is_reachable=draw(st.booleans())))
        standing = RegionStanding(
            region=made.region,
            policy=RegionPolicy(
                is_allowed=draw(st.booleans()) or draw(st.booleans()),
                weight=draw(st.sampled_from((0.0, 0.5, 1.0))),
                hedge_width=draw(st.integers(1, 3)),
            ),
            is_cordoned=draw(st.booleans()) and draw(st.booleans()),
            is_draining=draw(st.booleans()) and draw(st.booleans()),
        )
        view.apply_region(standing)
        kinds: list[SignalKind] = draw(st.lists(st.sampled_from(tuple(SignalKind)), max_size=4))
        for kind in kinds:
            view.apply_signal(signal(made, kind, draw(st.floats(0.0, 5000.0))))
    view.apply_team("nlp", draw(team_standings()))
    for index in range(draw(st.integers(0, 12))):
        run = draw(runs(index))
        here = [view.flavors[key] for key in sorted(view.flavors)]
        has_leg: bool = draw(st.booleans())
        if here and has_leg:
            run = draw(legged(run=run, here=here))
        view.apply_run(run)
    return view


@st.composite
def team_standings(draw: st.DrawFn) -> TeamStanding:
    return TeamStanding(
        caps=TeamCaps(
            running_gpus=draw(st.sampled_from((None, 8, 64))),
            gate_gpus=draw(st.sampled_from((None, 8, 64))),
        ),
        running_gpus=0,
        gate_gpus=0,
        gate_gpu_minutes_today=0.0,
        spent=Decimal(0),
    )


@st.composite
def legged(draw: st.DrawFn, run: Run, here: list[FlavorFacts]) -> Run:
    """Give a run one leg where its terms accept one."""
    accepted = [f for f in here if run.terms.accepts(f.region, f.capacity_type)]
    if not accepted:
        return run
    flavor = draw(st.sampled_from(accepted))
    state = draw(st.sampled_from((PlacementState.QUEUED, PlacementState.PROVISIONING)))
    reason = draw(st.sampled_from((Reason.WAITING_FOR_QUOTA, Reason.STOCKOUT)))
    nodes = run.intent.workload.hardware[0].nodes
    leg = _leg(run, flavor, state, reason, nodes)
    return with_legs(run, stuck(leg, reason, 4000.0) if draw(st.booleans()) else leg)


def _leg(
    run: Run, flavor: FlavorFacts, state: PlacementState, reason: Reason, nodes: int
) -> Placement:
    name = f"leg{run.name[-3:]}".ljust(12, "0")
    return leg_at(flavor, placement=name, state=state, reason=reason, since_s=4000.0, nodes=nodes)


def run_to_rest(view: View) -> list[tuple[Run, AddLeg]]:
    """Plan until nothing is said; return each added leg with its run as it was then."""
    added: list[tuple[Run, AddLeg]] = []
    fresh = ids()
    for _ in range(40):
        made = plan(view, NOW, fresh)
        added += [(view.runs[name], c) for name, c in made.choices if isinstance(c, AddLeg)]
        apply_plan(view, made, NOW)
        if not made.choices and made.is_whole:
            return added
    raise AssertionError("planning never came to rest")


@given(views())
@settings(max_examples=30, deadline=None)
def test_a_plan_never_exceeds_a_cap(view: View) -> None:
    caps = view.teams["nlp"].caps
    before = view.load.team("nlp").committed_gpus
    waiting_before = view.load.team("nlp").waiting_gpus
    added = run_to_rest(view)
    load = view.load.team("nlp")
    if caps.running_gpus is not None and added:
        assert load.running_gpus + load.committed_gpus <= max(caps.running_gpus, before)
    hedges = sum(leg.site.gpus for _, leg in added if leg.purpose == "HEDGE")
    if caps.gate_gpus is not None and hedges:
        assert waiting_before + hedges <= caps.gate_gpus


@given(views())
@settings(max_examples=30, deadline=None)
def test_no_leg_goes_where_none_may(view: View) -> None:
    for run, leg in run_to_rest(view):
        region = view.region(leg.site.region)
        assert not region.is_cordoned
        assert not region.is_draining
        assert region.policy.is_allowed
        assert view.clusters[leg.site.key.cluster].is_reachable
        assert run.terms.accepts(leg.site.region, leg.site.capacity_type)


@given(views())
@settings(max_examples=30, deadline=None)
def test_a_run_has_no_more_legs_than_its_regions_allow_and_one_flex_leg(view: View) -> None:
    run_to_rest(view)
    for run in view.runs.values():
        legs = waiting_legs(run)
        if len(legs) > 1:
            assert len(legs) <= min(view.region(x.site.region).policy.hedge_width for x in legs)
            assert len({leg.site.key for leg in legs}) == len(legs)
        assert sum(leg.site.capacity_type is CapacityType.FLEX for leg in legs) <= 1


@given(views())
@settings(max_examples=30, deadline=None)
def test_every_wait_has_a_reason_a_next_action_and_a_time(view: View) -> None:
    run_to_rest(view)
    for run in view.runs.values():
        told = explain(view, run, NOW)
        for wait in (run.why, told.wait):
            assert wait.reason is not None
            assert wait.message
            assert wait.next_action
            assert wait.next_at_s is not None
        assert told.wait.next_at_s >= NOW.elapsed_s


@given(views())
@settings(max_examples=30, deadline=None)
def test_every_flavor_is_an_offer_or_refused_with_its_reason(view: View) -> None:
    for run in view.runs.values():
        told = explain(view, run, NOW)
        keys = {one.key for one in told.offers} | {one.key for one in told.refusals}
        assert keys == set(view.flavors)
        assert all(no.message for no in told.refusals)
        assert all(0.0 <= offer.forecast.chance <= 1.0 for offer in told.offers)


@given(views())
@settings(max_examples=30, deadline=None)
def test_only_as_many_gangs_are_in_line_as_will_soon_start(view: View) -> None:
    before = {key: len(view.load.in_line(key)) for key in view.flavors}
    run_to_rest(view)
    for key, flavor in view.flavors.items():
        line = sorted(view.load.in_line(key), key=lambda gang: gang.rank)
        free = flavor.headroom or 0
        beyond = 0
        for waiting in line:
            beyond += waiting.gpus > free or beyond > 0
            free -= waiting.gpus
        # One that passed under the rule of backfill may be in line as well.
        assert beyond <= max(QUEUE_AHEAD, before[key]) + 1


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 99)), min_size=1, max_size=30))
@settings(max_examples=40, deadline=None)
def test_runs_go_by_priority_then_age(marks: list[tuple[int, float]]) -> None:
    view = make_view(make_cluster(make_flavor(nominal=80, nodes_free=10)))
    for index, (priority, created_s) in enumerate(marks):
        terms = Terms(capacity_types=ANY, priority=priority)
        view.apply_run(waiting_run(f"r{index:02d}", created_s=created_s, terms=terms))
    order = sorted(range(len(marks)), key=lambda i: (-marks[i][0], marks[i][1], f"r{i:02d}"))
    went = [name for name, _ in legs_of(plan(view, NOW, ids()))]
    assert went == [f"r{i:02d}" for i in order[: len(went)]]
    assert len(went) == min(len(marks), 10 + QUEUE_AHEAD)


@given(
    st.integers(0, 64),
    st.integers(2, 8),
    st.lists(st.integers(1, 8), min_size=1, max_size=12),
)
@settings(max_examples=40, deadline=None)
def test_a_later_small_run_never_delays_a_waiting_large_gang(
    headroom: int, large_nodes: int, others: list[int]
) -> None:
    flavor = make_flavor(nominal=64, reserved=64 - headroom, nodes_free=8)
    view = make_view(make_cluster(flavor))
    view.apply_run(waiting_run("large", created_s=0.0, hardware=gang(large_nodes)))
    apply_plan(view, plan(view, NOW, ids("l")), NOW)
    for index, nodes in enumerate(others):
        view.apply_run(waiting_run(f"r{index:02d}", created_s=10.0, hardware=gang(nodes)))
    added = run_to_rest(view)
    taken = 8 * large_nodes
    for _, leg in added:
        is_smaller = leg.site.gpus < 8 * large_nodes
        fits_alone = leg.site.gpus <= headroom
        fits_beside = taken + leg.site.gpus <= headroom
        # Alone it could start at once, and take what the large gang waits for.
        assert not (is_smaller and fits_alone and not fits_beside)
        taken += leg.site.gpus


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_runs_that_lose_their_place_together_spread(seed: int) -> None:
    gone = make_flavor("alpha", nodes_free=0)
    left = [make_flavor(name, price="3", nodes_free=12, nominal=960) for name in NAMES[1:]]
    view = make_view(*(make_cluster(flavor) for flavor in (gone, *left)))
    view.apply_signal(signal(gone, SignalKind.STOCKOUT, NOW.elapsed_s))
    view.losses.extend([NOW.elapsed_s] * 12)
    for index in range(12):
        run = waiting_run(f"r{index:02d}", created_s=float(index))
        view.apply_run(replace(run, uid=f"{seed}-{index}", has_started=True))
    went = Counter(cluster for _, cluster in legs_of(plan(view, NOW, ids())))
    assert sum(went.values()) == 12
    assert max(went.values()) <= 12 // len(left) + 2
    assert len(went) == len(left)


@given(
    st.integers(0, 10_000),
    st.lists(st.floats(0.0, 8.0), min_size=12, max_size=12),
    st.permutations(("3", "3.1", "3.3")),
    st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_runs_that_lose_their_place_one_after_the_other_spread_too(
    seed: int, gaps: list[float], prices: list[str], starts_at_once: bool
) -> None:
    gone = make_flavor("alpha", nodes_free=0)
    left = [
        make_flavor(name, price=price, nodes_free=12, nominal=960)
        for name, price in zip(NAMES[1:4], prices, strict=True)
    ]
    view = make_view(*(make_cluster(flavor) for flavor in (gone, *left)))
    view.apply_signal(signal(gone, SignalKind.STOCKOUT, NOW.elapsed_s))
    went: Counter[str] = Counter()
    now_s = NOW.elapsed_s
    for index, gap_s in enumerate(gaps):
        # Each is requeued, planned and on its way before the next one is seen to have ended.
        now_s += gap_s
        run = replace(
            waiting_run(f"r{index:02d}", created_s=float(index)),
            uid=f"{seed}-{index}",
            has_started=True,
        )
        view.apply_run(run)
        view.losses.append(now_s)
        made = plan(view, at(now_s), ids(f"p{index:02d}"))
        went.update(cluster for _, cluster in legs_of(made))
        apply_plan(view, made, at(now_s))
        if starts_at_once:
            (leg,) = view.runs[run.name].placements.values()
            gate = replace(leg, state=PlacementState.AT_GATE)
            view.apply_run(replace(view.runs[run.name], placements={leg.id: gate}))
    assert sum(went.values()) == 12
    assert set(went) == {flavor.key.cluster for flavor in left}
    assert max(went.values()) <= 7


@given(views(), st.randoms())
@settings(max_examples=25, deadline=None)
def test_a_view_kept_by_changes_equals_one_built_anew(view: View, random: object) -> None:
    run_to_rest(view)
    anew = make_view(*view.clusters.values())
    for standing in view.regions.values():
        anew.apply_region(standing)
    anew.apply_team("nlp", view.teams["nlp"])
    for run in view.runs.values():
        anew.apply_run(run)
    assert anew.load.gangs.keys() >= {key for key, some in view.load.gangs.items() if some}
    for key in view.flavors:
        assert anew.load.gangs.get(key, {}) == view.load.gangs.get(key, {})
    assert anew.load.team("nlp") == view.load.team("nlp")
    assert set(anew.groups) == set(view.groups)
    for demand, group in anew.groups.items():
        assert len(group.line) == len(view.groups[demand].line)
        assert group.line.first(50) == view.groups[demand].line.first(50)


@given(views())
@settings(max_examples=25, deadline=None)
def test_planning_is_a_function_and_changes_nothing(view: View) -> None:
    first, second = plan(view, NOW, ids()), plan(view, NOW, ids())
    assert first.choices == second.choices
    said = [c for _, c in first.choices if isinstance(c, SayWait)]
    assert all(wait.next_at_s >= NOW.elapsed_s for wait in said)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 8), st.sampled_from((None, *SignalKind))),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=25, deadline=None)
def test_what_a_group_keeps_is_what_would_be_found_anew(
    changes: list[tuple[int, int, SignalKind | None]],
) -> None:
    here = [make_flavor(name) for name in NAMES[:3]]
    view = make_view(*(make_cluster(flavor) for flavor in here))
    run = waiting_run(hardware=gang(2))
    view.apply_run(run)
    group = view.group_of(run.name)
    assert group is not None
    assess(view, run, NOW, group)
    for index, nodes, kind in changes:
        flavor = here[index] = replace(here[index], nodes_free=nodes, reserved=8 * nodes)
        view.apply_cluster(make_cluster(flavor))
        if kind is not None:
            view.apply_signal(signal(flavor, kind, NOW.elapsed_s))
        kept, anew = assess(view, run, NOW, group), assess(view, run, NOW, None)
        assert sorted(kept.offers, key=lambda one: one.key) == anew.offers
        assert sorted(kept.refusals, key=lambda one: one.key) == anew.refusals
