"""Whatever comes over the wire: an answer, or a refusal that names the field; never a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.store.listing import RunQuery
from broker.v1 import (
    broker_service_pb2,
    local_service_pb2,
    region_service_pb2,
    run_service_pb2,
    team_service_pb2,
)
from tests.service.hostile import damaged, messages
from tests.service.rig import DIGITS, Refusal, Rig, make_request, refusal_of, serving
from tests.service.told import training

SERVICES = [
    run_service_pb2.DESCRIPTOR.services_by_name["RunService"],
    region_service_pb2.DESCRIPTOR.services_by_name["RegionService"],
    team_service_pb2.DESCRIPTOR.services_by_name["TeamService"],
    local_service_pb2.DESCRIPTOR.services_by_name["LocalService"],
    broker_service_pb2.DESCRIPTOR.services_by_name["BrokerService"],
]
METHODS = [method for service in SERVICES for method in service.methods]
# Every other code would be a crash, or a word that no RPC's comment promises.
PROMISED = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}
STREAM_S = 0.05  # how long a stream that goes on is listened to
some = settings(max_examples=25, suppress_health_check=list(HealthCheck))


class Bench:
    """A server with one run that trains, and a loop to call it on."""

    def __init__(self, runner: asyncio.Runner, rig: Rig) -> None:
        self.rig = rig
        self._runner = runner

    def call(self, method: Any, *requests: Message) -> grpc.StatusCode:
        """Call an RPC with a request, or the requests of a stream; return how it ended."""
        return self._runner.run(self._call(method, requests))

    async def _call(self, method: Any, requests: tuple[Message, ...]) -> grpc.StatusCode:
        path = f"/{method.containing_service.full_name}/{method.name}"
        answer = GetMessageClass(method.output_type)
        kinds: dict[tuple[bool, bool], Callable[..., Any]] = {
            (False, False): self.rig.channel.unary_unary,
            (False, True): self.rig.channel.unary_stream,
            (True, False): self.rig.channel.stream_unary,
        }
        make = kinds[method.client_streaming, method.server_streaming]
        rpc = make(path, type(requests[0]).SerializeToString, answer.FromString)
        given: Any = iter(requests) if method.client_streaming else requests[0]
        try:
            await self._ended(rpc(given), method.server_streaming)
        except grpc.RpcError as error:
            return _named(refusal_of(error))
        return grpc.StatusCode.OK

    async def _ended(self, call: Any, is_stream: bool) -> None:
        if not is_stream:
            await asyncio.wait_for(_awaited(call), 10)
            return
        try:
            async with asyncio.timeout(STREAM_S):
                async for _ in call:
                    pass
        except TimeoutError:
            call.cancel()

    def count(self) -> tuple[int, int]:
        """Return how many runs and events there are."""

        async def counted() -> tuple[int, int]:
            page = await self.rig.log.list_runs(RunQuery())
            return page.total, self.rig.run().stream_version

        return self._runner.run(counted())


def _named(refusal: Refusal) -> grpc.StatusCode:
    """Return the code of a refusal, which names a field if the request is at fault."""
    assert refusal.code is not grpc.StatusCode.INVALID_ARGUMENT or refusal.fields, refusal
    return refusal.code


async def _awaited(call: Awaitable[object]) -> object:
    return await call


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with asyncio.Runner() as runner:
        context = serving(tmp_path)
        rig = runner.run(context.__aenter__())
        try:
            runner.run(_train(rig))
            yield Bench(runner, rig)
        finally:
            runner.run(context.__aexit__(None, None, None))


async def _train(rig: Rig) -> None:
    await training(rig)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: str(method.name))
def test_any_request_is_answered_or_refused_with_a_reason(bench: Bench, method: Any) -> None:
    kind = GetMessageClass(method.input_type)
    requests = st.lists(messages(kind), min_size=1, max_size=3 if method.client_streaming else 1)

    @some
    @given(requests)
    def attacked(drawn: list[Message]) -> None:
        assert bench.call(method, *drawn) in PROMISED | {grpc.StatusCode.OK}

    attacked()


def test_a_damaged_submit_is_refused_by_its_field_or_makes_one_run(bench: Bench) -> None:
    submit = run_service_pb2.DESCRIPTOR.services_by_name["RunService"].methods_by_name["SubmitRun"]

    @settings(some, max_examples=150)
    @given(damaged(make_request()))
    def attacked(request: run_service_pb2.SubmitRunRequest) -> None:
        before = bench.count()[0]
        code = bench.call(submit, request)
        made = bench.count()[0] - before
        if code is grpc.StatusCode.OK:
            assert made == (0 if request.validate_only else 1) or request.request_id
        else:
            assert (code in PROMISED, made) == (True, 0)

    attacked()


SOUND: dict[str, Message] = {
    "AmendRun": run_service_pb2.AmendRunRequest(
        name=DIGITS, etag="1", terms=make_request().intent.terms
    ),
    "CancelRun": run_service_pb2.CancelRunRequest(name="teams/vision/runs/nobody", message="x"),
    "ForkRun": run_service_pb2.ForkRunRequest(name=DIGITS, step=7, intent=make_request().intent),
    "MarkCheckpoint": run_service_pb2.MarkCheckpointRequest(parent=DIGITS, step=7, label="x"),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_refused_change_changes_nothing(bench: Bench, name: str) -> None:
    method = SERVICES[0].methods_by_name[name]

    @some
    @given(damaged(SOUND[name]))
    def attacked(request: Message) -> None:
        before = bench.count()
        code = bench.call(method, request)
        assert code in PROMISED | {grpc.StatusCode.OK}
        if code is not grpc.StatusCode.OK:
            assert bench.count() == before

    attacked()
