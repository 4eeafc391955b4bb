"""What people read of a cluster's words, and of what is known of its capacity."""

from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from broker.cli.cluster_words import explained
from broker.cli.quota import quota
from broker.cli.regions import beside, registry_line
from broker.cli.status import rendered
from broker.v1 import intent_pb2, offer_pb2, placement_pb2, region_pb2, run_pb2, why_pb2

NOW_S = 1_700_000_100.0
ENDED = placement_pb2.PLACEMENT_STATE_ENDED
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


SECRET = placement_pb2.ClusterWord(
    word="SECRET_MISSING",
    failure_class=placement_pb2.FAILURE_CLASS_USER,
    action="It takes the gang out of this cluster",
    advice="Have it created.",
    message='secret "hub" not found',
    object="pod/x",
)


def test_a_status_names_what_is_wrong_and_what_helps_and_an_explanation_tells_all() -> None:
    run = make_run(SECRET, "alpha: a secret is not there: hub")
    assert where(run).endswith(
        "; a secret is not there: hub; SECRET_MISSING (more: broker explain digits)"
    )
    assert rendered(run, NOW_S).splitlines()[-1] == "  advice      Have it created."
    assert list(explained(run)) == [
        "alpha (spot): SECRET_MISSING (class: user)",
        "  what is done      It takes the gang out of this cluster",
        "  what helps        Have it created.",
        '  the cluster says  secret "hub" not found',
        "  to look at        pod/x in a",
    ]


def test_what_a_process_printed_last_is_told_line_by_line() -> None:
    word = placement_pb2.ClusterWord()
    word.CopyFrom(SECRET)
    word.last_lines = "Traceback\n  OSError"
    assert list(explained(make_run(word, "")))[-2:] == [
        "  it printed last   Traceback",
        "                      OSError",
    ]


def test_what_helps_is_told_of_the_last_try_until_a_gang_has_come_further() -> None:
    run = make_run(SECRET, "")
    last = run.placements[0]
    last.state, last.end = ENDED, placement_pb2.PLACEMENT_END_FAILED
    last.state_time.seconds = 1_700_000_090
    former = run.placements.add()
    former.CopyFrom(last)
    former.cluster_word.advice = "This helped once."
    former.state_time.seconds = 1_700_000_000
    run.state = run_pb2.RUN_STATE_FAILED
    assert rendered(run, NOW_S).splitlines()[-1] == "  advice      Have it created."
    assert next(explained(run)) == "alpha (spot): SECRET_MISSING (class: user)"
    run.placements.add(state=placement_pb2.PLACEMENT_STATE_RUNNING, gpus=8)
    assert "advice" not in rendered(run, NOW_S)
    assert list(explained(run)) == []


def test_what_is_to_be_looked_at_is_named_once() -> None:
    run = make_run(SECRET, "it waits")
    run.placements[0].cluster_uid = "0123"
    run.placements[0].stuck.message = "it waited for long"
    assert "0123" not in where(run)
    run.placements[0].ClearField("cluster_word")
    assert where(run).endswith("; to look at it: 0123 in a/q")


def test_what_a_gang_waits_for_as_all_do_needs_no_word() -> None:
    word = placement_pb2.ClusterWord(word="NODES_COMING", action="It waits", object="pod/x")
    run = make_run(word, "1 of 2 machines are here")
    assert where(run).endswith("1 of 2 machines are here")
    assert list(explained(run)) == []


def test_what_nobody_knows_names_the_object_that_shows_it() -> None:
    word = placement_pb2.ClusterWord(
        word="UNKNOWN",
        failure_class=placement_pb2.FAILURE_CLASS_ORCHESTRATION,
        message="frobnicated",
        object="pod/x",
        unknown=True,
    )
    run = make_run(word, "the cluster says: frobnicated")
    assert where(run).endswith(
        "; the cluster says: frobnicated; UNKNOWN, seen at pod/x (more: broker explain digits)"
    )


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


def test_what_would_fit_now_is_told_by_zone_and_size() -> None:
    room = [("z-a", 8, 2), ("z-a", 4, 5), ("", 4, 1)]
    flavor = region_pb2.FlavorStatus(
        queue="q",
        flavor="spot",
        room=[
            region_pb2.FreeRoom(zone=zone, accelerators_per_rank=size, ranks=ranks)
            for zone, size, ranks in room
        ],
    )
    cluster = region_pb2.ClusterStatus(flavors=[flavor])
    assert [line for line in beside(cluster, 0.0) if "free" in line] == [
        "  free in q/spot, z-a: ranks 2 with 8 GPUs, 5 with 4 GPUs",
        "  free in q/spot, an unnamed zone: ranks 1 with 4 GPUs",
    ]


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


def test_a_region_says_where_its_images_are_pulled_from() -> None:
    registry = region_pb2.ImageRegistry(
        prefix="r.example/team", login="file", upload="chunks", pull_bytes_per_second=100_000_000
    )
    assert registry_line(registry) == (
        "images are pulled from r.example/team, about 95.4 MiB/s on a new machine; the broker"
        " logs in there out of a file, and sends layers in chunks"
    )


def test_what_a_profile_lays_over_a_gang_is_told_below_it() -> None:
    laid = region_pb2.PodProfile(
        name="default",
        parts=[
            region_pb2.ProfilePart(kind="mount", message="/stores/eu: claim checkpoints"),
            region_pb2.ProfilePart(kind="environment", message="NCCL_DEBUG"),
        ],
    )
    other = region_pb2.PodProfile(name="default")
    flavors = [("spot", laid), ("flex", other), ("reserved", laid)]
    cluster = region_pb2.ClusterStatus(
        flavors=[region_pb2.FlavorStatus(flavor=name, profile=one) for name, one in flavors]
    )
    assert list(beside(cluster, 0.0)) == [
        "  profile of spot, reserved: default; it opens nothing.",
        "    mount: /stores/eu: claim checkpoints",
        "    environment: NCCL_DEBUG",
        "  profile of flex: default; it opens nothing.",
    ]


def test_of_quota_each_figure_is_told_and_what_was_not_seen_is_unknown() -> None:
    whole = region_pb2.FlavorStatus(
        queue="research",
        flavor="h100-on-demand",
        nominal=1024,
        reserved=960,
        used=896,
        parked=64,
        borrowable=0,
        free=64,
    )
    unseen = region_pb2.FlavorStatus(queue="research", flavor="flex", nominal=64)
    lines = quota(region_pb2.ClusterStatus(flavors=[whole, unseen])).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["research/h100-on-demand", "1024", "960", "896", "64", "0", "64"],
        ["research/flex", "64", *["unknown"] * 5],
    ]
    assert max(map(len, lines)) <= 80


def test_what_would_fit_close_together_is_told_where_it_is_known() -> None:
    room = [
        region_pb2.FreeRoom(zone="z", accelerators_per_rank=8, ranks=4, ranks_close=0),
        region_pb2.FreeRoom(zone="z", accelerators_per_rank=4, ranks=8),
    ]
    flavor = region_pb2.FlavorStatus(queue="q", flavor="spot", room=room)
    assert list(beside(region_pb2.ClusterStatus(flavors=[flavor]), 0.0)) == [
        "  free in q/spot, z: ranks 4 with 8 GPUs (0 close together), 8 with 4 GPUs"
    ]
