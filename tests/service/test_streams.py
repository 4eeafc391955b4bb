"""What streams over the wire: events, logs, files, bundles."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from dataclasses import replace

import grpc
import grpc.aio
import pytest

from broker.history.commands import AcceptRun, MarkCheckpoint
from broker.history.refusals import Code, Refused
from broker.model.actor import Actor
from broker.model.reasons import Reason
from broker.model.run import Progress
from broker.service.edge import Send, Streams, streaming
from broker.v1 import event_pb2, run_service_pb2
from tests.service.rig import DIGITS, VISION, Refusal, Rig, refusal_of
from tests.service.told import training

Update = run_service_pb2.WatchRunResponse
INVALID = grpc.StatusCode.INVALID_ARGUMENT
EMPTY = hashlib.sha256(b"").hexdigest()


async def all_refused(call: AsyncIterable[object]) -> Refusal:
    with pytest.raises(grpc.RpcError) as caught:
        await asyncio.wait_for(drain(call), 10)
    return refusal_of(caught.value)


async def drain(call: AsyncIterable[object]) -> None:
    async for _ in call:
        pass


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what comes about in a task that the test does not hold."""
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


async def take(call: AsyncIterable[Update], count: int) -> list[event_pb2.Event]:
    """Return the next events, live progress left out."""
    found: list[event_pb2.Event] = []
    async with asyncio.timeout(10):
        async for update in call:
            if update.HasField("event"):
                found.append(update.event)
            if len(found) == count:
                break
    return found


async def test_a_watch_tells_what_was_and_what_comes_each_once_and_in_order(rig: Rig) -> None:
    await training(rig)
    last = rig.run().stream_version
    call = rig.runs.WatchRun(run_service_pb2.WatchRunRequest(name=DIGITS))
    assert [e.sequence for e in await take(call, last)] == list(range(1, last + 1))
    mark = MarkCheckpoint(step=100, label="best")
    await rig.tell(mark)
    assert [e.sequence for e in await take(call, 1)] == [last + 1]
    call.cancel()
    await rig.tell(replace(mark, label="worst"))
    again = rig.runs.WatchRun(run_service_pb2.WatchRunRequest(name=DIGITS, after_sequence=last))
    assert [e.sequence for e in await take(again, 2)] == [last + 1, last + 2]


async def test_every_event_has_a_sentence_and_who_did_it(rig: Rig) -> None:
    await training(rig, sealed=True)
    count = rig.run().stream_version
    call = rig.runs.WatchRun(run_service_pb2.WatchRunRequest(name=DIGITS))
    events = await take(call, count)
    assert [e.type for e in events if not e.message or not e.actor.name] == []
    granted = next(e for e in events if e.type == event_pb2.EVENT_TYPE_GRANTED)
    assert granted.message == "start 1 may begin, from the beginning"
    sealed = next(e for e in events if e.type == event_pb2.EVENT_TYPE_SEALED)
    assert (list(sealed.sealed_steps), len(sealed.ends)) == ([100], 2)


async def test_a_watch_until_the_end_ends_with_the_run(rig: Rig) -> None:
    await rig.submit()
    await rig.tell(AcceptRun())
    request = run_service_pb2.WatchRunRequest(name=DIGITS, until_ended=True)
    call = rig.runs.WatchRun(request)
    await take(call, 2)
    await rig.runs.CancelRun(run_service_pb2.CancelRunRequest(name=DIGITS))
    rest = [update.event async for update in call]
    assert rest[-1].sequence == rig.run().stream_version
    request.after_sequence = rest[-1].sequence
    assert [update async for update in rig.runs.WatchRun(request)] == []


async def test_live_progress_comes_between_events_and_has_no_sequence(rig: Rig) -> None:
    await training(rig)
    rig.loops.reports[DIGITS] = Progress(epoch=1, step=777, loss=0.25, at_s=1.0, at_wall_s=2.0)
    request = run_service_pb2.WatchRunRequest(name=DIGITS, after_sequence=rig.run().stream_version)
    async with asyncio.timeout(10):
        update = await anext(aiter(rig.runs.WatchRun(request)))
    assert (update.progress.step, update.progress.loss) == (777, 0.25)


async def test_a_watch_beyond_the_log_is_out_of_range(rig: Rig) -> None:
    await rig.submit()
    request = run_service_pb2.WatchRunRequest(name=DIGITS, after_sequence=99)
    assert await all_refused(rig.runs.WatchRun(request)) == Refusal(
        grpc.StatusCode.OUT_OF_RANGE, "POSITION_TOO_OLD", ("after_sequence",)
    )


async def test_many_watchers_that_go_away_leave_nothing_behind(rig: Rig) -> None:
    await rig.submit()
    before = len(asyncio.all_tasks())
    for _ in range(20):
        call = rig.runs.WatchRun(run_service_pb2.WatchRunRequest(name=DIGITS))
        await take(call, 1)
        call.cancel()
    del call
    await until(lambda: len(asyncio.all_tasks()) <= before)


