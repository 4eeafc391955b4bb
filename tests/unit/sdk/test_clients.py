"""Both clients against a server that fails as servers do."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from broker.sdk import AsyncClient, Client, Fetch, Tail, Watch, aio, find, plain
from broker.sdk.errors import (
    AlreadyExists,
    BrokerError,
    Busy,
    Conflict,
    Damaged,
    Invalid,
    NotFound,
    PositionTooOld,
    ServerFault,
    TooLate,
    Unreachable,
    Violation,
)
from broker.sdk.settings import Settings
from broker.v1 import event_pb2, intent_pb2, run_pb2, run_service_pb2, run_service_pb2_grpc
from tests.service.rig import DIGITS, Rig, make_request, serving
from tests.service.told import training

Context = Any
GONE = grpc.StatusCode.UNAVAILABLE


class Flaky(run_service_pb2_grpc.RunServiceServicer):
    """A server that breaks off, and keeps what it was asked."""

    def __init__(self) -> None:
        self.failures: list[grpc.StatusCode] = []
        self.asked: list[Any] = []

    async def _fail(self, request: Any, context: Context) -> None:
        self.asked.append(request)
        if self.failures:
            await context.abort(self.failures.pop(0), "not now")

    async def GetRun(self, request: Any, context: Context) -> run_pb2.Run:  # noqa: N802
        await self._fail(request, context)
        return run_pb2.Run(name=request.name)

    async def SubmitRun(self, request: Any, context: Context) -> Any:  # noqa: N802
        await self._fail(request, context)
        return run_service_pb2.SubmitRunResponse(run=run_pb2.Run(name="teams/t/runs/r"))

    async def CancelRun(self, request: Any, context: Context) -> run_pb2.Run:  # noqa: N802
        await self._fail(request, context)
        return run_pb2.Run(name=request.name)

    async def WatchRun(self, request: Any, context: Context) -> AsyncIterator[Any]:  # noqa: N802
        """Tell two events a time, the last one twice, and break off."""
        self.asked.append(request)
        first = max(1, request.after_sequence)
        for sequence in (first, first + 1):
            event = event_pb2.Event(sequence=sequence)
            yield run_service_pb2.WatchRunResponse(event=event)
        if request.after_sequence < 4:
            await context.abort(GONE, "the server is stopping")

    async def TailLogs(self, request: Any, context: Context) -> AsyncIterator[Any]:  # noqa: N802
        self.asked.append(request)
        text = b"one\ntwo\n"
        piece = text[request.offset : request.offset + 4]
        yield run_service_pb2.TailLogsResponse(
            chunk=piece, next_offset=request.offset + len(piece), placement="p" * 12
        )
        if request.offset == 0:
            await context.abort(GONE, "the server is stopping")

    async def FetchCheckpoint(self, request: Any, context: Context) -> AsyncIterator[Any]:  # noqa: N802
        yield run_service_pb2.FetchCheckpointResponse(chunk=b"x")
        await context.abort(GONE, "the server is stopping")


@pytest.fixture
async def flaky(tmp_path: Path) -> AsyncIterator[Flaky]:
    server, servicer = grpc.aio.server(), Flaky()  # type: ignore[abstract]  # what it lacks answers UNIMPLEMENTED
    run_service_pb2_grpc.add_RunServiceServicer_to_server(servicer, server)
    server.add_insecure_port(f"unix:{tmp_path}/s")
    await server.start()
    yield servicer
    await server.stop(0)


@pytest.fixture
def found(tmp_path: Path) -> Settings:
    return find(
        server=f"unix:{tmp_path}/s", team="vision", user="ann", environ={"HOME": str(tmp_path)}
    )


Say = Callable[[Any], Any]


async def plainly(found: Settings, say: Say, **options: Any) -> Any:
    """Say something by the plain client, in a thread, for the server is in this loop."""

    def work() -> Any:
        with Client(found, **options) as client:
            said = say(client)
            return list(said) if isinstance(said, Iterator) else said

    return await asyncio.to_thread(work)


async def awaiting(found: Settings, say: Say, **options: Any) -> Any:
    """Say the same by the asynchronous client."""
    async with AsyncClient(found, **options) as client:
        said = say(client)
        return await said if inspect.isawaitable(said) else [one async for one in said]


both = pytest.mark.parametrize("speak", [plainly, awaiting])


@both
async def test_a_read_is_tried_again_until_it_is_answered(
    flaky: Flaky, found: Settings, speak: Any
) -> None:
    flaky.failures = [GONE, grpc.StatusCode.RESOURCE_EXHAUSTED]
    told: list[BrokerError] = []
    run = await speak(found, lambda client: client.runs.get("x"), on_retry=told.append)
    assert run.name == "x"
    assert [type(error) for error in told] == [Unreachable, Busy]
    assert len(flaky.asked) == 3


@both
async def test_a_submit_is_repeated_with_the_same_request_id(
    flaky: Flaky, found: Settings, speak: Any
) -> None:
    flaky.failures = [GONE]
    await speak(found, lambda client: client.runs.submit("t", intent_pb2.Intent()))
    ids = [request.request_id for request in flaky.asked]
    assert len(ids) == 2
    assert ids[0] == ids[1] != ""


@both
async def test_what_might_be_done_twice_is_not_repeated(
    flaky: Flaky, found: Settings, speak: Any
) -> None:
    flaky.failures = [GONE]
    with pytest.raises(Unreachable):
        await speak(found, lambda client: client.runs.cancel("x", grace_s=1.5))
    assert [request.grace_period.nanos for request in flaky.asked] == [500_000_000]


@both
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.DEADLINE_EXCEEDED, TooLate),
        (grpc.StatusCode.ABORTED, Conflict),
        (grpc.StatusCode.DATA_LOSS, Damaged),
        (grpc.StatusCode.OUT_OF_RANGE, PositionTooOld),
        (grpc.StatusCode.INTERNAL, ServerFault),
    ],
)
async def test_what_will_not_pass_is_told_at_once(
    flaky: Flaky, found: Settings, speak: Any, code: grpc.StatusCode, kind: type[BrokerError]
) -> None:
    flaky.failures = [code]
    with pytest.raises(kind):
        await speak(found, lambda client: client.runs.get("x"))
    assert len(flaky.asked) == 1


@both
async def test_a_watch_goes_on_where_it_was_and_tells_nothing_twice(
    flaky: Flaky, found: Settings, speak: Any
) -> None:
    events = await speak(found, lambda client: client.follow(Watch("x")))
    assert [event.sequence for event in events] == [1, 2, 3, 4, 5]
    assert [request.after_sequence for request in flaky.asked] == [0, 2, 3, 4]


@both
async def test_a_tail_goes_on_in_the_same_placement(
    flaky: Flaky, found: Settings, speak: Any
) -> None:
    chunks = await speak(found, lambda client: client.follow(Tail("x")))
    assert b"".join(chunks) == b"one\ntwo\n"
    assert [(r.offset, r.placement) for r in flaky.asked] == [(0, ""), (4, "p" * 12)]


@both
async def test_a_fetch_that_broke_off_is_not_patched_together(
    flaky: Flaky, found: Settings, speak: Any
) -> None:
    with pytest.raises(Damaged, match="fetch it anew"):
        await speak(found, lambda client: client.follow(Fetch("x")))
    assert not flaky.asked


@both
async def test_where_nobody_listens_it_says_so_in_time(found: Settings, speak: Any) -> None:
    with pytest.raises(Unreachable, match="no broker answers at unix:"):
        await speak(found, lambda client: client.runs.get("x"), retry_for_s=0.3)
    with pytest.raises(Unreachable):
        await speak(found, lambda client: client.follow(Watch("x")), retry_for_s=0)


def test_both_clients_know_the_same_words() -> None:
    for one, other in (
        (plain.Runs, aio.Runs),
        (plain.Regions, aio.Regions),
        (plain.Teams, aio.Teams),
    ):
        words = {name for name in vars(one) if not name.startswith("_")}
        assert words == {name for name in vars(other) if not name.startswith("_")}
        assert words


# ---- Against the real service ----------------------------------------------------------------


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with serving(tmp_path) as rig:
        yield rig


@both
async def test_errors_carry_the_reason_and_the_fields(
    rig: Rig, found: Settings, speak: Any
) -> None:
    with pytest.raises(NotFound) as missing:
        await speak(found, lambda client: client.runs.get(DIGITS))
    assert (missing.value.reason, missing.value.field) == ("NOT_FOUND", "")
    bad = make_request(workload=intent_pb2.Workload(env={"BROKER_RUN": "x"}, image="a b"))
    with pytest.raises(Invalid) as invalid:
        await speak(found, lambda client: client.runs.submit("vision", bad.intent))
    assert invalid.value.reason == "INVALID_FIELD"
    assert [v.field for v in invalid.value.violations] == [
        "intent.workload.image",
        "intent.workload.env",
    ]
    assert isinstance(invalid.value.violations[0], Violation)
    intent = make_request().intent
    await speak(found, lambda client: client.runs.submit("vision", intent, run_id="digits"))
    with pytest.raises(AlreadyExists):
        await speak(found, lambda client: client.runs.submit("vision", intent, run_id="digits"))


@both
async def test_who_asks_is_written_down(rig: Rig, found: Settings, speak: Any) -> None:
    intent = make_request().intent
    run = await speak(found, lambda client: client.runs.submit("vision", intent))
    assert run.intent.owner == "ann"


@both
async def test_pages_are_read_to_the_end_or_to_the_limit(
    rig: Rig, found: Settings, speak: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.sdk.runs.PAGE", 2)
    for number in range(5):
        await rig.submit(f"r{number}")
    listed = await speak(found, lambda c: c.runs.find("vision", order_by="name"))
    assert [run.name[-2:] for run in listed.runs] == ["r0", "r1", "r2", "r3", "r4"]
    assert listed.next_page_token == ""
    listed = await speak(found, lambda c: c.runs.find("vision", order_by="name", limit=3))
    assert [run.name[-2:] for run in listed.runs] == ["r0", "r1", "r2"]
    assert listed.total_size == 5


@both
async def test_a_bundle_is_sent_once(rig: Rig, found: Settings, speak: Any, tmp_path: Path) -> None:
    from broker.sdk import pack

    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "noise").write_bytes(os.urandom(900_000))
    with pack(tmp_path / "w") as packed:
        stored = await speak(found, lambda c: c.runs.upload_bundle("vision", packed))
        assert (stored.digest, stored.size_bytes) == (packed.digest, packed.size_bytes)
        path = rig.bundles / f"{packed.digest}.tar.gz"
        before = path.stat()
        await speak(found, lambda c: c.runs.upload_bundle("vision", packed))
        assert path.stat().st_mtime_ns == before.st_mtime_ns


@both
async def test_a_timeline_and_checkpoints_are_read_whole(
    rig: Rig, found: Settings, speak: Any
) -> None:
    await training(rig)
    whole = await speak(found, lambda c: c.runs.timeline(DIGITS))
    assert [event.sequence for event in whole.events] == list(range(1, len(whole.events) + 1))
    one = await speak(found, lambda c: c.runs.timeline(DIGITS, limit=1))
    assert [event.sequence for event in one.events] == [1]
    steps = await speak(found, lambda c: c.runs.checkpoints(DIGITS))
    assert [checkpoint.step for checkpoint in steps] == [100]


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    """A status, and the help, need neither tables nor YAML nor retries nor patterns."""
    code = (
        "import sys; from broker.cli.main import main; main(['--help']);"
        "import broker.cli.status;"
        "heavy = {'rich', 'yaml', 'tenacity', 'pathspec', 'google.rpc', 'grpc_status'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert done.stdout.decode().splitlines()[-1] == "[]"


def test_the_training_side_loads_nothing_of_the_client() -> None:
    code = (
        "import sys; import broker.sdk.training;"
        "print(sorted({'grpc', 'google.protobuf', 'broker.sdk.plain'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert done.stdout.decode().strip() == "[]"
