"""What is known of capacity beside figures, and a cluster's words, over the wire."""

from __future__ import annotations

from broker.model.capacity import FlavorKey
from broker.model.capacity_seen import (
    CapacitySeen,
    ClusterWord,
    FlavorSaid,
    HeardSignal,
    KnownThing,
    PodProfile,
)
from broker.model.reasons import FailureClass
from broker.v1 import placement_pb2, region_pb2, region_service_pb2, run_service_pb2
from tests.service.rig import DIGITS, Rig
from tests.service.told import training

KEY = FlavorKey(cluster="alpha", queue="train", flavor="spot")


async def test_a_region_tells_what_is_known_how_old_it_is_and_from_where(rig: Rig) -> None:
    signal = HeardSignal(
        key=KEY,
        kind="MOON",
        count=3,
        elapsed_s=0.0,
        source="GKE",
        detail="none left",
        gpus=8,
        wait_s=90.0,
        is_unknown=True,
    )
    known = KnownThing(key=KEY, what="GPU quota", words="8 free", source="Google", elapsed_s=-60.0)
    profile = PodProfile(
        name="default",
        widens=("Runs as root.",),
        is_restricted=False,
        parts=(("environment", "NCCL_DEBUG"),),
    )
    facts = rig.loops.facts["alpha"].flavors[0]
    rig.loops.capacities["alpha"] = CapacitySeen(
        flavors={facts.key: FlavorSaid(profile=profile, parked=4)},
        signals=(signal,),
        known=(known,),
        notes=("a zone is silent",),
    )
    region = await rig.regions.GetRegion(region_service_pb2.GetRegionRequest(name="regions/alpha"))
    (cluster,) = region.clusters
    (told,), (fact,), (flavor,) = cluster.signals, cluster.known, cluster.flavors
    assert told.wait.seconds == 90
    assert told.time.seconds - fact.time.seconds == 60
    for message in (told, fact):
        message.ClearField("time")
    told.ClearField("wait")
    assert told == region_pb2.CapacitySignal(
        queue="train",
        flavor="spot",
        kind="MOON",
        unknown=True,
        count=3,
        source="GKE",
        message="none left",
        gpus=8,
    )
    assert fact == region_pb2.CapacityFact(
        queue="train", flavor="spot", subject="GPU quota", message="8 free", source="Google"
    )
    assert flavor.profile == region_pb2.PodProfile(
        name="default",
        widens=["Runs as root."],
        parts=[region_pb2.ProfilePart(kind="environment", message="NCCL_DEBUG")],
    )
    assert flavor.free == facts.headroom
    assert flavor.parked == 4
    assert list(cluster.notes) == ["a zone is silent"]


async def test_a_placement_says_its_clusters_word_and_what_is_done_about_it(rig: Rig) -> None:
    await training(rig)
    (leg,) = rig.run().live_placements
    request = run_service_pb2.GetRunRequest(name=DIGITS)
    assert not (await rig.runs.GetRun(request)).placements[0].HasField("cluster_word")
    rig.loops.words[leg.id] = ClusterWord(
        word="SECRET_MISSING",
        failure=FailureClass.USER,
        deed="It leaves",
        advice="Have it created.",
        look_at="pod/x",
        raw="not found",
        is_unknown=False,
    )
    (placement,) = (await rig.runs.GetRun(request)).placements
    assert placement.cluster_word == placement_pb2.ClusterWord(
        word="SECRET_MISSING",
        failure_class=placement_pb2.FAILURE_CLASS_USER,
        action="It leaves",
        advice="Have it created.",
        object="pod/x",
        message="not found",
    )
