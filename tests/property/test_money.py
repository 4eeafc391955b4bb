"""Money says the truth: laws of the meter, the bill and what a team has spent.

A life is told as facts, each with the moment it is told and, for machines, the time that it was so.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.history.codec import decode, encode
from broker.history.evolve import fold
from broker.history.refusals import Refused
from broker.model.bill import NodesFrom
from broker.model.billing import MS_PER_HOUR, hourly, live_cost, run_bill
from broker.model.moment import Moment
from broker.model.policy import TeamCaps
from broker.model.reasons import Reason
from broker.model.run import Arrival, Run
from broker.model.states import PlacementState
from broker.store.standing import Holding, account, day_of, gate_ms_of, standing
from tests.builders import Story, make_moment

PRICES = st.sampled_from([Decimal("2.50"), Decimal("0.333333"), Decimal("12.0001")])
PAUSES = st.sampled_from([0.0, 0.001, 0.7, 59.9995, 3600.0])
WAITING = (PlacementState.QUEUED, PlacementState.PROVISIONING, PlacementState.AT_GATE)
SIGHTS = st.tuples(PAUSES, st.sampled_from(WAITING), st.integers(0, 2))
LIVES = st.tuples(PRICES, st.lists(SIGHTS, max_size=8), st.booleans(), st.lists(SIGHTS, max_size=4))

Look = tuple[float, PlacementState, int]  # seconds after the one before, what was seen, machines
Life = tuple[Decimal, list[Look], bool, list[Look]]  # price, looks, whether it starts, looks after


class Told:
    """A life, with the run and the moment after each fact."""

    def __init__(self, price: Decimal) -> None:
        self.story = Story().accepted().wait(10.0).placed(price_per_gpu_hour=price).prepared()
        self.after: list[tuple[Run, Moment]] = []
        self.keep()

    def keep(self) -> None:
        self.after.append((self.story.run, self.story.now))

    def see(self, pause_s: float, state: PlacementState, here: int, serial: int) -> None:
        self.story.wait(pause_s)
        self.keep()
        self.story.reported(
            state=state,
            reason=Reason.NODES_COMING,
            message=f"look {serial}",
            arrival=Arrival(nodes_here=here, nodes_wanted=2),
        )
        self.keep()


def live(told: Life) -> Told:
    """Tell a life from its placement on; one that starts also ends."""
    price, before, has_started, after = told
    life = Told(price)
    for serial, (pause_s, state, here) in enumerate(before):
        life.see(pause_s, state, here, serial)
    if has_started:
        life.story.granted().started()
        life.keep()
        for serial, (pause_s, _, here) in enumerate(after):
            life.see(pause_s, PlacementState.RUNNING, here, 100 + serial)
        life.story.wait(7.0).closed(0, 0)
        life.keep()
    return life


@given(LIVES)
def test_a_cost_is_never_negative_and_never_falls(told: Life) -> None:
    costs = [live_cost(run, now) for run, now in live(told).after]
    assert costs[0] == 0
    assert all(one <= next_one for one, next_one in pairwise(costs))


@given(LIVES)
def test_the_phases_add_up_to_the_total_and_to_the_price_of_their_time(told: Life) -> None:
    price = told[0]
    for run, now in live(told).after:
        bill = run_bill(run, now)
        assert bill.cost.provisioning + bill.cost.at_gate + bill.cost.running == bill.cost.total
        assert bill.time.idle_ms + bill.time.running_ms == bill.time.total_ms
        exact = price * bill.time.total_ms / MS_PER_HOUR
        assert abs(bill.cost.total - exact) <= Decimal("0.0000015")


@given(LIVES)
def test_what_accrues_between_two_facts_is_the_hourly_price_times_their_distance(
    told: Life,
) -> None:
    for (run, now), (_, later) in pairwise(live(told).after):
        ms = round(later.elapsed_s * 1000) - round(now.elapsed_s * 1000)
        grown = live_cost(run, later) - live_cost(run, now)
        assert abs(grown - hourly(run) * ms / MS_PER_HOUR) <= Decimal("0.000003")


@given(st.lists(st.tuples(PAUSES, st.sampled_from(WAITING)), max_size=8))
def test_machines_that_never_came_cost_nothing(
    sights: list[tuple[float, PlacementState]],
) -> None:
    life = Told(Decimal("9.99"))
    for serial, (pause_s, state) in enumerate(sights):
        life.see(pause_s, state, 0, serial)
    life.story.wait(3600.0).gone()
    assert run_bill(life.story.run, life.story.now).time.total_ms == 0
    assert life.story.run.spent == 0


@given(
    st.lists(st.tuples(st.integers(0, 3_600_000), st.integers(0, 2)), min_size=1, max_size=8),
    st.lists(st.integers(0, 3_600_000), max_size=5),
)
def test_how_often_somebody_looked_changes_nothing(
    changes: list[tuple[int, int]], looks: list[int]
) -> None:
    # All is known with its time, so one look at the end is as good as many.
    steps = tuple(
        NodesFrom(at_s=at_ms / 1000, nodes=nodes) for at_ms, nodes in sorted(dict(changes).items())
    )
    end = (NodesFrom(at_s=3600.0, nodes=0),)
    bills = []
    for moments in ([], sorted(looks)):
        story = Story().accepted().placed().prepared().reported()
        for serial, at_ms in enumerate(moments):
            story.now = make_moment(at_ms / 1000)
            seen = tuple(one for one in steps if one.at_s * 1000 <= at_ms)
            here = Arrival(nodes_here=seen[-1].nodes if seen else 0, nodes_wanted=2)
            story.reported(message=f"look {serial}", arrival=here, nodes=seen)
        story.now = make_moment(4000.0)
        story.gone(nodes=(*steps, *end))
        bills.append(story.run.bill)
    assert bills[0] == bills[1]


@given(LIVES)
def test_a_replay_of_the_bytes_gives_the_very_same_bill(told: Life) -> None:
    story = live(told).story
    again = fold(None, (replace(one, event=decode(*encode(one.event))) for one in story.recorded))
    assert again is not None
    assert run_bill(again, story.now) == run_bill(story.run, story.now)


@given(st.lists(LIVES, min_size=1, max_size=3))
def test_what_a_team_has_spent_is_what_its_runs_cost_live_ones_included(lives: list[Life]) -> None:
    holding = Holding()
    cost, idle_ms, last_s = Decimal(0), 0, 0.0
    runs = []
    for told in lives:
        before: Run | None = None
        for run, at in live(told).after:
            holding = account(holding, before, run, at)
            before, last_s = run, max(last_s, at.elapsed_s)
        runs.append(before)
    now = make_moment(last_s + 100.0)
    for last in runs:
        assert last is not None
        bill = run_bill(last, now)
        cost, idle_ms = cost + bill.cost.total, idle_ms + bill.time.idle_ms
        assert gate_ms_of(last) <= bill.time.idle_ms
    found = standing(holding, TeamCaps(), now)
    assert abs(found.spent - cost) <= Decimal("0.00001")
    # By day it is what was booked in that day, and what stands there now.
    assert sum(holding.gate_ms.values()) + holding.idle.at(now) == idle_ms
    today = holding.gate_ms.get(day_of(now), 0) + holding.idle.at(now)
    assert abs(found.gate_gpu_minutes_today - float(today) / 60_000) < 1e-9


@given(LIVES, PRICES)
def test_a_budget_that_is_reached_grants_nothing(told: Life, budget: Decimal) -> None:
    life = live((told[0], told[1], False, []))
    terms = replace(life.story.run.terms, budget=budget)
    run = replace(life.story.run, intent=replace(life.story.run.intent, terms=terms))
    life.story._run = run
    if live_cost(run, life.story.now) < budget:
        life.story.granted()
        return
    with pytest.raises(Refused) as refused:
        life.story.granted()
    assert refused.value.reason is Reason.BUDGET_SPENT
