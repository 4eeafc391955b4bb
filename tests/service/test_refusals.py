"""What is wrong with a request is told whole, and in a size that every client takes."""

from __future__ import annotations

import math
import re

import grpc
import grpc.aio
import pytest

from broker.v1 import intent_pb2, run_service_pb2
from tests.service.rig import Refusal, Rig, make_request, refusal_of, refused, terms_of

INVALID = grpc.StatusCode.INVALID_ARGUMENT


async def test_what_no_intent_could_hold_is_told_with_every_rule_that_is_broken(rig: Rig) -> None:
    request = make_request(workload=intent_pb2.Workload(image="a b"), run_id="Digits!")
    request.intent.workload.hardware[0].topology = 99  # type: ignore[assignment]
    request.intent.workload.hardware[0].relative_speed = math.nan
    request.intent.workload.checkpoint.format = 99  # type: ignore[assignment]
    request.intent.terms.MergeFrom(
        terms_of("capacity_types: [77, 2], max_wait {seconds: -1}, budget {currency_code: 'EUR'}")
    )
    request.intent.terms.regions.append("nowhere")
    request.parent = "teams/Vision"
    request.request_id = "x" * 65
    expected = (
        "parent",
        "request_id",
        "run_id",
        "intent.workload.hardware[0].relative_speed",
        "intent.workload.hardware[0].topology",
        "intent.workload.checkpoint.format",
        "intent.terms.capacity_types[1]",
        "intent.terms.max_wait",
        "intent.terms.budget.currency_code",
        "intent.workload.image",
        "intent.terms.regions[0]",
    )
    before = request.SerializeToString(deterministic=True)
    assert await refused(rig.runs.SubmitRun(request)) == Refusal(INVALID, "INVALID_FIELD", expected)
    assert request.SerializeToString(deterministic=True) == before
    run = (await rig.runs.SubmitRun(make_request())).run
    amend = run_service_pb2.AmendRunRequest(name=run.name, terms=run.intent.terms, etag=run.etag)
    amend.terms.MergeFrom(terms_of("after_max_wait: 99, max_wait {seconds: -1}, priority: 9000000"))
    assert (await refused(rig.runs.AmendRun(amend))).fields == (
        "terms.max_wait",
        "terms.after_max_wait",
        "terms.priority",
    )
    fork = run_service_pb2.ForkRunRequest(name=run.name, run_id="-", intent=run.intent)
    fork.intent.workload.image = "a b"
    assert (await refused(rig.runs.ForkRun(fork))).fields == ("run_id", "intent.workload.image")
    fork.ClearField("intent")
    assert (await refused(rig.runs.ForkRun(fork))).fields == ("run_id",)


async def test_a_refusal_of_any_length_reaches_a_client_that_was_told_nothing(rig: Rig) -> None:
    request = make_request()
    for number in range(200):
        request.intent.workload.env[f"\N{SNOWMAN}-{number}-{'x' * 100}"] = f"${{{'y' * 60}}}"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rig.runs.SubmitRun(request, timeout=10)  # the rig's channel has no options either
    found = refusal_of(caught.value)
    assert (found.code, found.reason) == (INVALID, "INVALID_FIELD")
    assert len(found.fields) > 5
    details = dict(caught.value.trailing_metadata() or ())["grpc-status-details-bin"]
    rest = re.search(rb"\((\d+) more like this are not told\)", bytes(details))
    assert rest is not None
    # Of each a name that is none, and a text with a hole in it.
    assert int(rest[1]) + len(found.fields) == 400
