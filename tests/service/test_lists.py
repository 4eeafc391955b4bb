"""Lists over the wire: filters, orders, pages, and tokens that are not ours."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.model.copying import CopySpend
from broker.model.sightings import Replica
from broker.model.states import RunState
from broker.service.errors import InvalidArgument
from broker.service.filters import query_of
from broker.service.pages import cursor_of, token_of
from broker.store.listing import RunOrder, RunQuery
from broker.v1 import event_pb2, placement_pb2, run_service_pb2
from tests.service.rig import (
    DIGITS,
    VISION,
    Refusal,
    Rig,
    make_request,
    refused,
)
from tests.service.told import training

ListRuns = run_service_pb2.ListRunsRequest
BAD = Refusal(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")


async def names(rig: Rig, request: run_service_pb2.ListRunsRequest) -> list[str]:
    """Return the ids of all pages of a list."""
    found: list[str] = []
    while True:
        page = await rig.runs.ListRuns(request)
        found += [run.name.rpartition("/")[2] for run in page.runs]
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


async def test_pages_hold_each_run_once_in_the_order_asked_for(rig: Rig) -> None:
    for number in range(7):
        await rig.submit(f"run-{number}")
        rig.readings.wait(1.0)
    newest = [f"run-{number}" for number in reversed(range(7))]
    assert await names(rig, ListRuns(parent=VISION, page_size=3)) == newest
    oldest = ListRuns(parent="teams/-", page_size=2, order_by="create_time")
    assert await names(rig, oldest) == newest[::-1]
    assert await names(rig, ListRuns(parent=VISION, order_by="name")) == newest[::-1]
    page = await rig.runs.ListRuns(ListRuns(parent=VISION, page_size=3))
    assert page.total_size == 7


async def test_a_filter_selects_by_state_owner_region_and_label(rig: Rig) -> None:
    await training(rig)
    request = make_request(run_id="other", request_id="r2")
    request.intent.labels["goal"] = "7b"
    request.intent.owner = "bob"
    await rig.runs.SubmitRun(request)
    for filter_, expected in (
        ("state = RUNNING", ["digits"]),
        ("state=ACTIVE AND owner=bob", ["other"]),
        ('(state = RUNNING OR state = VALIDATING) AND labels.goal = "7b"', ["other"]),
        ("region = alpha", ["digits"]),
        ("region = gamma", []),
        ("state = ENDED", []),
    ):
        assert await names(rig, ListRuns(parent=VISION, filter=filter_)) == expected, filter_


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"parent": ""}, "parent"),
        ({"parent": "teams/UP"}, "parent"),
        ({"page_size": -1}, "page_size"),
        ({"order_by": "cost desc"}, "order_by"),
        ({"page_token": "bm9uc2Vuc2U="}, "page_token"),
        ({"page_token": "!"}, "page_token"),
        ({"page_token": "é" * 10}, "page_token"),
        ({"filter": "state != RUNNING"}, "filter"),
        ({"filter": "state = SLEEPING"}, "filter"),
        ({"filter": "cost = 5"}, "filter"),
        ({"filter": "state = RUNNING OR owner = bob"}, "filter"),
        ({"filter": "(state = RUNNING OR owner = bob)"}, "filter"),
        ({"filter": "state ="}, "filter"),
        ({"filter": 'owner = "unended'}, "filter"),
        ({"filter": "labels. = x"}, "filter"),
        ({"filter": "NOT state = RUNNING"}, "filter"),
        ({"filter": "x" * 1001}, "filter"),
    ],
)
async def test_a_list_that_cannot_be_is_refused_by_its_field(
    rig: Rig, changes: dict[str, str | int], field: str
) -> None:
    request = ListRuns(**{"parent": VISION, **changes})  # type: ignore[arg-type]
    assert await refused(rig.runs.ListRuns(request)) == Refusal(BAD.code, BAD.reason, (field,))


async def test_a_token_goes_on_with_its_own_list_only(rig: Rig) -> None:
    for number in range(3):
        await rig.submit(f"run-{number}")
    token = (await rig.runs.ListRuns(ListRuns(parent=VISION, page_size=1))).next_page_token
    other = ListRuns(parent=VISION, page_size=1, page_token=token, filter="owner = bob")
    assert (await refused(rig.runs.ListRuns(other))).fields == ("page_token",)
    larger = ListRuns(parent=VISION, page_size=2, page_token=token)
    assert len((await rig.runs.ListRuns(larger)).runs) == 2


async def test_a_list_shows_what_is_live_and_names_silent_regions(rig: Rig) -> None:
    await training(rig, sealed=True)
    rig.silence("beta")
    page = await rig.runs.ListRuns(ListRuns(parent=VISION))
    assert (len(page.runs[0].placements), len(page.runs[0].epochs)) == (0, 0)
    assert list(page.unreachable) == ["regions/beta"]


async def test_the_timeline_says_what_time_and_money_went_to(rig: Rig) -> None:
    await training(rig)
    rig.readings.wait(3600.0)
    request = run_service_pb2.GetTimelineRequest(name=DIGITS, page_size=4)
    first = await rig.runs.GetTimeline(request)
    assert [event.sequence for event in first.events] == [1, 2, 3, 4]
    assert (first.placements[0].place.region, first.placements[0].cost.units) == ("alpha", 5)
    assert first.placements[0].end == placement_pb2.PLACEMENT_END_UNSPECIFIED
    assert (first.cost.units, first.time_to_useful_work.seconds) == (5, 0)
    # Whoever asks hears the same, to the last digit.
    run = await rig.runs.GetRun(run_service_pb2.GetRunRequest(name=DIGITS))
    page = await rig.runs.ListRuns(ListRuns(parent=VISION))
    assert run.spending == page.runs[0].spending == first.spending
    assert first.spending.cost == first.cost == first.spending.cost_by_phase.running
    assert first.spending.gpu_time.running.seconds == 7200
    events = list(first.events)
    while first.next_page_token:
        request.page_token = first.next_page_token
        first = await rig.runs.GetTimeline(request)
        events += first.events
    assert [event.sequence for event in events] == list(range(1, rig.run().stream_version + 1))
    assert events[-1].type == event_pb2.EVENT_TYPE_CHECKPOINT_COPIED


async def test_checkpoints_are_listed_newest_first_and_can_be_marked(rig: Rig) -> None:
    await training(rig)
    epoch = rig.run().epochs[0]
    request = run_service_pb2.ListCheckpointsRequest(parent=DIGITS, page_size=1)
    page = await rig.runs.ListCheckpoints(request)
    assert (page.checkpoints[0].step, page.next_page_token) == (100, "")
    assert page.checkpoints[0].name == f"{DIGITS}/checkpoints/{epoch.id.folder}.100"
    mark = run_service_pb2.MarkCheckpointRequest(parent=DIGITS, step=100)
    assert (await refused(rig.runs.MarkCheckpoint(mark))).fields == ("bad",)
    mark.pinned, mark.label = True, "best"
    marked = await rig.runs.MarkCheckpoint(mark)
    assert (marked.pinned, marked.bad, marked.label) == (True, False, "best")
    mark.step = 5
    assert (await refused(rig.runs.MarkCheckpoint(mark))).code is grpc.StatusCode.NOT_FOUND


async def test_replicas_are_ordered_by_how_new_they_are(rig: Rig) -> None:
    await training(rig)
    level = Replica(region="alpha", step=100, behind_steps=0, behind_bytes=0, behind_s=0.0)
    rig.loops.copies = (
        replace(level, region="gamma", step=None, is_reachable=False, message="silent"),
        replace(
            level,
            region="beta",
            step=50,
            copying_step=100,
            copied_bytes=100,
            copying_bytes=700,
            copy_bytes_per_s=200.0,
            spend=CopySpend(region="beta", copies=2, sent_bytes=1 << 30, usd=Decimal("0.02")),
        ),
        level,
    )
    request = run_service_pb2.ListReplicasRequest(parent=DIGITS)
    answer = await rig.runs.ListReplicas(request)
    assert [one.region for one in answer.replicas] == ["alpha", "beta", "gamma"]
    assert (answer.newest_step, list(answer.unreachable)) == (100, ["regions/gamma"])
    assert not answer.replicas[2].HasField("step")
    assert (answer.replicas[1].bytes_per_second, answer.replicas[1].left.seconds) == (200.0, 3)
    assert not answer.replicas[0].HasField("left")
    beta = answer.replicas[1]
    assert (beta.sent_bytes, beta.cost.units, beta.cost.nanos) == (1 << 30, 0, 20_000_000)
    assert not answer.replicas[0].HasField("cost")


def test_a_filter_is_read_into_a_query() -> None:
    text = ' ( state=QUEUED OR state=RUNNING )AND labels.a-b.c="x \\"y\\"" AND region = eu-west4'
    assert query_of("vision", text, " create_time  asc ", 10) == RunQuery(
        team="vision",
        states=(RunState.QUEUED, RunState.RUNNING),
        region="eu-west4",
        labels=(("a-b.c", 'x "y"'),),
        order=RunOrder.OLDEST,
        page_size=10,
    )


@given(st.text(alphabet='()=!<>:"\\ .ANDORstate_RUNNINGlabels', max_size=60))
def test_any_filter_is_read_or_refused_by_name(text: str) -> None:
    assert refused_fields(lambda: query_of("", text, "", 1)) in ([], ["filter"])


@given(st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=40))
def test_a_token_gives_its_cursor_back(at: float, name: str) -> None:
    assert cursor_of(token_of((at, name), "list"), (float, str), "list") == (at, name)


@given(
    st.one_of(
        st.text(max_size=60),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=4),
        ).map(lambda x: base64.urlsafe_b64encode(json.dumps(x).encode()).decode()),
    )
)
def test_any_token_that_is_not_ours_is_refused(token: str) -> None:
    fields = refused_fields(lambda: cursor_of(token, (float, str), "list"))
    assert fields == (["page_token"] if token else [])


def refused_fields(call: Callable[[], object]) -> list[str]:
    """Return the fields that a call refuses, none when it does not."""
    try:
        call()
    except InvalidArgument as refusal:
        return [violation.field for violation in refusal.violations]
    return []