async def test_a_server_that_stops_tells_its_watchers_to_come_back(rig: Rig) -> None:
    await rig.submit()
    call = rig.runs.WatchRun(run_service_pb2.WatchRunRequest(name=DIGITS))
    await take(call, 1)
    await rig.server.stop(grace_s=5.0)
    assert await all_refused(call) == Refusal(grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")


async def test_logs_come_from_the_placement_that_started_last(rig: Rig) -> None:
    await training(rig)
    placement = rig.run().epochs[0].placement
    rig.loops.written[placement, 1] = b"line\n" * 100_000
    request = run_service_pb2.TailLogsRequest(name=DIGITS, rank=1)
    parts = [part async for part in rig.runs.TailLogs(request)]
    assert b"".join(part.chunk for part in parts) == b"line\n" * 100_000
    assert ([p.next_offset for p in parts], parts[0].placement) == ([262_144, 500_000], placement)
    request.offset = -5
    assert [part.chunk async for part in rig.runs.TailLogs(request)] == [b"line\n"]
    request.rank = 2
    assert (await all_refused(rig.runs.TailLogs(request))).reason == "NOT_FOUND"
    request.placement = "nobody000000"
    assert (await all_refused(rig.runs.TailLogs(request))).reason == "NOT_FOUND"


async def test_logs_of_a_run_that_never_started_are_not_found(rig: Rig) -> None:
    await rig.submit()
    request = run_service_pb2.TailLogsRequest(name=DIGITS)
    assert (await all_refused(rig.runs.TailLogs(request))).code is grpc.StatusCode.NOT_FOUND


async def test_a_checkpoint_is_fetched_as_files_or_as_a_folder(rig: Rig) -> None:
    await training(rig)
    rig.loops.files = {"rank-0.bin": b"x" * 300_000, ".complete": b"{}"}
    request = run_service_pb2.FetchCheckpointRequest(parent=DIGITS, step=100)
    parts = [part async for part in rig.runs.FetchCheckpoint(request)]
    assert parts[0].checkpoint.step == 100
    assert [p.file.path for p in parts if p.HasField("file")] == ["rank-0.bin", ".complete"]
    assert sum(len(p.chunk) for p in parts) == 300_002
    rig.loops.folder, request.prefer_local_path = "/stores/alpha/x", True
    assert [p.local_path async for p in rig.runs.FetchCheckpoint(request)][-1] == "/stores/alpha/x"
    request.region = "gamma"
    assert await all_refused(rig.runs.FetchCheckpoint(request)) == Refusal(
        INVALID, "INVALID_FIELD", ("region",)
    )
    request.step = 5
    assert (await all_refused(rig.runs.FetchCheckpoint(request))).fields == ("step",)


def upload(
    content: bytes, *, digest: str | None = None, size: int | None = None, chunk: int = 100_000
) -> Iterator[run_service_pb2.UploadBundleRequest]:
    header = run_service_pb2.BundleHeader(
        parent=VISION,
        digest=digest or hashlib.sha256(content).hexdigest(),
        size_bytes=len(content) if size is None else size,
    )
    yield run_service_pb2.UploadBundleRequest(header=header)
    for at in range(0, len(content), chunk):
        yield run_service_pb2.UploadBundleRequest(chunk=content[at : at + chunk])


async def test_a_bundle_is_kept_under_its_own_digest(rig: Rig) -> None:
    content = bytes(range(256)) * 5_000
    bundle = await rig.runs.UploadBundle(upload(content))
    assert (bundle.digest, bundle.size_bytes) == (hashlib.sha256(content).hexdigest(), 1_280_000)
    assert (rig.bundles / f"{bundle.digest}.tar.gz").read_bytes() == content
    got = await rig.runs.GetBundle(run_service_pb2.GetBundleRequest(name=bundle.name))
    assert got == bundle
    header_only = list(upload(content))[:1]
    assert await rig.runs.UploadBundle(iter(header_only)) == bundle


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        (list(upload(b"abc", digest=EMPTY)), "header.digest"),
        (list(upload(b"abc", digest="../../etc/passwd")), "header.digest"),
        (list(upload(b"abc", size=2)), "chunk"),
        (list(upload(b"abc", size=4)), "chunk"),
        (list(upload(b"abc", size=0)), "header.size_bytes"),
        (list(upload(b"abc", size=10**12)), "header.size_bytes"),
        (list(upload(b"x" * 2_000_000, chunk=1_500_000)), "chunk"),
        (list(upload(b"abc"))[1:], "header"),
        ([], "header"),
        (list(upload(b"abc"))[:1] * 2, "chunk"),
    ],
)
async def test_a_bundle_that_is_not_what_it_says_leaves_nothing(
    rig: Rig, parts: list[run_service_pb2.UploadBundleRequest], field: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        await asyncio.wait_for(rig.runs.UploadBundle(iter(parts)), 10)
    assert refusal_of(caught.value) == Refusal(INVALID, "INVALID_FIELD", (field,))
    assert list(rig.bundles.iterdir()) == []


async def test_an_upload_that_is_broken_off_leaves_nothing(rig: Rig) -> None:
    gate = asyncio.Event()

    async def stall() -> AsyncIterator[run_service_pb2.UploadBundleRequest]:
        for part in list(upload(b"x" * 500_000))[:3]:
            yield part
        gate.set()
        await asyncio.Event().wait()

    call = rig.runs.UploadBundle(stall())
    await asyncio.wait_for(gate.wait(), 10)
    call.cancel()
    await until(lambda: not list(rig.bundles.iterdir()))


async def _sent(send: Send[bytes], message: bytes) -> None:
    await send(message)


class Broken:
    """A service whose stream is refused while its first message is on its way."""

    def __init__(self) -> None:
        self.streams = Streams()

    @streaming
    async def answer(self, request: bytes, actor: Actor, send: Send[bytes]) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_sent(send, request))
            await asyncio.sleep(0)
            raise Refused(Reason.TOKEN_NOT_VALID, "no more", code=Code.UNAUTHENTICATED)


async def test_a_stream_that_is_refused_within_its_first_message_ends_at_the_client() -> None:
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_stream_rpc_method_handler(
        Broken().answer
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("broker", {"answer": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            answers: grpc.aio.UnaryStreamMultiCallable[bytes, bytes]
            answers = channel.unary_stream("/broker/answer")
            assert (await all_refused(answers(b"first"))).reason == Reason.TOKEN_NOT_VALID
    finally:
        await server.stop(0)
