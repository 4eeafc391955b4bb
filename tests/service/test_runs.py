"""Runs over the wire: submitted, read, changed, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import grpc
import grpc.aio
import pytest
from google.protobuf import duration_pb2

from broker.history.commands import AcceptRun
from broker.model.image import PinnedImage
from broker.model.reasons import Reason
from broker.v1 import errors_pb2, event_pb2, intent_pb2, offer_pb2, run_pb2, run_service_pb2
from tests.service.rig import (
    DIGITS,
    VISION,
    Refusal,
    Rig,
    make_request,
    refusal_of,
    refused,
    terms_of,
)
from tests.service.told import training

INVALID, EXISTS = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS
MISSING, NOT_NOW = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION


async def test_a_run_is_submitted_and_read_back_as_it_was_asked_for(rig: Rig) -> None:
    answer = await rig.runs.SubmitRun(
        make_request(run_id="digits", request_id="r1"), metadata=(("broker-user", "ann"),)
    )
    assert (answer.run.name, answer.run.state) == (DIGITS, run_pb2.RUN_STATE_VALIDATING)
    assert answer.run.why.reason == errors_pb2.REASON_CHECKING_INTENT
    assert answer.run.intent.owner == "ann"
    assert answer.run.intent.workload.hardware[0].nodes == 2
    assert answer.run.intent.terms.limits.user_restarts == 3
    got = await rig.runs.GetRun(run_service_pb2.GetRunRequest(name=DIGITS))
    assert got == answer.run


async def test_a_repeated_request_gives_the_same_run_and_another_body_is_refused(rig: Rig) -> None:
    first = await rig.runs.SubmitRun(make_request(request_id="r1"))
    again = await rig.runs.SubmitRun(make_request(request_id="r1"))
    assert (again.run.name, again.run.uid) == (first.run.name, first.run.uid)
    other = make_request(request_id="r1", terms=intent_pb2.Terms(priority=5))
    assert await refused(rig.runs.SubmitRun(other)) == Refusal(
        EXISTS, "REQUEST_ID_REUSED", ("request_id",)
    )
    taken = make_request(run_id=first.run.name.rpartition("/")[2], request_id="r2")
    assert await refused(rig.runs.SubmitRun(taken)) == Refusal(
        EXISTS, "ALREADY_EXISTS", ("run_id",)
    )


async def test_a_request_without_an_id_cannot_be_repeated(rig: Rig) -> None:
    request = make_request(run_id="digits")
    await rig.runs.SubmitRun(request)
    assert await refused(rig.runs.SubmitRun(request)) == Refusal(
        EXISTS, "ALREADY_EXISTS", ("run_id",)
    )


async def test_a_request_repeated_after_its_deadline_still_gives_its_run(rig: Rig) -> None:
    terms = intent_pb2.Terms()
    terms.deadline.FromSeconds(1_700_000_100)
    request = make_request(request_id="r1", terms=terms)
    first = await rig.runs.SubmitRun(request)
    rig.readings.wait(3600.0)
    assert (await rig.runs.SubmitRun(request)).run.name == first.run.name
    request.request_id = "r2"
    assert await refused(rig.runs.SubmitRun(request)) == Refusal(
        INVALID, "DEADLINE_PASSED", ("intent.terms.deadline",)
    )


async def test_every_rule_that_is_broken_is_told_at_once(rig: Rig) -> None:
    request = make_request(workload=intent_pb2.Workload(env={"BROKER_RUN": "x"}, image="a b"))
    request.intent.terms.regions.append("nowhere")
    assert await refused(rig.runs.SubmitRun(request)) == Refusal(
        INVALID,
        "INVALID_FIELD",
        ("intent.workload.image", "intent.workload.env", "intent.terms.regions[0]"),
    )
    run = (await rig.runs.SubmitRun(make_request())).run
    amend = run_service_pb2.AmendRunRequest(name=run.name, terms=run.intent.terms, etag=run.etag)
    amend.terms.regions.append("nowhere")
    assert (await refused(rig.runs.AmendRun(amend))).fields == ("terms.regions[0]",)


def too_wide(**changes: object) -> run_service_pb2.SubmitRunRequest:
    """Return a request for nodes of eight, where every node has one."""
    request = make_request(**changes)
    request.intent.workload.hardware[0].accelerators_per_node = 8
    request.intent.workload.hardware[0].nodes = 1
    return request


async def test_what_fits_nowhere_is_refused_with_what_would_fit(rig: Rig) -> None:
    found = await refused(rig.runs.SubmitRun(too_wide()))
    assert (found.code, found.reason) == (INVALID, "NEVER_FITS")
    assert found.fields == ("intent.workload.hardware",)
    answer = await rig.runs.SubmitRun(too_wide(validate_only=True))
    assert answer.estimate.never_fits
    assert not answer.estimate.offers
    assert len(answer.estimate.refusals) == 3
    assert "would take 8x1xh100 (nodes: 8" in answer.estimate.summary


async def test_what_fits_nowhere_that_is_seen_waits_for_what_is_not(rig: Rig) -> None:
    rig.silence("beta")
    answer = await rig.runs.SubmitRun(too_wide(run_id="digits"))
    assert answer.run.name == DIGITS


async def test_an_accepted_request_is_not_refused_for_what_its_places_became(rig: Rig) -> None:
    request = make_request(request_id="once")
    first = await rig.runs.SubmitRun(request)
    for region, facts in rig.loops.facts.items():
        small = tuple(replace(flavor, nominal=1) for flavor in facts.flavors)
        rig.loops.facts[region] = replace(facts, flavors=small)
    assert (await rig.runs.SubmitRun(request)).run.name == first.run.name


async def test_equal_offers_stand_in_the_same_order_whenever_asked_and_say_why(rig: Rig) -> None:
    answers = [await rig.runs.SubmitRun(make_request(validate_only=True)) for _ in range(4)]
    orders = [[offer.place.region for offer in one.estimate.offers] for one in answers]
    assert orders == [orders[0]] * 4
    causes = [offer.comparison for offer in answers[0].estimate.offers]
    assert causes == [offer_pb2.COMPARISON_BEST, *[offer_pb2.COMPARISON_LOT] * 2]
    assert all(offer.compared for offer in answers[0].estimate.offers)


async def test_validate_only_says_where_it_would_go_and_creates_nothing(rig: Rig) -> None:
    answer = await rig.runs.SubmitRun(make_request(validate_only=True))
    assert (answer.run.name, answer.run.uid) == ("", "")
    regions = [offer.place.region for offer in answer.estimate.offers]
    assert sorted(regions) == ["alpha", "beta", "gamma"]
    assert [offer.chosen for offer in answer.estimate.offers].count(True) == 1
    assert answer.estimate.offers[0].price_per_hour.units == 4
    assert answer.estimate.offers[0].forecast.HasField("p50")
    assert answer.estimate.summary
    listed = await rig.runs.ListRuns(run_service_pb2.ListRunsRequest(parent="teams/-"))
    assert (len(listed.runs), listed.total_size) == (0, 0)


async def test_a_run_in_training_shows_where_why_since_when_and_at_what_price(rig: Rig) -> None:
    await training(rig)
    rig.readings.wait(3600.0)
    run = await rig.runs.GetRun(run_service_pb2.GetRunRequest(name=DIGITS))
    assert (run.state, run.progress.step) == (run_pb2.RUN_STATE_RUNNING, 120)
    assert run.why.since_time.seconds == 1_700_000_000
    placement = run.placements[0]
    assert (placement.place.region, placement.place.queue, placement.gpus) == ("alpha", "train", 2)
    assert placement.phases.running.seconds == 3600
    assert (run.spending.cost.units, run.spending.cost.currency_code) == (5, "USD")
    assert (run.last_checkpoint.step, list(run.last_checkpoint.regions)) == (100, ["alpha", "beta"])
    assert run.epochs[0].folder in run.last_checkpoint.name
    assert (run.restarts.user_restarts_left, run.restarts.infrastructure_losses_left) == (3, 100)


async def test_a_run_shows_the_newest_step_that_is_known_and_of_its_open_start_alone(
    rig: Rig,
) -> None:
    await training(rig)
    logged = rig.run().progress
    assert logged is not None

    async def steps() -> set[int]:
        run = await rig.runs.GetRun(run_service_pb2.GetRunRequest(name=DIGITS))
        explained = await rig.runs.ExplainRun(run_service_pb2.ExplainRunRequest(name=DIGITS))
        listed = await rig.runs.ListRuns(run_service_pb2.ListRunsRequest(parent=VISION))
        return {one.progress.step for one in (run, explained.run, *listed.runs)}

    live = replace(logged, step=127, at_wall_s=logged.at_wall_s + 1.0)
    rig.loops.reports[DIGITS] = live
    assert await steps() == {127}
    rig.loops.reports[DIGITS] = replace(live, at_wall_s=logged.at_wall_s - 1.0)
    assert await steps() == {120}
    rig.loops.reports[DIGITS] = replace(live, epoch=logged.epoch + 1)
    assert await steps() == {120}


async def test_terms_are_amended_only_with_the_present_etag(rig: Rig) -> None:
    await rig.submit()
    await rig.tell(AcceptRun())
    run = await rig.runs.GetRun(run_service_pb2.GetRunRequest(name=DIGITS))
    terms = intent_pb2.Terms()
    terms.CopyFrom(run.intent.terms)
    terms.priority = 7
    amend = run_service_pb2.AmendRunRequest(name=DIGITS, terms=terms, etag=run.etag)
    amended = await rig.runs.AmendRun(amend)
    assert (amended.intent.terms.priority, amended.etag) == (7, "2")
    terms.priority = 8
    amend.terms.CopyFrom(terms)
    assert await refused(rig.runs.AmendRun(amend)) == Refusal(
        grpc.StatusCode.ABORTED, "ETAG_MISMATCH", ("etag",)
    )
    amend.etag = ""
    assert await refused(rig.runs.AmendRun(amend)) == Refusal(INVALID, "INVALID_FIELD", ("etag",))


async def test_of_two_amendments_with_one_etag_one_wins(rig: Rig) -> None:
    await rig.submit()
    await rig.tell(AcceptRun())
    run = await rig.runs.GetRun(run_service_pb2.GetRunRequest(name=DIGITS))

    async def amend(priority: int) -> int | Refusal:
        terms = intent_pb2.Terms(priority=priority)
        terms.MergeFrom(run.intent.terms)
        request = run_service_pb2.AmendRunRequest(name=DIGITS, terms=terms, etag=run.etag)
        try:
            return int((await rig.runs.AmendRun(request)).intent.terms.priority)
        except grpc.RpcError as error:
            return refusal_of(error)

    wishes = range(1, 9)
    found = await asyncio.gather(*(amend(priority) for priority in wishes))
    lost = Refusal(grpc.StatusCode.ABORTED, "ETAG_MISMATCH", ("etag",))
    won = [one for one in found if one != lost]
    now = await rig.runs.GetRun(run_service_pb2.GetRunRequest(name=DIGITS))
    assert won == [now.intent.terms.priority]
    assert (now.etag, now.sequence) == ("2", run.sequence + 1)


async def test_a_run_is_cancelled_and_resumed(rig: Rig) -> None:
    await rig.submit()
    await rig.tell(AcceptRun())
    cancelled = await rig.runs.CancelRun(run_service_pb2.CancelRunRequest(name=DIGITS))
    assert cancelled.state == run_pb2.RUN_STATE_CANCELLED
    assert cancelled.HasField("end_time")
    assert cancelled.why.message.startswith("cancelled by ")
    again = await rig.runs.CancelRun(run_service_pb2.CancelRunRequest(name=DIGITS))
    assert again.sequence == cancelled.sequence
    missing = run_service_pb2.ResumeRunRequest(name=DIGITS, step=100)
    assert (await refused(rig.runs.ResumeRun(missing))).reason == "CHECKPOINT_NOT_AVAILABLE"
    resumed = await rig.runs.ResumeRun(run_service_pb2.ResumeRunRequest(name=DIGITS))
    assert resumed.state == run_pb2.RUN_STATE_QUEUED


async def test_who_cancels_is_named_beside_the_reason_that_they_give(rig: Rig) -> None:
    await rig.submit()
    await rig.tell(AcceptRun())
    said = "x" * 1_000
    cancelled = await rig.runs.CancelRun(
        run_service_pb2.CancelRunRequest(name=DIGITS, message=said)
    )
    who, _, why = cancelled.why.message.partition(": ")
    assert who.startswith("cancelled by ")
    assert why == said


async def test_a_fork_begins_with_its_parents_checkpoint_which_is_kept_for_it(rig: Rig) -> None:
    await training(rig, sealed=True)
    request = run_service_pb2.ForkRunRequest(
        name=DIGITS, run_id="digits-2", step=100, request_id="f1"
    )
    forked = await rig.runs.ForkRun(request)
    assert (forked.name, forked.forked_from) == (f"{VISION}/runs/digits-2", DIGITS)
    assert (await rig.runs.ForkRun(request)).uid == forked.uid
    assert rig.run(forked.name).checkpoints[0].ref.run_uid == rig.run().uid
    (kept,) = rig.run().checkpoints
    assert (kept.is_pinned, [hold.fork for hold in kept.holds]) == (False, [forked.name])
    again = run_service_pb2.ForkRunRequest(name=forked.name, run_id="digits-3", request_id="f3")
    assert (await rig.runs.ForkRun(again)).forked_from == forked.name
    (kept,) = rig.run().checkpoints  # what a fork of a fork begins with was written here too
    assert [hold.fork for hold in kept.holds] == [forked.name, f"{VISION}/runs/digits-3"]
    request.step, request.request_id = 7, "f2"
    assert await refused(rig.runs.ForkRun(request)) == Refusal(
        NOT_NOW, "CHECKPOINT_NOT_AVAILABLE", ("step",)
    )


async def test_a_fork_runs_what_its_parents_image_was_found_to_be(rig: Rig) -> None:
    await rig.submit()
    image = PinnedImage(name=f"registry.example/llm@sha256:{'a' * 64}", size_bytes=1)
    await rig.tell(AcceptRun(image=image))
    assert (await rig.runs.GetRun(run_service_pb2.GetRunRequest(name=DIGITS))).image == image.name
    request = run_service_pb2.ForkRunRequest(
        name=DIGITS, run_id="digits-2", beginning=True, request_id="f1"
    )
    forked = await rig.runs.ForkRun(request)
    assert forked.intent.workload.image == image.name


async def test_explain_shows_every_place_with_its_reason(rig: Rig) -> None:
    await rig.submit(terms=intent_pb2.Terms(regions=["alpha"]))
    await rig.tell(AcceptRun())
    answer = await rig.runs.ExplainRun(run_service_pb2.ExplainRunRequest(name=DIGITS))
    assert [offer.place.region for offer in answer.estimate.offers] == ["alpha"]
    refusals = {one.place.region: one.reason for one in answer.estimate.refusals}
    assert refusals == dict.fromkeys(("beta", "gamma"), errors_pb2.REASON_REGION_NOT_ACCEPTED)
    assert all(one.message for one in answer.estimate.refusals)


async def test_only_the_open_epoch_may_report_and_reports_are_thinned(rig: Rig) -> None:
    await training(rig)
    epoch = rig.run().epochs[0].id.folder
    report = run_service_pb2.ReportProgressRequest(name=DIGITS, epoch=epoch, step=130, loss=0.1)
    before = rig.run().stream_version
    assert (await rig.runs.ReportProgress(report)).draining is False
    assert rig.run().stream_version == before  # too soon after the last
    rig.readings.wait(10.0)
    await rig.runs.ReportProgress(report)
    progress = rig.run().progress
    assert progress is not None
    assert (progress.step, progress.loss) == (130, 0.1)
    report.epoch = "e000009-" + "z" * 12
    assert await refused(rig.runs.ReportProgress(report)) == Refusal(
        NOT_NOW, "ILLEGAL_IN_STATE", ("epoch",)
    )


async def test_going_on_without_a_gang_is_written_down_by_name_and_closes_nothing(rig: Rig) -> None:
    await training(rig)
    request = run_service_pb2.ReplaceRunRequest(name=DIGITS, epoch=1, message="fire")
    rig.silence("alpha")
    run = await rig.runs.ReplaceRun(request)
    assert run.why.reason == errors_pb2.REASON_STOPPING
    assert not run.epochs[0].HasField("close_time")
    assert await rig.runs.ReplaceRun(request) == run
    timeline = await rig.runs.GetTimeline(run_service_pb2.GetTimelineRequest(name=DIGITS))
    said = [one for one in timeline.events if one.type == event_pb2.EVENT_TYPE_REPLACEMENT_ORDERED]
    assert [(one.message, one.actor.kind) for one in said] == [("fire", event_pb2.ACTOR_KIND_USER)]
    request.epoch = 2
    assert (await refused(rig.runs.ReplaceRun(request))).fields == ("epoch",)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"parent": "vision"}, "parent"),
        ({"run_id": "Digits!"}, "run_id"),
        ({"request_id": "x" * 65}, "request_id"),
        ({"request_id": "a\x00b"}, "request_id"),
        ({"request_id": "a\nb"}, "request_id"),
        ({"request_id": "a\tb"}, "request_id"),
        ({"request_id": "\x9b2J"}, "request_id"),
        ({"request_id": "\u202egnp"}, "request_id"),
        ({"parent": "teams/\x1b[2J"}, "parent"),
        ({"run_id": "a\nb"}, "run_id"),
        ({"intent": None}, "intent"),
        ({"terms": intent_pb2.Terms(max_wait=duration_pb2.Duration(seconds=-1))},
         "intent.terms.max_wait"),
        ({"terms": terms_of("after_max_wait: 99")}, "intent.terms.after_max_wait"),
        ({"terms": terms_of("capacity_types: 0")}, "intent.terms.capacity_types[1]"),
    ],
)  # fmt: skip
async def test_bad_input_names_its_field_and_changes_nothing(
    rig: Rig, changes: dict[str, object], field: str
) -> None:
    request = make_request(**{k: v for k, v in changes.items() if k in ("terms", "workload")})
    for name in changes.keys() - {"terms", "workload"}:
        if changes[name] is None:
            request.ClearField(name)  # type: ignore[arg-type]
        else:
            setattr(request, name, changes[name])
    assert await refused(rig.runs.SubmitRun(request)) == Refusal(INVALID, "INVALID_FIELD", (field,))
    listed = await rig.runs.ListRuns(run_service_pb2.ListRunsRequest(parent="teams/-"))
    assert listed.total_size == 0


async def test_a_run_that_is_not_there_is_said_so(rig: Rig) -> None:
    for call in (
        rig.runs.GetRun(run_service_pb2.GetRunRequest(name=DIGITS)),
        rig.runs.CancelRun(run_service_pb2.CancelRunRequest(name=DIGITS)),
        rig.runs.GetTimeline(run_service_pb2.GetTimelineRequest(name=DIGITS)),
        rig.runs.ListCheckpoints(run_service_pb2.ListCheckpointsRequest(parent=DIGITS)),
    ):
        assert await refused(call) == Refusal(MISSING, "NOT_FOUND")


async def test_a_fault_of_the_server_leaves_no_trace_of_itself_on_the_wire(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.loops.facts["alpha"] = None  # type: ignore[assignment]  # what no loop would do
    request = make_request(validate_only=True)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rig.runs.SubmitRun(request)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert refusal_of(caught.value).reason == Reason.UNKNOWN
    assert "Traceback" not in str(caught.value.details())
    assert [record.message for record in caplog.records] == ["SubmitRun failed"]
