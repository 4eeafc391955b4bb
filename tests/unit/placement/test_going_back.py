"""A place that gave a run no nodes is gone back to on newer evidence of as many, or at last."""

from dataclasses import replace

import pytest

from broker.model.capacity import Signal, SignalKind
from broker.model.intent import Terms
from broker.model.policy import Patience, RegionPolicy
from broker.model.reasons import FailureClass, Reason
from broker.model.run import PhaseSeconds, Placement, Run, Why
from broker.model.states import PlacementEnd, PlacementState
from broker.placement.explain import explain
from broker.placement.plan import plan
from broker.placement.standing import RegionStanding
from broker.placement.view import View
from tests.unit.placement.pictures import (
    ANY,
    at,
    ids,
    leg_at,
    legs_of,
    make_cluster,
    make_flavor,
    make_view,
    signal,
    waiting_run,
    with_legs,
)

ALPHA, BETA = make_flavor("alpha", price="2"), make_flavor("beta", price="40")
GIVEN_UP_S = 1_000.0


def given_up(cause: Reason = Reason.PARTIAL_ARRIVAL) -> Placement:
    """Return a leg at alpha that was left because nodes did not come."""
    return replace(
        leg_at(ALPHA, state=PlacementState.PROVISIONING, since_s=800.0),
        state=PlacementState.ENDED,
        end=PlacementEnd.WITHDRAWN,
        withdraw=Why(reason=cause, message="", since_s=GIVEN_UP_S),
        entered_s=GIVEN_UP_S,
    )


def dry(*others: Signal, flavors: tuple[object, ...] = (ALPHA, BETA)) -> View:
    view = make_view(*(make_cluster(one) for one in flavors))  # type: ignore[arg-type]
    view.apply_signal(replace(signal(ALPHA, SignalKind.PARTIAL, GIVEN_UP_S - 10.0), gpus=3))
    for one in others:
        view.apply_signal(one)
    return view


def failed_run(terms: Terms | None = None) -> Run:
    return with_legs(waiting_run(terms=terms), given_up())


def goes_to(view: View, run: Run, now_s: float) -> str | None:
    view.apply_run(run)
    legs = legs_of(plan(view, at(now_s), ids()))
    return legs[0][1] if legs else None


def came(gpus: int, at_s: float = GIVEN_UP_S + 200.0) -> Signal:
    return replace(signal(ALPHA, SignalKind.NODES_CAME, at_s, wait_s=20.0), gpus=gpus)


WAITS = [None, 7200.0]


@pytest.mark.parametrize("max_wait_s", WAITS, ids=("no bound", "two hours"))
@pytest.mark.parametrize(
    ("news", "goes"),
    [((), "beta"), ((came(1),), "beta"), ((came(8),), "alpha"), ((came(8, 990.0),), "beta")],
    ids=("no news", "one node came", "as many came", "as many had come before"),
)
def test_only_newer_evidence_of_as_many_brings_a_run_back(
    max_wait_s: float | None, news: tuple[Signal, ...], goes: str
) -> None:
    run = failed_run(Terms(capacity_types=ANY, max_wait_s=max_wait_s))
    assert goes_to(dry(*news), run, GIVEN_UP_S + 300.0) == goes


def test_as_many_free_nodes_are_evidence_and_fewer_are_none() -> None:
    for free, goes in ((1, "alpha"), (0, "beta")):
        view = dry(flavors=(replace(ALPHA, nodes_free=free), BETA))
        assert goes_to(view, failed_run(), GIVEN_UP_S + 100.0) == goes


@pytest.mark.parametrize("cause", [Reason.WEDGED, Reason.CHECK_NOT_RERUN])
def test_where_nobody_was_let_in_free_nodes_are_no_evidence_and_others_starts_are(
    cause: Reason,
) -> None:
    free = (replace(ALPHA, nodes_free=9), BETA)
    for news, goes in (((), "beta"), ((came(8),), "alpha")):
        run = with_legs(waiting_run(), given_up(cause))
        assert goes_to(dry(*news, flavors=free), run, GIVEN_UP_S + 300.0) == goes


def test_old_news_fades_by_the_half_life_of_the_policy() -> None:
    for half_life_s, goes in ((1800.0, "beta"), (200.0, "alpha")):
        view = dry()
        patience = Patience(stockout_half_life_s=half_life_s)
        view.apply_region(
            RegionStanding(region="alpha-region", policy=RegionPolicy(patience=patience))
        )
        assert goes_to(view, failed_run(), GIVEN_UP_S + 900.0) == goes


def test_the_only_place_is_tried_again_after_a_pause() -> None:
    view = dry(flavors=(ALPHA,))
    assert goes_to(view, failed_run(), GIVEN_UP_S + 50.0) is None
    assert goes_to(view, failed_run(), GIVEN_UP_S + 61.0) == "alpha"


def test_a_leg_that_was_beaten_while_stuck_is_remembered_as_failed() -> None:
    beaten = replace(
        given_up(),
        withdraw=Why(reason=Reason.OTHER_LEG_STARTED, message="", since_s=GIVEN_UP_S),
        stuck=Why(reason=Reason.STOCKOUT, message="", since_s=900.0),
    )
    run = with_legs(waiting_run(), beaten)
    assert goes_to(dry(), run, GIVEN_UP_S + 300.0) == "beta"


def test_another_cause_than_nodes_is_forgotten_after_the_pause() -> None:
    run = with_legs(waiting_run(), given_up(Reason.IMAGE_PULL_FAILING))
    view = make_view(make_cluster(ALPHA), make_cluster(BETA))
    assert goes_to(view, run, GIVEN_UP_S + 61.0) == "alpha"


