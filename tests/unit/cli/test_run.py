"""What is sent is shown as YAML that a cluster would take; what is worth knowing, as comments."""

import json

import pytest
import yaml

from broker.cli.run import LONGEST, lines_of
from broker.v1 import offer_pb2, run_service_pb2

CARRIED = "A" * (LONGEST + 1)
PROGRAM = {"kind": "ConfigMap", "immutable": True, "binaryData": {"launcher.pyz": CARRIED}}
GANG = {"kind": "JobSet", "spec": {"suspend": True, "jobs": [{"n": 2, "env": "on\n# not\x1b[0m"}]}}


def make_manifest(**changes: object) -> run_service_pb2.Manifest:
    fields: dict[str, object] = {
        "placement": "teams/vision/runs/digits/placements/p1",
        "place": offer_pb2.Place(region="alpha", cluster="a-1", queue="ours", flavor="spot"),
        "objects": [
            run_service_pb2.SentObject(kind=str(one["kind"]), name="x", json=json.dumps(one))
            for one in (PROGRAM, GANG)
        ],
        "notes": ["It opens nothing."],
    }
    return run_service_pb2.Manifest(**(fields | changes))  # type: ignore[arg-type]


def test_what_is_sent_can_be_read_back() -> None:
    told = "\n".join(lines_of(make_manifest(), whole=True))
    assert told.startswith(
        "# alpha: cluster a-1, ours/spot, placement p1\n# It opens nothing.\n---\n"
    )
    assert list(yaml.safe_load_all(told)) == [PROGRAM, GANG]


def test_bytes_that_nobody_reads_are_left_out_unless_asked_for() -> None:
    program, gang = yaml.safe_load_all("\n".join(lines_of(make_manifest(), whole=False)))
    assert program["binaryData"] == {"launcher.pyz": "(2001 characters, which --whole shows)"}
    assert gang == GANG


@pytest.mark.parametrize("words", ["the run names no image", "first\nsecond: {}"])
def test_what_is_never_sent_says_why_and_is_no_object(words: str) -> None:
    refused = make_manifest(objects=[], notes=[], refusal=words, placement="")
    told = "\n".join(lines_of(refused, whole=False))
    assert told.splitlines()[0] == "# alpha: cluster a-1, ours/spot, if placed"
    assert all(line.startswith("# ") for line in told.splitlines())
    assert list(yaml.safe_load_all(told)) == []
