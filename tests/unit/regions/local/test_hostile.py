"""A cluster's socket with somebody else behind it: every lie ends in one error, in time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from regions.cluster import Cause, ClusterUnreachableError, Outcome, Withdraw
from regions.launcher.store import DirectoryStore
from regions.local import wire
from regions.local.client import Deadlines, LocalCluster

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]
WITHDRAW = Withdraw(placement="p1", run_key="run1", uid="", epoch=None, is_closed=False)
SOON = Deadlines(call_s=0.5, store_s=30.0, gate_fresh_s=5.0)


def framed(raw: bytes) -> bytes:
    return len(raw).to_bytes(4, "big") + raw


def raw_answer(raw: bytes) -> Answer:
    def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        writer.write_eof()

    return answer


async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write((wire.MAX_FRAME_BYTES).to_bytes(4, "big"))
    while not writer.is_closing():
        writer.write(b"[" * 65536)
        await writer.drain()
        await asyncio.sleep(0.01)


async def mute(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


LIES = {
    "garbage": raw_answer(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "nothing": raw_answer(b""),
    "half a length": raw_answer(b"\0\0"),
    "half a frame": raw_answer(b"\0\0\0\x10{}"),
    "too much": raw_answer(b"\xff\xff\xff\xff"),
    "no value": raw_answer(framed(b"null")),
    "depth": raw_answer(framed(b"[" * 200_000)),
    "half a character": raw_answer(framed(b'{"type":"failed","message":"\\ud800"}')),
    "another type": raw_answer(
        framed(msgspec.json.encode(wire.LogChunk(offset=0, data=b"", is_last=True)))
    ),
    "a wrong field": raw_answer(framed(b'{"type":"observed","instance":1}')),
    "endless": endless,
    "mute": mute,
}


@asynccontextmanager
async def behind(answer: Answer, root: Path) -> AsyncIterator[LocalCluster]:
    DirectoryStore.create(str(root / "store"))

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            told = answer(reader, writer)
            if asyncio.iscoroutine(told):
                await told
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_unix_server(converse, root / "socket")
    async with server:
        yield LocalCluster(
            cluster="west",
            region="eu-west4",
            socket=root / "socket",
            store=DirectoryStore(str(root / "store")),
            deadlines=SOON,
        )


@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_is_a_silence(lie: str, tmp_path: Path) -> None:
    async with behind(LIES[lie], tmp_path) as cluster:
        with pytest.raises(ClusterUnreachableError):
            await cluster.observe()
        (outcome,) = await cluster.apply((WITHDRAW,))
        assert (outcome.is_done, outcome.cause) == (False, Cause.UNKNOWN)
        assert outcome.retry_after_s is not None
        if lie != "another type":
            with pytest.raises(ClusterUnreachableError):
                [one async for one in cluster.logs("p1", 0, 0, follow=False)]


@pytest.mark.parametrize(
    "chunk",
    [
        wire.LogChunk(offset=0, data=b"again", is_last=False),
        wire.LogChunk(offset=-7, data=b"again", is_last=False),
        wire.LogChunk(offset=1 << 40, data=b"x" * (wire.MAX_LOG_CHUNK_BYTES + 1), is_last=False),
    ],
    ids=["the same", "backwards", "too much"],
)
async def test_a_log_goes_forward_in_pieces_or_ends(chunk: wire.LogChunk, tmp_path: Path) -> None:
    answer = raw_answer(framed(msgspec.json.encode(chunk)))
    async with behind(answer, tmp_path) as cluster:
        with pytest.raises(ClusterUnreachableError):
            [one async for one in cluster.logs("p1", 0, 0, follow=True)]


async def test_a_refusal_in_so_many_words_is_passed_on(tmp_path: Path) -> None:
    done = wire.Done(is_done=False, cause=Cause.REFUSED, message="no", retry_after_s=None)
    async with behind(raw_answer(framed(msgspec.json.encode(done))), tmp_path) as cluster:
        assert await cluster.apply((WITHDRAW,)) == (
            Outcome(is_done=False, cause=Cause.REFUSED, message="no"),
        )
