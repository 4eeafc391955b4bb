"""Each reason to refuse a flavor, and that the first that holds is the one kept."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from broker.model.capacity import Refusal
from broker.model.checkpoint import Checkpoint, CheckpointRef, EpochId
from broker.model.intent import (
    CapacityType,
    HardwareOption,
    Input,
    SecretRef,
    Terms,
    TopologyWish,
)
from broker.model.policy import RegionPolicy, TeamCaps, TeamStanding
from broker.model.reasons import Reason
from broker.model.run import Run, Why
from broker.model.states import PlacementEnd, PlacementState
from broker.placement.feasible import Question, failed_for_s, refuse
from broker.placement.standing import RegionStanding
from broker.placement.view import View
from tests.builders import flat_egress
from tests.unit.placement.pictures import (
    ANY,
    at,
    gang,
    leg_at,
    make_cluster,
    make_flavor,
    make_view,
    waiting_run,
    with_legs,
)

NOW = at(1000.0)
FLAVOR = make_flavor("alpha", region="eu-west4")
World = tuple[View, Run]


def world() -> World:
    return make_view(make_cluster(FLAVOR)), waiting_run()


def ask(view: View, run: Run) -> Refusal | None:
    flavor = view.flavors[FLAVOR.key]
    return refuse(Question(view=view, run=run, flavor=flavor, option_index=0, now=NOW))


def with_terms(**changes: object) -> World:
    view, _ = world()
    terms = replace(Terms(capacity_types=ANY), **changes)  # type: ignore[arg-type]
    return view, waiting_run(terms=terms)


def with_flavor(**changes: object) -> World:
    flavor = replace(FLAVOR, **changes)  # type: ignore[arg-type]
    return make_view(make_cluster(flavor)), waiting_run()


def with_region(**changes: object) -> World:
    view, run = world()
    standing = replace(RegionStanding(region="eu-west4"), **changes)  # type: ignore[arg-type]
    view.apply_region(standing)
    return view, run


def with_cluster(**changes: object) -> World:
    view, run = world()
    view.apply_cluster(replace(make_cluster(FLAVOR), **changes))  # type: ignore[arg-type]
    return view, run


def with_hardware(option: HardwareOption) -> World:
    view, _ = world()
    return view, waiting_run(hardware=(option,))


def with_input(regions: tuple[str, ...], *, remote_reads: bool) -> World:
    view, run = world()
    one = Input(uri="gs://data", size_bytes=1, regions=regions, remote_reads=remote_reads)
    workload = replace(run.intent.workload, inputs=(one,))
    return view, replace(run, intent=replace(run.intent, workload=workload))


def with_secret(*, is_kept: bool) -> World:
    view, run = with_flavor(keeps_secrets=is_kept)
    workload = replace(run.intent.workload, secrets=(SecretRef(name="hub", env="HUB_TOKEN"),))
    return view, replace(run, intent=replace(run.intent, workload=workload))


def with_wish(topology: TopologyWish, not_close: str, *, nodes: int = 2) -> World:
    view, _ = with_flavor(not_close=not_close)
    return view, waiting_run(hardware=(replace(gang(nodes)[0], topology=topology),))


def with_team_spent() -> World:
    view, run = world()
    standing = TeamStanding(
        caps=TeamCaps(budget=Decimal(5)),
        running_gpus=0,
        gate_gpus=0,
        gate_gpu_minutes_today=0.0,
        spent=Decimal(5),
    )
    view.apply_team("nlp", standing)
    return view, run


def with_live_leg() -> World:
    view, run = world()
    return view, with_legs(run, leg_at(FLAVOR))


def with_given_up_leg() -> World:
    view, run = world()
    why = Why(reason=Reason.STOCKOUT, message="", since_s=980.0)
    leg = replace(
        leg_at(FLAVOR, state=PlacementState.ENDED, since_s=980.0),
        withdraw=why,
        end=PlacementEnd.WITHDRAWN,
    )
    return view, with_legs(run, leg)


def with_ended_booking(reason: Reason, end: PlacementEnd, since_s: float) -> World:
    """A leg that its cluster itself ended, before anybody asked for that."""
    view, run = world()
    left = leg_at(FLAVOR, state=PlacementState.ENDED, reason=reason, since_s=since_s)
    return view, with_legs(run, replace(left, end=end))


def with_far_checkpoint() -> World:
    far = Checkpoint(
        ref=CheckpointRef(epoch=EpochId(number=1, nonce="n" * 12), step=1, digest="d"),
        size_bytes=10**15,
        home="us-east1",
        written_wall_s=0.0,
        regions=frozenset({"us-east1"}),
        is_sealed=True,
    )
    view = View(lambda run: (far,), flat_egress)
    view.apply_cluster(make_cluster(FLAVOR))
    return view, waiting_run()


CASES: list[tuple[Callable[[], World], Reason | None]] = [
    (world, None),
    (lambda: with_terms(regions=("us-east1",)), Reason.REGION_NOT_ACCEPTED),
    (lambda: with_terms(regions=("eu-west4",)), None),
    (
        lambda: with_terms(capacity_types=(CapacityType.FLEX,)),
        Reason.CAPACITY_TYPE_NOT_ACCEPTED,
    ),
    (lambda: with_terms(residency=("us",)), Reason.RESIDENCY),
    (lambda: with_terms(residency=("eu-w",)), Reason.RESIDENCY),
    (lambda: with_terms(residency=("eu",)), None),
    (
        lambda: with_hardware(HardwareOption(accelerator="A100", accelerators_per_node=8, nodes=1)),
        Reason.ACCELERATOR_MISMATCH,
    ),
    (
        lambda: with_hardware(
            HardwareOption(accelerator="H100", accelerators_per_node=16, nodes=1)
        ),
        Reason.SHAPE_TOO_LARGE,
    ),
    (lambda: with_flavor(max_nodes=0), Reason.SHAPE_TOO_LARGE),
    (lambda: with_flavor(nominal=4), Reason.QUOTA_TOO_SMALL),
    (lambda: with_flavor(nominal=4, borrowable=4), None),
    (lambda: with_flavor(nominal=None), None),
    (lambda: with_flavor(cloud_gpus=7), Reason.QUOTA_TOO_SMALL),
    (lambda: with_flavor(cloud_gpus=8), None),
    # What others have borrowed comes back: a queue is as large as it can get.
    (lambda: with_flavor(nominal=4, borrowable=0, free=0, most=8), None),
    (lambda: with_flavor(nominal=4, borrowable=4, most=7), Reason.QUOTA_TOO_SMALL),
    (lambda: with_flavor(price_per_gpu_hour=None), Reason.PRICE_UNKNOWN),
    (
        # A reservation that is paid already says so, with a price of nothing.
        lambda: with_flavor(price_per_gpu_hour=None, capacity_type=CapacityType.RESERVED),
        Reason.PRICE_UNKNOWN,
    ),
    (
        lambda: with_flavor(price_per_gpu_hour=Decimal(0), capacity_type=CapacityType.RESERVED),
        None,
    ),
    (
        lambda: with_region(policy=RegionPolicy(price_caps=((CapacityType.SPOT, Decimal(1)),))),
        Reason.PRICE_ABOVE_CAP,
    ),
    (
        lambda: with_region(policy=RegionPolicy(price_caps=((CapacityType.SPOT, Decimal(2)),))),
        None,
    ),
    (lambda: with_region(policy=RegionPolicy(is_allowed=False)), Reason.POLICY_DISALLOWS),
    (
        lambda: with_region(policy=RegionPolicy(capacity_types=(CapacityType.FLEX,))),
        Reason.POLICY_DISALLOWS,
    ),
    (lambda: with_input(("us-east1",), remote_reads=False), Reason.INPUT_NOT_READABLE),
    (lambda: with_input(("us-east1",), remote_reads=True), None),
    (lambda: with_input(("eu-west4",), remote_reads=False), None),
    (lambda: with_secret(is_kept=False), Reason.SECRETS_NOT_KEPT),
    (lambda: with_secret(is_kept=True), None),
    (lambda: with_flavor(keeps_secrets=False), None),
    (lambda: with_wish(TopologyWish.REQUIRED, "no such level"), Reason.TOPOLOGY_NOT_OFFERED),
    (lambda: with_wish(TopologyWish.REQUIRED, ""), None),
    (lambda: with_wish(TopologyWish.PREFERRED, "no such level"), None),
    (lambda: with_wish(TopologyWish.REQUIRED, "no such level", nodes=1), None),
    (lambda: with_region(is_cordoned=True), Reason.REGION_CORDONED),
    (lambda: with_region(is_draining=True, is_cordoned=True), Reason.REGION_DRAINING),
    (lambda: with_region(is_surveyed=False), Reason.NOT_SEEN_SINCE_RESTORE),
    (lambda: with_cluster(is_reachable=False), Reason.CLUSTER_UNREACHABLE),
    (lambda: with_cluster(is_store_reachable=False), Reason.STORE_UNREACHABLE),
    (lambda: with_cluster(stopped_queues=frozenset({"train"})), Reason.QUEUE_STOPPED),
    (
        lambda: with_terms(budget=Decimal(15), expected_duration_s=3600.0),
        Reason.BUDGET_TOO_SMALL,
    ),
    (lambda: with_terms(budget=Decimal(16), expected_duration_s=3600.0), None),
    (lambda: with_terms(budget=Decimal(0)), Reason.BUDGET_TOO_SMALL),
    (
        lambda: with_terms(deadline_wall_s=NOW.wall_s + 3599.0, expected_duration_s=3600.0),
        Reason.DEADLINE_TOO_NEAR,
    ),
    (lambda: with_terms(deadline_wall_s=NOW.wall_s + 3599.0), None),
    (with_team_spent, Reason.TEAM_BUDGET_SPENT),
    (with_live_leg, Reason.ALREADY_WAITING_HERE),
    (with_given_up_leg, Reason.RECENTLY_FAILED_HERE),
    (with_far_checkpoint, Reason.CONTENT_TOO_LATE),
]


@pytest.mark.parametrize(("made", "reason"), CASES)
def test_a_flavor_is_refused_for_its_reason(
    made: Callable[[], World], reason: Reason | None
) -> None:
    refusal = ask(*made())
    assert (refusal.reason if refusal else None) is reason
    if refusal is not None:
        assert refusal.message
        assert (refusal.key, refusal.region) == (FLAVOR.key, "eu-west4")


def test_a_place_that_was_given_up_says_why() -> None:
    view, run = world()
    refused = replace(
        leg_at(FLAVOR, state=PlacementState.ENDED, since_s=980.0),
        why=Why(reason=Reason.REFUSED_BY_CLUSTER, message="no such service account", since_s=980.0),
        end=PlacementEnd.FAILED,
    )
    refusal = ask(view, with_legs(run, refused))
    assert refusal is not None
    assert refusal.message == (
        "its last try there was given up 20 s ago (no such service account);"
        " it may try again in 40 s"
    )


def test_a_place_that_was_given_up_is_tried_again_after_a_pause() -> None:
    view, run = with_given_up_leg()
    later = Question(
        view=view, run=run, flavor=view.flavors[FLAVOR.key], option_index=0, now=at(1041.0)
    )
    assert refuse(later) is None


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"is_cordoned": True}, "eu-west4 is cordoned: network works"),
        ({"is_cordoned": True, "is_draining": True}, "eu-west4 is being drained: network works"),
    ],
)
def test_who_waits_for_a_closed_region_is_told_what_ops_said(
    rules: dict[str, bool], said: str
) -> None:
    refusal = ask(*with_region(message="network works", **rules))
    assert refusal is not None
    assert refusal.message == said
    refusal = ask(*with_region(message="", **rules))
    assert refusal is not None
    assert refusal.message == said.removesuffix(": network works")
    refusal = ask(*with_region(message="x" * 1_000, **rules))
    assert refusal is not None
    assert len(refusal.message) < 300


def test_what_never_changes_is_said_before_what_passes() -> None:
    view, run = with_terms(regions=("us-east1",))
    view.apply_region(RegionStanding(region="eu-west4", is_cordoned=True))
    refusal = ask(view, run)
    assert refusal is not None
    assert refusal.reason is Reason.REGION_NOT_ACCEPTED


def test_the_gang_of_many_nodes_is_measured_whole() -> None:
    view, _ = world()
    refusal = ask(view, waiting_run(hardware=gang(9)))
    assert refusal is not None
    assert refusal.message == "the queue's whole quota is 64 H100, the gang takes 72"


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        (Reason.FLEX_FAILED, PlacementEnd.FAILED),
        (Reason.BOOKING_EXPIRED, PlacementEnd.FAILED),
        (Reason.CAPACITY_REVOKED, PlacementEnd.PREEMPTED),
    ],
)
def test_a_place_whose_booking_ended_is_left_alone_and_then_is_a_last_resort(
    reason: Reason, end: PlacementEnd
) -> None:
    refusal = ask(*with_ended_booking(reason, end, since_s=980.0))
    assert refusal is not None
    assert refusal.reason is Reason.RECENTLY_FAILED_HERE
    view, run = with_ended_booking(reason, end, since_s=900.0)
    assert ask(view, run) is None
    question = Question(view=view, run=run, flavor=FLAVOR, option_index=0, now=NOW)
    assert failed_for_s(question) == 100.0


def test_a_successor_may_come_to_where_its_run_trains_now() -> None:
    view, run = world()
    trains = leg_at(FLAVOR, state=PlacementState.RUNNING, since_s=900.0)
    assert ask(view, with_legs(run, trains)) is None
