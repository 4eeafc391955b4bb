"""Why an offer is first, and why another is not: the part of the score that decided."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.model.capacity import Comparison, FlavorFacts
from broker.model.intent import AfterMaxWait, CapacityType, HardwareOption, Terms
from broker.model.policy import RegionPolicy, TeamCaps, TeamStanding
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.placement.compare import Compared
from broker.placement.explain import explain
from broker.placement.plan import plan
from broker.placement.standing import RegionStanding
from broker.placement.view import View
from tests.unit.placement.pictures import (
    ANY,
    H100X8,
    at,
    gang,
    ids,
    leg_at,
    legs_of,
    make_cluster,
    make_flavor,
    make_view,
    waiting_run,
    with_legs,
)

NOW = at(1000.0)
ALPHA = make_flavor("alpha", price="2", nodes_free=8)


def told(view: View, run: Run) -> dict[str, Compared]:
    return {one.offer.key.cluster: one for one in explain(view, run, NOW).compared}


def causes(run: Run, *flavors: FlavorFacts) -> list[tuple[str, Comparison]]:
    view = make_view(*(make_cluster(one) for one in flavors))
    found = explain(view, run, NOW).compared
    return [(one.offer.key.cluster, one.comparison) for one in found]


CAUSES = [
    (Comparison.DEARER, make_flavor("beta", price="3", nodes_free=8)),
    (Comparison.LATER, make_flavor("beta", price="2", reserved=64, ahead_gpus=640)),
    (Comparison.LOT, make_flavor("beta", price="2", nodes_free=8)),
]


@pytest.mark.parametrize(("cause", "beta"), CAUSES, ids=[case[0].value for case in CAUSES])
def test_the_part_that_puts_it_furthest_behind_is_the_cause(
    cause: Comparison, beta: FlavorFacts
) -> None:
    found = causes(waiting_run(), ALPHA, beta)
    assert [one[1] for one in found] == [Comparison.BEST, cause]


def test_a_weight_and_a_preference_are_causes_too() -> None:
    both = (HardwareOption(accelerator="A100", accelerators_per_node=8, nodes=1), H100X8)
    a100 = make_flavor("beta", price="2", nodes_free=8, accelerator="A100")
    assert causes(waiting_run(hardware=both), ALPHA, a100) == [
        ("beta", Comparison.BEST),
        ("alpha", Comparison.LESS_PREFERRED),
    ]
    view = make_view(make_cluster(ALPHA), make_cluster(replace_name(ALPHA, "beta")))
    view.apply_region(RegionStanding(region="beta-region", policy=RegionPolicy(weight=0.5)))
    found = told(view, waiting_run())["beta"]
    assert found.comparison is Comparison.LESS_WEIGHT
    assert found.message == "ops give beta-region a weight of 0.5"


def replace_name(flavor: FlavorFacts, cluster: str) -> FlavorFacts:
    return replace(flavor, key=replace(flavor.key, cluster=cluster), region=f"{cluster}-region")


def test_what_may_not_be_taken_now_says_what_holds_it_back() -> None:
    large = with_legs(waiting_run("large", hardware=gang(8)), leg_at(ALPHA, nodes=8))
    full = replace(ALPHA, reserved=8)
    view = make_view(
        make_cluster(full), make_cluster(make_flavor("beta", price="40")), runs=[large]
    )
    found = told(view, waiting_run("small", created_s=5.0))
    assert found["alpha"].comparison is Comparison.HELD_BACK
    assert found["alpha"].reason is Reason.WOULD_DELAY_LARGER
    assert found["beta"].comparison in (Comparison.BEST, Comparison.DEARER)


def test_a_cap_that_keeps_every_place_from_starting_is_said_of_each() -> None:
    dear = make_flavor("beta", price="9", nodes_free=8)
    view = make_view(make_cluster(ALPHA), make_cluster(dear))
    view.apply_team("nlp", capped(running_gpus=0))
    found = told(view, waiting_run())
    assert {name: one.reason for name, one in found.items()} == {
        "alpha": Reason.TEAM_GPUS_SPENT,
        "beta": Reason.TEAM_GPUS_SPENT,
    }
    said = "not now: team nlp holds 0 of its 0 GPUs, the gang takes 8"
    assert [one.message for one in found.values()] == [said, said]


def test_a_place_that_is_free_is_said_to_be_worth_less_than_a_wait() -> None:
    large = with_legs(waiting_run("large", hardware=gang(8)), leg_at(ALPHA, nodes=8))
    full = replace(ALPHA, reserved=8)
    dear = make_flavor("beta", price="4000", nodes_free=8)
    view = make_view(make_cluster(full), make_cluster(dear), runs=[large])
    found = told(view, waiting_run("small", created_s=5.0))
    assert found["beta"].comparison is Comparison.DEARER
    assert found["beta"].message.endswith("waiting for a place in alpha-region is the better buy")


def capped(running_gpus: int) -> TeamStanding:
    return TeamStanding(
        caps=TeamCaps(running_gpus=running_gpus),
        running_gpus=0,
        gate_gpus=0,
        gate_gpu_minutes_today=0.0,
        spent=Decimal(0),
    )


def test_past_max_wait_only_the_last_rung_counts_and_the_others_say_so() -> None:
    dear = make_flavor("beta", price="9", capacity_type=CapacityType.ON_DEMAND, nodes_free=8)
    terms = Terms(capacity_types=ANY, max_wait_s=600.0, after_max_wait=AfterMaxWait.LAST_RUNG)
    view = make_view(make_cluster(ALPHA), make_cluster(dear))
    terms = replace(terms, capacity_types=(CapacityType.SPOT, CapacityType.ON_DEMAND))
    found = told(view, waiting_run(terms=terms))
    assert found["beta"].comparison is Comparison.BEST
    assert found["alpha"].reason is Reason.MAX_WAIT_PASSED
    assert list(found) == ["beta", "alpha"]


FLAVORS = st.builds(
    lambda cluster, price, free, capacity: make_flavor(
        cluster, price=price, nodes_free=free, capacity_type=capacity
    ),
    st.sampled_from(("alpha", "beta", "gamma", "delta")),
    st.sampled_from(("2", "2.01", "3")),
    st.integers(0, 2),
    st.sampled_from((CapacityType.SPOT, CapacityType.ON_DEMAND)),
)


@given(st.lists(FLAVORS, min_size=1, max_size=4, unique_by=lambda one: one.key), st.integers(0, 99))
def test_explain_stands_in_one_order_and_names_what_the_plan_takes(
    flavors: list[FlavorFacts], number: int
) -> None:
    """Law: the same picture gives the same order, and the first that is not held back is taken."""
    run = waiting_run(f"r{number}")
    view = make_view(*(make_cluster(one) for one in flavors), runs=[run])
    turned = make_view(*(make_cluster(one) for one in reversed(flavors)), runs=[run])
    found = explain(view, run, NOW)
    assert found.compared == explain(turned, run, NOW).compared == explain(view, run, NOW).compared
    taken = [one.offer for one in found.compared if one.comparison is Comparison.BEST]
    assert taken == [found.chosen]
    assert [one.key.cluster for one in taken] == [leg for _, leg in legs_of(plan(view, NOW, ids()))]
    assert all(one.message for one in found.compared)
