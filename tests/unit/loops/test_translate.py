"""What a cluster reports, in the broker's words."""

from dataclasses import replace

from broker.loops.translate import facts_of
from regions.capacity import FlavorSeen, QueueSeen
from regions.cluster import ClusterObservation
from tests.unit.loops.seeing import CLUSTER

FLEX = FlavorSeen(
    flavor="flex",
    accelerator="H100",
    accelerators_per_node=8,
    capacity_type="FLEX",
    zones=(),
    price_per_gpu_hour=None,
    nominal=16,
    reserved=0,
    used=0,
    parked=0,
    borrowable=0,
    nodes_free=0,
    nodes_coming=0,
    max_nodes=2,
    startup_s=60.0,
    preemption_notice_s=0.0,
    eta_s=900.0,
    max_run_s=86_400.0,
)


def observe(flavor: FlavorSeen) -> ClusterObservation:
    queue = QueueSeen(queue="q", is_stopped=False, pending=0, pending_gpus=0, flavors=(flavor,))
    return ClusterObservation(
        cluster=CLUSTER,
        region=CLUSTER,
        seen_at_s=5.0,
        is_whole=True,
        is_store_readable=True,
        blind=(),
        queues=(queue,),
        placements={},
        epochs={},
        signals=(),
        changed=None,
        keeps_secrets=False,
    )


def test_when_booked_capacity_comes_and_how_long_it_stays_is_passed_on() -> None:
    (facts,) = facts_of(observe(FLEX), 1000.0).flavors
    assert (facts.eta_s, facts.max_run_s) == (900.0, 86_400.0)
    unknown = replace(FLEX, eta_s=None, max_run_s=None)
    (facts,) = facts_of(observe(unknown), 1000.0).flavors
    assert (facts.eta_s, facts.max_run_s) == (None, None)


def test_what_a_cluster_says_is_free_goes_before_what_follows_from_its_other_figures() -> None:
    (facts,) = facts_of(observe(FLEX), 1000.0).flavors
    assert (facts.headroom, facts.most) == (16, None)
    told = replace(FLEX, free=5, most=24)
    (facts,) = facts_of(observe(told), 1000.0).flavors
    assert (facts.headroom, facts.most) == (5, 24)


def test_whether_a_cluster_keeps_secrets_is_known_of_each_of_its_flavors() -> None:
    for keeps in (False, True):
        (facts,) = facts_of(replace(observe(FLEX), keeps_secrets=keeps), 1000.0).flavors
        assert facts.keeps_secrets is keeps
