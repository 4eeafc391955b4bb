"""What is known of capacity beside figures, and a cluster's words, over the wire."""

from __future__ import annotations

from broker.history.commands import CloseEpoch
from broker.model.capacity import FlavorKey
from broker.model.capacity_seen import (
    CapacitySeen,
    ClusterWord,
    FlavorSaid,
    HeardSignal,
    KnownThing,
    PodProfile,
)
from broker.model.reasons import FailureClass, Reason
from broker.model.run import CloseRule, RankEnd
from broker.service.showing import leave_out_older_lines
from broker.v1 import placement_pb2, region_pb2, region_service_pb2, run_pb2, run_service_pb2
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


async def test_the_word_for_an_end_is_shown_when_its_cluster_says_nothing_more(rig: Rig) -> None:
    await training(rig)
    epoch = rig.run().open_epoch
    assert epoch is not None
    word = ClusterWord(
        word="DISK_FULL",
        failure=FailureClass.USER,
        deed="It ends the run",
        advice="Keep fewer.",
        look_at="pod/x",
        raw="1",
        is_unknown=False,
        last_lines="no space left",
    )
    await rig.tell(
        CloseEpoch(
            epoch=epoch.id,
            rule=CloseRule.SEEN_ENDED,
            ends=tuple(RankEnd(rank=rank, exit_code=1) for rank in range(len(epoch.nonces))),
            found=(),
            cause=Reason.COMMAND_FAILED,
            message="Rank 0 ended with exit code 1",
            word=word,
        )
    )
    (placement,) = (await rig.runs.GetRun(run_service_pb2.GetRunRequest(name=DIGITS))).placements
    told = placement.cluster_word
    assert (told.word, told.advice, told.last_lines) == (
        "DISK_FULL",
        "Keep fewer.",
        "no space left",
    )


def test_of_many_ends_the_last_lines_are_those_of_the_last() -> None:
    run = run_pb2.Run()
    for at_s in (3, 9, 6):
        placement = run.placements.add()
        placement.state_time.seconds = at_s
        placement.cluster_word.last_lines = f"at {at_s}"
    leave_out_older_lines(run)
    assert [one.cluster_word.last_lines for one in run.placements] == ["", "at 9", ""]
