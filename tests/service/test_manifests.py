"""What is sent to clusters, over the wire: for a run, and for one that is only thought of."""

from __future__ import annotations

import json

import grpc
import pytest

from broker.v1 import run_service_pb2
from tests.service.rig import DIGITS, Refusal, Rig, make_request, refused
from tests.service.told import training

INVALID, MISSING = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND


async def test_a_run_shows_what_is_sent_for_each_of_its_placements(rig: Rig) -> None:
    await training(rig)
    (leg,) = rig.run().live_placements
    for asked in ("", leg.id):
        request = run_service_pb2.GetManifestRequest(name=DIGITS, placement=asked)
        (manifest,) = (await rig.runs.GetManifest(request)).manifests
        assert manifest.placement == f"{DIGITS}/placements/{leg.id}"
        assert (manifest.place.region, manifest.place.queue) == ("alpha", "train")
        (sent,) = manifest.objects
        assert (sent.kind, sent.name) == ("JobSet", f"gang-{leg.id}")
        assert json.loads(sent.json) == {"kind": "JobSet", "run": DIGITS}
        assert list(manifest.notes) == ["it opens nothing"]


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        ("", Refusal(MISSING, "NOT_FOUND")),
        ("nothere", Refusal(MISSING, "NOT_FOUND")),
        ("../x", Refusal(INVALID, "INVALID_FIELD", ("placement",))),
    ],
)
async def test_of_a_run_that_was_not_placed_nothing_is_sent(
    rig: Rig, placement: str, expected: Refusal
) -> None:
    await rig.submit()
    request = run_service_pb2.GetManifestRequest(name=DIGITS, placement=placement)
    assert await refused(rig.runs.GetManifest(request)) == expected


async def test_what_would_be_sent_is_told_where_it_is_asked_for(rig: Rig) -> None:
    asked = make_request(validate_only=True)
    assert not (await rig.runs.SubmitRun(asked)).HasField("manifest")
    asked.manifest = True
    answer = await rig.runs.SubmitRun(asked)
    chosen = next(offer for offer in answer.estimate.offers if offer.chosen)
    assert answer.manifest.place == chosen.place
    assert answer.manifest.objects[0].name == f"gang-in-{chosen.place.region}"
    assert answer.manifest.placement == ""
    asked.intent.workload.hardware[0].accelerator = "abacus"
    assert not (await rig.runs.SubmitRun(asked)).HasField("manifest")


async def test_a_submit_that_is_meant_shows_no_manifest(rig: Rig) -> None:
    assert await refused(rig.runs.SubmitRun(make_request(manifest=True))) == Refusal(
        INVALID, "INVALID_FIELD", ("manifest",)
    )
