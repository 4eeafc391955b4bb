"""Where a run goes on whose machines have a planned end, and when that place is asked."""

from dataclasses import replace
from typing import Any

import pytest

from broker.model.capacity import FlavorFacts
from broker.model.checkpoint import EpochId
from broker.model.intent import CapacityType
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Epoch, Placement, Purpose, Run, Why
from broker.model.states import EpochState, PlacementState, RunState
from broker.placement.choices import SayWait
from broker.placement.explain import explain
from broker.placement.hedge import wanted
from broker.placement.plan import plan
from broker.placement.view import View
from tests.unit.placement.pictures import (
    at,
    ids,
    leg_at,
    legs_of,
    make_cluster,
    make_flavor,
    make_view,
    stuck,
    waiting_run,
    with_legs,
)

WEEK_S = 7 * 86_400.0
LEAVES_S = WEEK_S - 100.0  # to save, to end when told to, and until that is heard


def flex(cluster: str, **changes: Any) -> FlavorFacts:
    fields: dict[str, Any] = {"capacity_type": CapacityType.FLEX, "price": "2", **changes}
    return replace(make_flavor(cluster, flavor="flex", startup_s=600.0), **_facts(fields))


def _facts(fields: dict[str, Any]) -> dict[str, Any]:
    made = make_flavor("any", **{k: v for k, v in fields.items() if k in ("price", "nodes_free")})
    rest = {k: v for k, v in fields.items() if k not in ("price", "nodes_free")}
    return {
        "price_per_gpu_hour": made.price_per_gpu_hour,
        "nodes_free": made.nodes_free,
        "max_run_s": WEEK_S,
        **rest,
    }


HERE = flex("alpha")


def trains(*legs: Placement) -> Run:
    """A run that trains in alpha since the beginning, on machines that stay for a week."""
    here = replace(leg_at(HERE, placement="here"), state=PlacementState.RUNNING)
    epoch = Epoch(
        id=EpochId(number=1, nonce="n" * 12),
        placement="here",
        cluster="alpha",
        region=HERE.region,
        state=EpochState.STARTED,
        granted_s=0.0,
        resume_from=None,
        started_s=0.0,
        running_s=0.0,
    )
    return replace(
        with_legs(waiting_run(), here, *legs),
        state=RunState.RUNNING,
        why=Why(reason=Reason.TRAINING, message="Training in alpha", since_s=0.0),
        epochs=(epoch,),
        has_started=True,
        wait_began_s=None,
    )


def leg(flavor: FlavorFacts, **changes: Any) -> Placement:
    return replace(leg_at(flavor), purpose=Purpose.SUCCESSOR, **changes)


def asked(view: View, run: Run, now: Moment) -> list[str]:
    view.apply_run(run)
    return [cluster for _, cluster in legs_of(plan(view, now, ids()))]


def test_a_place_is_asked_as_long_before_as_a_start_there_takes_at_worst() -> None:
    # 605 s in the middle of its forecast is 1997 s at its p90.
    view = make_view(make_cluster(HERE), make_cluster(flex("beta", price="1")))
    assert asked(view, trains(), at(LEAVES_S - 1_998.0)) == []
    assert asked(view, trains(), at(LEAVES_S - 1_996.0)) == ["beta"]


def test_what_stands_free_is_asked_at_the_last_moment_for_it_bills_from_then_on() -> None:
    free = make_flavor("beta", capacity_type=CapacityType.ON_DEMAND, price="1", nodes_free=4)
    view = make_view(make_cluster(replace(HERE, nominal=0)), make_cluster(free))
    assert asked(view, trains(), at(LEAVES_S - 121.0)) == []
    assert asked(view, trains(), at(LEAVES_S - 119.0)) == ["beta"]


def test_a_better_place_that_is_sure_is_not_forestalled_by_one_that_is_asked_earlier() -> None:
    free = make_flavor("beta", capacity_type=CapacityType.ON_DEMAND, price="1", nodes_free=4)
    view = make_view(make_cluster(HERE), make_cluster(free))
    assert asked(view, trains(), at(LEAVES_S - 1_900.0)) == []
    dear = make_flavor("beta", capacity_type=CapacityType.ON_DEMAND, price="9", nodes_free=4)
    view = make_view(make_cluster(HERE), make_cluster(dear))
    assert asked(view, trains(), at(LEAVES_S - 1_900.0)) == ["alpha"]


