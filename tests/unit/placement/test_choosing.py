"""Which offer is taken: money and waiting, weight, turns, caps, legs and the ladder."""

from dataclasses import replace
from decimal import Decimal

import pytest

from broker.model.capacity import FlavorFacts, SignalKind
from broker.model.intent import CapacityType, HardwareOption, Terms
from broker.model.policy import Patience, RegionPolicy, TeamCaps, TeamStanding
from broker.model.reasons import Reason
from broker.model.run import Purpose, Run, Why
from broker.model.states import PlacementState, RunState
from broker.placement.assess import assess
from broker.placement.choices import AddLeg, Climb, SayWait
from broker.placement.choose import Chosen, choose
from broker.placement.explain import explain, is_news
from broker.placement.hedge import wanted
from broker.placement.ladder import climbs_at_s, last_rung
from broker.placement.plan import plan
from broker.placement.share import Tally
from broker.placement.standing import RegionStanding
from broker.placement.view import View
from tests.unit.placement.pictures import (
    ANY,
    H100X8,
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

NOW = at(1000.0)


def goes_to(run: Run, *flavors: FlavorFacts, view: View | None = None) -> str | None:
    """Return the cluster that a run is sent to."""
    view = view or make_view(*(make_cluster(one) for one in flavors))
    view.apply_run(run)
    legs = legs_of(plan(view, NOW, ids()))
    return legs[0][1] if legs else None


def test_the_cheaper_of_two_alike_is_taken() -> None:
    assert goes_to(waiting_run(), make_flavor("alpha", price="3"), make_flavor("beta")) == "beta"


def test_a_dearer_start_now_beats_a_cheap_one_much_later_for_a_short_run() -> None:
    soon = make_flavor("alpha", price="3", nodes_free=1)
    late = make_flavor("beta", price="2", reserved=64, ahead_gpus=64)
    short = Terms(capacity_types=ANY, expected_duration_s=600.0)
    long = Terms(capacity_types=ANY, expected_duration_s=400 * 3600.0)
    assert goes_to(waiting_run(terms=short), soon, late) == "alpha"
    assert goes_to(waiting_run(terms=long), soon, late) == "beta"


def test_weight_draws_and_repels() -> None:
    alpha, beta = make_flavor("alpha", price="2"), make_flavor("beta", price="3")
    view = make_view(make_cluster(alpha), make_cluster(beta))
    view.apply_region(RegionStanding(region="alpha-region", policy=RegionPolicy(weight=0.0)))
    assert goes_to(waiting_run(), view=view) == "beta"


def test_speed_is_part_of_the_price() -> None:
    slow = make_flavor("alpha", accelerator="A100", price="2")
    fast = make_flavor("beta", price="3")
    both = (
        HardwareOption(accelerator="A100", accelerators_per_node=8, nodes=1, relative_speed=0.5),
        H100X8,
    )
    assert goes_to(waiting_run(hardware=both), slow, fast) == "beta"


def test_a_stockout_sends_runs_elsewhere() -> None:
    alpha, beta = make_flavor("alpha", price="2"), make_flavor("beta", price="3")
    view = make_view(make_cluster(alpha), make_cluster(beta))
    view.apply_signal(signal(alpha, SignalKind.STOCKOUT, 100.0))
    view.apply_signal(signal(alpha, SignalKind.STOCKOUT, 990.0))
    assert goes_to(waiting_run(), view=view) == "beta"


def test_free_nodes_are_counted_once() -> None:
    alpha = make_flavor("alpha", price="2", nodes_free=1, startup_s=3600.0)
    beta = make_flavor("beta", price="2.2", nodes_free=1, startup_s=3600.0)
    view = make_view(make_cluster(alpha), make_cluster(beta))
    for name in ("a", "b"):
        view.apply_run(waiting_run(name))
    assert legs_of(plan(view, NOW, ids())) == [("a", "alpha"), ("b", "beta")]


def test_many_that_wait_in_line_send_the_next_to_a_dearer_place_only_if_it_pays() -> None:
    cheap = make_flavor("alpha", price="2", reserved=64)
    dear = make_flavor("beta", price="200")
    near = make_flavor("gamma", price="2.5")
    view = make_view(make_cluster(cheap), make_cluster(dear))
    for name in "abcd":
        view.apply_run(waiting_run(name))
    assert legs_of(plan(view, NOW, ids())) == [("a", "alpha"), ("b", "alpha")]
    view.apply_cluster(make_cluster(near))
    assert ("c", "gamma") in legs_of(plan(view, NOW, ids()))


@pytest.mark.parametrize(("work_s", "at_s"), [(None, 1600.0), (36_000.0, 6000.0)])
def test_a_dearer_place_is_promised_for_when_it_is_taken(work_s: float | None, at_s: float) -> None:
    """The wait for alpha is borne for 600 s, that for beta for 5,000 s if it is worth it at all."""
    alpha = make_flavor("alpha", price="2", reserved=64)
    beta = make_flavor("beta", price="3", reserved=64, ahead_gpus=64)
    gamma = make_flavor("gamma", price="20", nodes_free=8)
    view = make_view(*map(make_cluster, (alpha, beta, gamma)))
    patient = RegionPolicy(patience=Patience(quota_s=5000.0))
    view.apply_region(RegionStanding(region="beta-region", policy=patient))
    for number, flavor in enumerate((alpha, alpha, beta, beta)):
        leg = leg_at(flavor, placement=f"p0000000000{number}")
        view.apply_run(with_legs(waiting_run(f"before-{number}"), leg))

    def chosen(run: Run, now_s: float) -> Chosen:
        view.apply_run(run)
        return choose(view, Tally(view), run, assess(view, run, at(now_s), None).offers, at(now_s))

    run = waiting_run(terms=Terms(capacity_types=ANY, expected_duration_s=work_s))
    found = chosen(run, 1000.0)
    assert found.offer is None
    assert found.dearer is not None
    assert (found.dearer.key, found.dearer_at_s) == (gamma.key, at_s)
    turn = replace(run, why=replace(run.why, reason=Reason.WAITING_FOR_TURN, since_s=1000.0))
    assert chosen(turn, at_s - 1.0).offer is None
    taken = chosen(turn, at_s).offer
    assert taken is not None
    assert taken.key == gamma.key


@pytest.mark.parametrize(("cap", "went"), [(None, 3), (7, 0), (8, 1), (16, 2), (17, 2)], ids=str)
def test_the_teams_running_cap_binds_over_one_plan(cap: int | None, went: int) -> None:
    view = make_view(make_cluster(make_flavor(nodes_free=8)))
    view.apply_team("nlp", standing(TeamCaps(running_gpus=cap)))
    for name in "abc":
        view.apply_run(waiting_run(name))
    assert len(legs_of(plan(view, NOW, ids()))) == went


def standing(caps: TeamCaps, minutes: float = 0.0) -> TeamStanding:
    return TeamStanding(
        caps=caps,
        running_gpus=0,
        gate_gpus=0,
        gate_gpu_minutes_today=minutes,
        spent=Decimal(0),
    )


ALPHA, BETA = make_flavor("alpha"), make_flavor("beta", price="3")
STUCK = stuck(leg_at(ALPHA, since_s=0.0), Reason.QUOTA_EXHAUSTED, 900.0)


def hedged(view: View, run: Run) -> list[tuple[str, str]]:
    view.apply_run(run)
    return legs_of(plan(view, NOW, ids()))


def hedge_view() -> View:
    return make_view(make_cluster(ALPHA), make_cluster(BETA))


def test_a_stuck_leg_gets_another_elsewhere_and_a_good_one_none() -> None:
    assert hedged(hedge_view(), with_legs(waiting_run(), STUCK)) == [("run", "beta")]
    assert hedged(hedge_view(), with_legs(waiting_run(), leg_at(ALPHA))) == []


def test_the_width_bounds_the_legs() -> None:
    view = hedge_view()
    view.apply_region(RegionStanding(region="beta-region", policy=RegionPolicy(hedge_width=1)))
    assert hedged(view, with_legs(waiting_run(), STUCK)) == []


def test_a_run_has_one_flex_leg() -> None:
    flex = make_flavor("alpha", capacity_type=CapacityType.FLEX)
    other = make_flavor("beta", capacity_type=CapacityType.FLEX)
    view = make_view(make_cluster(flex), make_cluster(other))
    leg = stuck(leg_at(flex), Reason.FLEX_SILENT, 900.0)
    assert hedged(view, with_legs(waiting_run(), leg)) == []


@pytest.mark.parametrize(
    "team",
    [
        standing(TeamCaps(gate_gpus=15)),
        standing(TeamCaps(gate_gpu_minutes_per_day=60.0), minutes=60.0),
    ],
)
def test_the_teams_gate_caps_bound_hedges(team: TeamStanding) -> None:
    view = hedge_view()
    view.apply_team("nlp", team)
    assert hedged(view, with_legs(waiting_run(), STUCK)) == []


def test_a_leg_that_will_hardly_come_in_time_is_hedged_before_it_is_stuck() -> None:
    terms = Terms(capacity_types=ANY, max_wait_s=7200.0)
    unlikely = with_legs(waiting_run(terms=terms), leg_at(ALPHA, chance=0.2))
    likely = with_legs(waiting_run(terms=terms), leg_at(ALPHA, chance=0.8))
    assert wanted(hedge_view(), unlikely, NOW) is Purpose.HEDGE
    assert wanted(hedge_view(), likely, NOW) is None


def test_a_whole_gang_is_not_hedged_whatever_was_foreseen_for_it() -> None:
    terms = Terms(capacity_types=ANY, max_wait_s=7200.0)
    here = leg_at(ALPHA, chance=0.2, state=PlacementState.AT_GATE, reason=Reason.AT_GATE)
    stuck_there = stuck(here, Reason.GATE_TIMEOUT, 900.0)
    assert wanted(hedge_view(), with_legs(waiting_run(terms=terms), here), NOW) is None
    climbed = replace(waiting_run(terms=terms), climbed=True)
    assert wanted(hedge_view(), with_legs(climbed, here), NOW) is None
    nobody_came = with_legs(waiting_run(terms=terms), stuck_there)
    assert wanted(hedge_view(), nobody_came, NOW) is Purpose.HEDGE


def test_what_is_left_of_a_wait_is_not_spent_before_a_place_that_is_out_of_stock() -> None:
    terms = Terms(capacity_types=(CapacityType.SPOT,), max_wait_s=20.0)
    run = replace(waiting_run(terms=terms), climbed=True)
    for reason in (Reason.STOCKOUT, Reason.PARTIAL_ARRIVAL):
        empty = leg_at(ALPHA, chance=0.9, state=PlacementState.PROVISIONING, reason=reason)
        assert wanted(hedge_view(), with_legs(run, empty), NOW) is Purpose.HEDGE
    coming = leg_at(ALPHA, chance=0.9, state=PlacementState.PROVISIONING)
    assert wanted(hedge_view(), with_legs(run, coming), NOW) is None


def test_a_requeued_run_goes_on_as_requeue() -> None:
    run = replace(waiting_run(), has_started=True)
    assert wanted(hedge_view(), run, NOW) is Purpose.REQUEUE


LADDER = Terms(capacity_types=(CapacityType.SPOT, CapacityType.ON_DEMAND), max_wait_s=3600.0)


def test_the_last_rung_is_the_most_certain_that_is_accepted() -> None:
    assert last_rung(waiting_run(terms=LADDER)) is CapacityType.ON_DEMAND
    assert last_rung(waiting_run()) is CapacityType.RESERVED


@pytest.mark.parametrize(
    ("reserve_s", "at_s"), [(600.0, 3000.0), (100.0, 3500.0), (9999.0, 1800.0)]
)
def test_enough_of_the_wait_is_kept_in_hand_and_at_most_half(reserve_s: float, at_s: float) -> None:
    assert climbs_at_s(waiting_run(terms=LADDER), reserve_s) == at_s


def test_a_run_without_a_bound_never_climbs() -> None:
    assert climbs_at_s(waiting_run(), 600.0) is None
    assert climbs_at_s(replace(waiting_run(terms=LADDER), climbed=True), 600.0) is None


def test_the_ladder_is_climbed_in_time_and_the_last_rung_gets_a_leg() -> None:
    spot = make_flavor("alpha", price="2", reserved=64)
    sure = make_flavor("beta", price="40", capacity_type=CapacityType.ON_DEMAND)
    view = make_view(make_cluster(spot), make_cluster(sure))
    leg = leg_at(spot, since_s=3000.0, chance=0.9)
    run = with_legs(waiting_run(terms=LADDER), leg)
    view.apply_run(run)
    early, late = plan(view, at(1500.0), ids()), plan(view, at(3500.0), ids())
    assert [c for _, c in early.choices if isinstance(c, (Climb, AddLeg))] == []
    assert [type(c) for _, c in late.choices] == [Climb]
    apply_plan(view, late, at(3500.0))
    assert legs_of(plan(view, at(3500.0), ids())) == [("run", "beta")]


def test_a_placed_head_lets_the_next_of_its_group_be_placed_in_the_same_plan() -> None:
    view = make_view(make_cluster(make_flavor(nodes_free=8)))
    for index in range(5):
        view.apply_run(waiting_run(f"r{index}", created_s=float(index)))
    assert [name for name, _ in legs_of(plan(view, NOW, ids()))] == ["r0", "r1", "r2", "r3", "r4"]


def test_a_run_behind_a_blocked_head_is_told_once_and_not_planned() -> None:
    view = make_view(make_cluster(make_flavor(reserved=64)))
    for index in range(4):
        view.apply_run(waiting_run(f"r{index}", created_s=float(index)))
    apply_plan(view, plan(view, NOW, ids()), NOW)
    apply_plan(view, plan(view, NOW, ids()), NOW)
    assert plan(view, NOW, ids()).choices == ()
    late = waiting_run("late", created_s=50.0)
    view.apply_run(late)
    said = plan(view, NOW, ids()).choices
    assert [(name, type(choice)) for name, choice in said] == [(late.name, SayWait)]
    assert not view.dirty


def test_an_unchanged_wait_is_not_told_again() -> None:
    view = make_view()
    view.apply_run(waiting_run())
    apply_plan(view, plan(view, NOW, ids()), NOW)
    view.touch("teams/nlp/runs/run")
    assert plan(view, at(1010.0), ids()).choices == ()
    view.touch("teams/nlp/runs/run")
    again = plan(view, at(2000.0), ids()).choices
    assert [type(choice) for _, choice in again] == [SayWait]


def test_a_number_that_moved_is_no_news() -> None:
    told = partial("2 of 4 machines are here in us-east4, the rest are out of stock")
    assert not is_news(told, say(told.message.replace("2 of", "3 of")), NOW)
    assert is_news(told, say(told.message.replace("us-east4", "us-east1")), NOW), "another place"
    assert is_news(told, say(told.message), at(told.next_at_s or 0.0)), "its time has passed"


def partial(message: str) -> Why:
    return Why(
        reason=Reason.PARTIAL_ARRIVAL,
        message=message,
        since_s=NOW.elapsed_s,
        next_action="a leg is added",
        next_at_s=NOW.elapsed_s + 60.0,
    )


def say(message: str) -> SayWait:
    return SayWait(
        reason=Reason.PARTIAL_ARRIVAL,
        message=message,
        next_action="a leg is added",
        next_at_s=NOW.elapsed_s + 90.0,
    )


def test_a_refused_choice_is_tried_again_a_little_later() -> None:
    view = make_view(make_cluster(make_flavor()))
    view.apply_run(waiting_run())
    made = plan(view, NOW, ids())
    view.settle(made)
    view.refused("teams/nlp/runs/run", NOW.elapsed_s)
    assert plan(view, at(1001.0), ids()).choices == ()
    assert legs_of(plan(view, at(1020.0), ids())) == [("run", "alpha")]


def test_a_freed_place_brings_the_next_run_in() -> None:
    flavor = make_flavor(reserved=64)
    view = make_view(make_cluster(flavor))
    for index in range(3):
        view.apply_run(waiting_run(f"r{index}", created_s=float(index)))
    apply_plan(view, plan(view, NOW, ids()), NOW)
    apply_plan(view, plan(view, NOW, ids()), NOW)
    assert not view.dirty
    first = view.runs["teams/nlp/runs/r0"]
    (leg,) = first.placements.values()
    gone = replace(leg, state=PlacementState.PROVISIONING)
    view.apply_run(with_legs(first, gone))
    assert legs_of(plan(view, NOW, ids())) == [("r2", "alpha")]


def test_a_large_gang_ahead_is_not_passed_unless_the_small_one_is_soon_over() -> None:
    flavor = make_flavor(reserved=40, nodes_free=3)
    view = make_view(make_cluster(flavor))
    view.apply_run(waiting_run("large", hardware=gang(6)))
    apply_plan(view, plan(view, NOW, ids()), NOW)
    view.apply_run(waiting_run("small", created_s=10.0))
    told = explain(view, view.runs["teams/nlp/runs/small"], NOW)
    assert told.wait.reason is Reason.WOULD_DELAY_LARGER
    brief = Terms(capacity_types=ANY, expected_duration_s=60.0)
    view.apply_run(waiting_run("brief", created_s=10.0, terms=brief))
    assert legs_of(plan(view, NOW, ids("x"))) == [("brief", "alpha")]


def test_a_teams_freed_gpus_bring_its_next_run_in() -> None:
    view = make_view(make_cluster(make_flavor(nodes_free=8)))
    view.apply_team("nlp", standing(TeamCaps(running_gpus=8)))
    for name in "ab":
        view.apply_run(waiting_run(name))
    for _ in range(3):
        apply_plan(view, plan(view, NOW, ids()), NOW)
    assert not view.dirty
    first = view.runs["teams/nlp/runs/a"]
    (leg,) = first.placements.values()
    left = replace(leg, state=PlacementState.ENDED)
    view.apply_run(replace(with_legs(first, left), state=RunState.CANCELLED))
    assert legs_of(plan(view, NOW, ids("x"))) == [("b", "alpha")]
