"""An intent that fits nowhere is told the nearest thing that would, and that would indeed."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.model.capacity import FlavorFacts
from broker.model.intent import CapacityType, HardwareOption, Terms
from broker.model.policy import RegionPolicy
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.placement.explain import explain
from broker.placement.fit import misfit
from broker.placement.nearest import NeverFits, nearest, never_fits
from broker.placement.plan import plan
from broker.placement.standing import RegionStanding
from broker.placement.view import View
from tests.unit.placement.pictures import (
    ANY,
    apply_plan,
    at,
    gang,
    ids,
    make_cluster,
    make_flavor,
    make_view,
    waiting_run,
)

SPOT, ON_DEMAND = CapacityType.SPOT, CapacityType.ON_DEMAND


def small_nodes(cluster: str = "alpha", per_node: int = 1, **changes: object) -> FlavorFacts:
    """Return a flavor whose nodes have few accelerators, as embedded regions have."""
    return replace(make_flavor(cluster), accelerators_per_node=per_node, **changes)  # type: ignore[arg-type]


def judged(run: Run, *flavors: FlavorFacts) -> NeverFits | None:
    return never_fits(make_view(*(make_cluster(one) for one in flavors)), run.intent, run.terms)


def suggested(run: Run, *flavors: FlavorFacts) -> str:
    """Return the shape and the place that are suggested, with what the terms must add."""
    found = judged(run, *flavors)
    if found is None or found.nearest is None:
        return "nothing"
    one = found.nearest
    added = "+region" * one.add_region + "+type" * one.add_capacity_type
    option = one.option
    shape = f"{option.nodes}x{option.accelerators_per_node}x{option.accelerator}"
    return f"{shape} in {one.flavor.key.cluster}{added}"


def test_eight_on_one_node_are_eight_nodes_of_one_where_nodes_have_one() -> None:
    found = judged(
        waiting_run(), small_nodes("alpha"), small_nodes("beta", price_per_gpu_hour=Decimal(9))
    )
    assert found is not None
    assert found.message == (
        "no place can ever take it; none has nodes with 8 x H100; alpha-region (spot) has nodes "
        "with 1 x H100, and would take 8x1xH100 (nodes: 8, accelerators_per_node: 1)"
    )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            "h-100",
            (
                "no cluster with h-100 has been seen; it is spelled H100; beta-region (spot) has"
                " nodes with 8 x H100, and would take 8xH100 (nodes: 1, accelerators_per_node: 8)"
            ),
        ),
        (
            "B200",
            (
                "no cluster with B200 has been seen, only A100, H100; alpha-region (spot) has"
                " nodes with 8 x A100, and would take 8xA100 (nodes: 1, accelerators_per_node: 8)"
            ),
        ),
    ],
)
def test_a_kind_that_is_not_there_is_told_how_it_is_spelled_or_what_is(
    asked: str, said: str
) -> None:
    wanted = HardwareOption(accelerator=asked, accelerators_per_node=8, nodes=1)
    dear = replace(make_flavor("beta"), price_per_gpu_hour=Decimal(90))
    found = judged(waiting_run(hardware=(wanted,)), make_flavor("alpha", accelerator="A100"), dear)
    assert found is not None
    assert found.message == f"no place can ever take it; {said}"


ONLY_ALPHA = Terms(capacity_types=(SPOT,), regions=("alpha-region",))
NEAREST = [
    ("another shape of as many", ONLY_ALPHA, 1, [small_nodes(per_node=4)], "2x4xH100 in alpha"),
    (
        "the widest nodes that divide it",
        ONLY_ALPHA,
        1,
        [small_nodes(per_node=3)],
        "4x2xH100 in alpha",
    ),
    (
        "the same elsewhere before fewer here",
        ONLY_ALPHA,
        4,
        [make_flavor("alpha", nominal=16), make_flavor("beta")],
        "4x8xH100 in beta+region",
    ),
    ("fewer where there is no more", ONLY_ALPHA, 4, [make_flavor(nominal=16)], "2x8xH100 in alpha"),
    (
        "no more nodes than it grows to",
        ONLY_ALPHA,
        4,
        [make_flavor(max_nodes=3)],
        "3x8xH100 in alpha",
    ),
    (
        "another way to buy it",
        ONLY_ALPHA,
        1,
        [make_flavor(capacity_type=ON_DEMAND)],
        "1x8xH100 in alpha+type",
    ),
    ("another kind at last", ONLY_ALPHA, 1, [make_flavor(accelerator="A100")], "1x8xA100 in alpha"),
    (
        "never out of its residency",
        Terms(capacity_types=ANY, residency=("eu",)),
        1,
        [make_flavor(region="us-east4")],
        "nothing",
    ),
    ("nothing of nothing", ONLY_ALPHA, 1, [make_flavor(nominal=0)], "nothing"),
]


@pytest.mark.parametrize(
    ("terms", "nodes", "flavors", "wanted"), [c[1:] for c in NEAREST], ids=[c[0] for c in NEAREST]
)
def test_the_nearest_is(terms: Terms, nodes: int, flavors: list[FlavorFacts], wanted: str) -> None:
    assert suggested(waiting_run(hardware=gang(nodes), terms=terms), *flavors) == wanted


def test_what_could_fit_and_what_is_not_known_is_not_refused() -> None:
    assert judged(waiting_run(), small_nodes("alpha"), make_flavor("beta")) is None
    view = make_view(
        make_cluster(small_nodes()), make_cluster(make_flavor("beta"), is_reachable=False)
    )
    run = waiting_run(terms=ONLY_ALPHA)
    assert never_fits(view, run.intent, run.terms) is None
    assert never_fits(make_view(), run.intent, run.terms) is None


def test_a_queue_that_was_taken_away_does_not_mean_that_nothing_fits() -> None:
    whole = make_cluster(make_flavor("beta"))
    view = make_view(make_cluster(small_nodes()), whole)
    view.apply_cluster(replace(whole, flavors=()))
    run = waiting_run()
    view.apply_run(run)
    assert never_fits(view, run.intent, run.terms) is None
    found = explain(view, run, at(10.0))
    assert not found.never_fits
    assert found.wait.message.endswith("; no queue of beta may be used now")


def test_ops_word_is_not_suggested_away() -> None:
    view = make_view(make_cluster(make_flavor()))
    view.apply_region(RegionStanding(region="alpha-region", policy=RegionPolicy(is_allowed=False)))
    run = waiting_run()
    found = never_fits(view, run.intent, run.terms)
    assert found is not None
    assert found.nearest is None


def test_a_group_that_never_fits_is_told_so_at_once() -> None:
    view = make_view(make_cluster(small_nodes()))
    for name in "abc":
        view.apply_run(waiting_run(name))
    for tick in range(3):
        apply_plan(view, plan(view, at(10.0 + tick), ids()), at(10.0 + tick))
    told = {run.why.reason for run in view.runs.values()}
    assert told == {Reason.NEVER_FITS}
    assert len({run.why.message for run in view.runs.values()}) == 1
    late = waiting_run("late", created_s=20.0)
    view.apply_run(late)
    apply_plan(view, plan(view, at(20.0), ids()), at(20.0))
    assert view.runs[late.name].why.reason is Reason.NEVER_FITS


def test_a_group_that_fitted_is_told_as_a_whole_when_its_place_shrinks() -> None:
    view = make_view(make_cluster(make_flavor(reserved=64, nominal=64)))
    for name in "abcdef":
        view.apply_run(waiting_run(name))
    apply_plan(view, plan(view, at(10.0), ids()), at(10.0))
    waiting = [r for r in view.runs.values() if not r.placements]
    assert {run.why.reason for run in waiting} == {Reason.WAITING_FOR_TURN}
    view.apply_cluster(make_cluster(make_flavor(reserved=0, nominal=4)))
    for tick in range(2):
        apply_plan(view, plan(view, at(20.0 + tick), ids()), at(20.0 + tick))
    told = {run.why.reason for run in view.runs.values() if not run.placements}
    assert told == {Reason.NEVER_FITS}


def test_explain_says_the_same() -> None:
    view = make_view(make_cluster(small_nodes()))
    found = explain(view, waiting_run(), at(10.0))
    assert found.never_fits
    assert "would take 8x1xH100" in found.wait.message


FLAVORS = st.builds(
    lambda cluster, kind, per_node, nominal, most, capacity: replace(
        make_flavor(cluster, accelerator=kind, nominal=nominal, capacity_type=capacity),
        accelerators_per_node=per_node,
        max_nodes=most,
    ),
    st.sampled_from(("alpha", "beta", "gamma")),
    st.sampled_from(("H100", "A100")),
    st.sampled_from((1, 2, 4, 8)),
    st.none() | st.integers(0, 64),
    st.none() | st.integers(0, 8),
    st.sampled_from(ANY),
)
OPTIONS = st.builds(
    HardwareOption,
    accelerator=st.sampled_from(("H100", "A100")),
    accelerators_per_node=st.integers(1, 16),
    nodes=st.integers(1, 16),
)
TERMS = st.builds(
    Terms,
    capacity_types=st.sampled_from((ANY, (SPOT,), (ON_DEMAND,))),
    regions=st.sampled_from(((), ("alpha-region",), ("beta-region", "gamma-region"))),
)


@given(
    st.lists(FLAVORS, min_size=1, max_size=4, unique_by=lambda one: one.key.cluster),
    st.lists(OPTIONS, min_size=1, max_size=2, unique=True),
    TERMS,
)
def test_what_is_suggested_would_be_taken(
    flavors: list[FlavorFacts], options: list[HardwareOption], terms: Terms
) -> None:
    """Law: a suggestion, once followed, is not refused at its place; and it is a total order."""
    run = waiting_run(hardware=tuple(options), terms=terms)
    view = make_view(*(make_cluster(one) for one in flavors))
    turned = make_view(*(make_cluster(one) for one in reversed(flavors)))
    found = nearest(view, run.intent.workload, terms)
    assert found == nearest(turned, run.intent.workload, terms)
    is_never = never_fits(view, run.intent, terms) is not None
    assert explain(view, run, at(1.0)).never_fits == is_never
    if found is None:
        assert is_never
        return
    widened = replace(
        terms,
        regions=(*terms.regions, found.flavor.region) if found.add_region else terms.regions,
        capacity_types=tuple({*terms.capacity_types, found.flavor.capacity_type}),
    )
    assert _fits(view, run, found.option, found.flavor, widened)
    if not is_never:
        assert (found.option, found.add_region, found.add_capacity_type) in [
            (option, False, False) for option in options
        ]


def _fits(view: View, run: Run, option: HardwareOption, flavor: FlavorFacts, terms: Terms) -> bool:
    policy = view.region(flavor.region).policy
    return misfit(run.intent.workload, terms, option, flavor, policy) is None
