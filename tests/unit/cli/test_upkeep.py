"""What a look at everything finds, each trouble told once."""

import pytest

from broker.cli.upkeep import region_checks, warnings_of
from broker.v1 import region_pb2

SWAPPED = "the store in us-east4 is another one"


@pytest.mark.parametrize(
    ("warnings", "told"),
    [
        ([], []),
        (["the log cannot be written: disk full"], ["the log cannot be written: disk full"]),
        (["regions/us-east4 does not answer", "regions/us-east4: job/x is of no run"], []),
        (["the placer fails", "regions/mars does not answer"], ["the placer fails"]),
    ],
)
def test_what_a_region_says_of_itself_is_not_told_of_the_broker_too(
    warnings: list[str], told: list[str]
) -> None:
    assert warnings_of(warnings) == told


def test_a_store_that_is_not_believed_is_told_once() -> None:
    cluster = region_pb2.ClusterStatus(cluster="local", reachable=True, blind=[SWAPPED])
    region = region_pb2.Region(
        name="regions/us-east4",
        state=region_pb2.REGION_STATE_OPEN,
        store_message=SWAPPED,
        clusters=[cluster],
    )
    assert [check.said for check in region_checks(region, 0.0)] == [f"{SWAPPED} (never seen)"]


def test_what_operators_should_know_of_a_cluster_is_told_line_by_line() -> None:
    notes = ["flavor flex: nothing says how many accelerators a node has", "ClusterQueue cq is odd"]
    cluster = region_pb2.ClusterStatus(
        cluster="gke", reachable=True, store_reachable=True, notes=notes
    )
    region = region_pb2.Region(
        name="regions/us-east4", state=region_pb2.REGION_STATE_OPEN, clusters=[cluster]
    )
    found = [(check.what, check.is_well, check.said) for check in region_checks(region, 0.0)]
    assert found == [
        ("us-east4/gke", True, "answers, never seen"),
        *(("us-east4/gke", False, note) for note in notes),
    ]
