"""When the machines of a gang are given back as planned, by what each of them says."""

import pytest

from regions.kueue.machine_times import ends_s
from tests.unit.regions.kueue.tellings import NOW_S, ended, make_evidence, make_node, make_pod

NODES = {
    "node-0": make_node("node-0", planned_end_s=NOW_S + 900.0),
    "node-1": make_node("node-1", planned_end_s=NOW_S + 600.0),
    "stays": make_node("stays"),
    "past": make_node("past", planned_end_s=NOW_S - 5.0),
}


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        (("node-0", "node-1"), 600.0),
        (("node-0", "stays"), 900.0),
        (("stays", ""), None),
        (("node-0", "past"), 0.0),
        (("unseen",), None),
    ],
)
def test_the_first_of_its_machines_counts(on: tuple[str, ...], expected: float | None) -> None:
    pods = tuple(make_pod(rank, node=node) for rank, node in enumerate(on))
    assert ends_s(make_evidence(pods=pods, nodes=NODES)) == expected


def test_where_nodes_cannot_be_seen_nothing_is_told() -> None:
    assert ends_s(make_evidence(pods=(make_pod(0, node="node-0"),), nodes=None)) is None


def test_a_process_that_is_over_stands_on_no_machine() -> None:
    pods = (ended(exit_code=0, node="node-1"), make_pod(1, node="node-0"))
    assert ends_s(make_evidence(pods=pods, nodes=NODES)) == 900.0