def test_a_successor_may_come_anew_to_the_same_place() -> None:
    view = make_view(make_cluster(HERE))
    assert asked(view, trains(), at(LEAVES_S - 1_900.0)) == ["alpha"]


def test_half_of_its_machines_time_goes_by_before_a_successor_is_looked_for() -> None:
    slow = flex("beta", price="1", eta_s=40 * 86_400.0)
    view = make_view(make_cluster(replace(HERE, nominal=0)), make_cluster(slow))
    assert asked(view, trains(), at(0.5 * LEAVES_S - 1.0)) == []
    assert asked(view, trains(), at(0.5 * LEAVES_S + 1.0)) == ["beta"]


BETA = make_flavor("beta", capacity_type=CapacityType.ON_DEMAND, price="9", nodes_free=4)
LATE = at(LEAVES_S - 100.0)
LONG_AGO_S = LEAVES_S - 5_000.0
IN_LINE: dict[str, Any] = {"added_s": LONG_AGO_S, "entered_s": LONG_AGO_S}
BOOKED = Why(reason=Reason.WAITING_FOR_FLEX, message="", since_s=LONG_AGO_S)


@pytest.mark.parametrize(
    ("first", "found"),
    [
        (leg(flex("gamma"), **IN_LINE), ["beta"]),
        (leg(flex("gamma"), **IN_LINE, why=BOOKED, expected_s=LEAVES_S - 50.0), []),
        (leg(flex("gamma"), **IN_LINE, why=BOOKED, expected_s=LEAVES_S + 50.0), ["beta"]),
        (leg(flex("gamma"), **IN_LINE, state=PlacementState.PROVISIONING), []),
        (
            stuck(
                leg(flex("gamma"), **IN_LINE, state=PlacementState.PROVISIONING),
                Reason.STOCKOUT,
                LONG_AGO_S,
            ),
            ["beta"],
        ),
        (leg(flex("gamma"), added_s=LEAVES_S - 150.0, entered_s=LEAVES_S - 150.0), []),
    ],
    ids=["outlived", "expected", "late", "coming", "stuck", "young"],
)
def test_a_second_successor_is_asked_where_the_first_will_hardly_come_in_time(
    first: Placement, found: list[str]
) -> None:
    view = make_view(make_cluster(HERE), make_cluster(BETA), make_cluster(flex("gamma")))
    assert asked(view, trains(first), LATE) == found


def test_a_run_whose_machines_stay_wants_no_successor() -> None:
    view = make_view(make_cluster(replace(HERE, max_run_s=None)), make_cluster(BETA))
    view.apply_run(trains())
    assert wanted(view, trains(), at(10 * WEEK_S)) is None


def test_who_asks_reads_when_it_leaves_and_where_it_goes_on() -> None:
    view = make_view(make_cluster(HERE), make_cluster(BETA))
    run = trains()
    view.apply_run(run)
    (said,) = (choice for _, choice in plan(view, at(1_000.0), ids()).choices)
    assert isinstance(said, SayWait)
    assert (said.reason, said.next_at_s) == (Reason.TRAINING, LEAVES_S)
    assert "given back as planned; a successor is asked for in time" in said.message
    whole = leg(BETA, state=PlacementState.AT_GATE)
    with_one = with_legs(run, run.placements["here"], whole)
    told = explain(view, with_one, at(1_000.0)).wait
    assert "a successor waits in beta-region (on-demand, whole at its gate)" in told.message


def test_what_was_said_of_a_planned_end_is_said_again_only_when_it_moves() -> None:
    view = make_view(make_cluster(HERE), make_cluster(BETA))
    said = explain(view, trains(), at(1_000.0)).wait
    why = Why(
        reason=said.reason,
        message=said.message,
        since_s=0.0,
        next_action=said.next_action,
        next_at_s=said.next_at_s,
    )
    view.apply_run(replace(trains(), why=why))
    assert plan(view, at(1_000.0), ids()).choices == ()
    here = replace(trains().placements["here"], machines_end_s=50_000.0)
    view.apply_run(replace(with_legs(trains(), here), why=why))
    ((_, again),) = plan(view, at(1_000.0), ids()).choices
    assert isinstance(again, SayWait)
    assert again.next_at_s == 50_000.0 - 100.0
