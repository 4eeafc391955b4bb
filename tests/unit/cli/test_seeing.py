"""What people read of a cluster's words, and of what is known of its capacity."""

from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from broker.cli.regions import beside
from broker.cli.status import rendered
from broker.v1 import intent_pb2, offer_pb2, placement_pb2, region_pb2, run_pb2, why_pb2

NOW_S = 1_700_000_100.0
SPOT = intent_pb2.CAPACITY_TYPE_SPOT


def make_run(word: placement_pb2.ClusterWord, said: str) -> run_pb2.Run:
    placement = placement_pb2.Placement(
        name="teams/vision/runs/digits/placements/p1",
        place=offer_pb2.Place(region="alpha", cluster="a", queue="q", capacity_type=SPOT),
        state=placement_pb2.PLACEMENT_STATE_PROVISIONING,
        why=why_pb2.Why(message=said),
        cluster_word=word,
        gpus=8,
    )
    return run_pb2.Run(
        name="teams/vision/runs/digits", state=run_pb2.RUN_STATE_QUEUED, placements=[placement]
    )


def where(run: run_pb2.Run) -> str:
    (line,) = [one for one in rendered(run, NOW_S).splitlines() if one.startswith("  where")]
    return line


def test_a_word_tells_whose_fault_it_is_what_is_done_and_where_to_look() -> None:
    word = placement_pb2.ClusterWord(
        word="SECRET_MISSING",
        failure_class=placement_pb2.FAILURE_CLASS_USER,
        action="It takes the gang out of this cluster",
        advice="Have it created.",
        object="pod/x",
    )
    told = where(make_run(word, "A secret is not there: hub."))
    assert told.endswith(
        "A secret is not there: hub.; SECRET_MISSING (user): it takes the gang out of this"
        " cluster; what helps: Have it created; seen at pod/x"
    )
    assert "what helps" not in where(make_run(word, "A secret is not there. Have it created."))


def test_what_a_gang_waits_for_as_all_do_needs_no_word() -> None:
    word = placement_pb2.ClusterWord(word="NODES_COMING", action="It waits", object="pod/x")
    assert "NODES_COMING" not in where(make_run(word, "1 of 2 machines are here"))


def test_what_nobody_knows_is_shown_as_it_was_said() -> None:
    word = placement_pb2.ClusterWord(
        word="UNKNOWN",
        failure_class=placement_pb2.FAILURE_CLASS_ORCHESTRATION,
        message="frobnicated",
        unknown=True,
    )
    assert "the broker has no word for: frobnicated" in where(make_run(word, "it waits"))


def test_what_is_known_of_capacity_is_told_with_its_source_and_age() -> None:
    at: dict[str, Any] = {"queue": "q", "flavor": "h100-spot"}
    cluster = region_pb2.ClusterStatus(
        flavors=[
            region_pb2.FlavorStatus(
                **at,
                capacity_type=SPOT,
                profile=region_pb2.PodProfile(name="default", widens=["It runs as root."]),
            )
        ],
        signals=[
            region_pb2.CapacitySignal(
                **at,
                kind="STOCKOUT",
                message="none left",
                source="GKE node pool condition",
                time=Timestamp(seconds=1_700_000_040),
                count=3,
            ),
            region_pb2.CapacitySignal(**at, kind="MOON", unknown=True, time=Timestamp(seconds=1)),
        ],
        known=[
            region_pb2.CapacityFact(
                **at,
                subject="GPU quota",
                message="8 of 64 free",
                source="Compute Engine",
                time=Timestamp(seconds=1_700_000_095),
            )
        ],
        notes=["a zone is silent"],
    )
    told = "\n".join(beside(cluster, NOW_S))
    rows = [line.split("  ") for line in told.splitlines()]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert ["profile of h100-spot: default; It runs as root."] in cells
    assert [
        *("spot", "q/h100-spot", "STOCKOUT", "none left"),
        *("GKE node pool condition", "1m00s ago", "3"),
    ] in cells
    assert ["spot", "q/h100-spot", "GPU quota", "8 of 64 free", "Compute Engine", "5s ago"] in cells
    assert any("MOON (unknown)" in row for row in cells)
    assert cells[-1] == ["a zone is silent"]


def test_a_profile_that_flavors_share_is_said_once() -> None:
    opens = region_pb2.PodProfile(name="default", widens=["It runs as root."])
    narrow = region_pb2.PodProfile(name="default")
    flavors = [("spot", opens), ("flex", narrow), ("reserved", opens), ("spot", opens)]
    cluster = region_pb2.ClusterStatus(
        flavors=[region_pb2.FlavorStatus(flavor=name, profile=one) for name, one in flavors]
    )
    assert list(beside(cluster, 0.0)) == [
        "  profile of spot, reserved: default; It runs as root.",
        "  profile of flex: default; it opens nothing.",
    ]