@pytest.mark.parametrize(("ran_s", "goes"), [(0.0, "beta"), (5.0, "alpha")])
def test_a_place_that_put_a_gang_out_before_it_trained_is_left_alone_for_a_while(
    ran_s: float, goes: str
) -> None:
    put_out = replace(
        given_up(),
        end=PlacementEnd.PREEMPTED,
        why=Why(reason=Reason.EVICTED, message="", since_s=GIVEN_UP_S),
        withdraw=None,
        phases=PhaseSeconds(running=ran_s),
    )
    view = make_view(make_cluster(ALPHA), make_cluster(BETA))
    assert goes_to(view, with_legs(waiting_run(), put_out), GIVEN_UP_S + 5.0) == goes
    view = make_view(make_cluster(ALPHA), make_cluster(BETA))
    assert goes_to(view, with_legs(waiting_run(), put_out), GIVEN_UP_S + 61.0) == "alpha"


@pytest.mark.parametrize(
    ("after_s", "shown", "goes"),
    [
        pytest.param(5.0, {"nodes_free": 1}, "beta", id="who took it does not have it yet"),
        pytest.param(5.0, {"nodes_free": 9, "nominal": 800}, "alpha", id="there is more than that"),
        pytest.param(61.0, {"nodes_free": 1}, "alpha", id="nobody took it"),
    ],
)
def test_what_a_put_out_gang_left_is_not_free_for_it(
    after_s: float, shown: dict[str, int], goes: str
) -> None:
    put_out = replace(
        given_up(),
        end=PlacementEnd.PREEMPTED,
        why=Why(reason=Reason.EVICTED, message="", since_s=GIVEN_UP_S),
        withdraw=None,
        phases=PhaseSeconds(running=5.0),
    )
    small = make_flavor("alpha", price="2", **{"nominal": 8, **shown})  # type: ignore[arg-type]
    near = make_flavor("beta", price="2.4", nodes_free=9)
    view = make_view(make_cluster(small), make_cluster(near))
    assert goes_to(view, with_legs(waiting_run(), put_out), GIVEN_UP_S + after_s) == goes


def test_explain_says_how_long_ago_it_failed() -> None:
    view = dry()
    run = failed_run()
    view.apply_run(run)
    found = explain(view, run, at(GIVEN_UP_S + 300.0))
    assert {o.key.cluster: o.failed_s for o in found.offers} == {"alpha": 300.0, "beta": None}
    assert found.chosen is not None
    assert found.chosen.key.cluster == "beta"


def kept(leg: Placement | None = None, tries: int = 1) -> Run:
    """Return a run that was kept from its start at alpha by what only its user can mend."""
    ended = replace(
        leg or given_up(Reason.REFUSED_BY_CLUSTER),
        failure=FailureClass.USER,
        why=Why(reason=Reason.REFUSED_BY_CLUSTER, message="alpha: no secret", since_s=GIVEN_UP_S),
    )
    legs = [replace(ended, id=f"try{n:09}") for n in range(tries)]
    return replace(with_legs(waiting_run(), *legs), user_failures=tries)


def test_a_place_that_lacks_what_the_user_has_to_bring_is_gone_back_to_last() -> None:
    both = (make_cluster(replace(ALPHA, nodes_free=9)), make_cluster(BETA))
    assert goes_to(make_view(*both), kept(), GIVEN_UP_S + 300.0) == "beta"
    assert goes_to(make_view(both[0]), kept(), GIVEN_UP_S + 61.0) == "alpha"
    told = explain(make_view(*both), kept(), at(GIVEN_UP_S + 300.0))
    [last] = [one.message for one in told.compared if one.offer.region == ALPHA.region]
    assert last == "it was tried there in vain 5 min ago, for what only its user can mend"


def test_a_run_that_is_kept_from_its_start_pauses_for_longer_each_time() -> None:
    for tries, pause_s in ((1, 60.0), (4, 80.0), (5, 160.0), (30, 600.0)):
        run = kept(tries=tries)
        run = replace(run, intent=replace(run.intent, terms=Terms(capacity_types=ANY)))
        assert goes_to(make_view(make_cluster(ALPHA)), run, GIVEN_UP_S + pause_s - 1.0) is None
        assert goes_to(make_view(make_cluster(ALPHA)), run, GIVEN_UP_S + pause_s) == "alpha"


def test_what_it_pauses_for_is_told_as_its_cluster_said_it() -> None:
    wait = explain(make_view(make_cluster(ALPHA)), kept(), at(GIVEN_UP_S + 5.0)).wait
    assert (wait.reason, wait.message, wait.next_at_s) == (
        Reason.REFUSED_BY_CLUSTER,
        "alpha: no secret; it failed once, so it pauses",
        GIVEN_UP_S + 10.0,
    )


@pytest.mark.parametrize(("tries", "goes"), [(2, "alpha"), (3, None)])
def test_with_no_restart_left_a_place_that_failed_waits_for_what_becomes_of_another(
    tries: int, goes: str | None
) -> None:
    run, view = kept(tries=tries), make_view(make_cluster(ALPHA), make_cluster(BETA))
    leaving = replace(
        leg_at(BETA, state=PlacementState.PROVISIONING, since_s=GIVEN_UP_S),
        withdraw=Why(reason=Reason.REFUSED_BY_CLUSTER, message="", since_s=GIVEN_UP_S + 250.0),
    )
    beside = replace(run, placements={**run.placements, leaving.id: leaving})
    assert goes_to(view, beside, GIVEN_UP_S + 300.0) == goes
