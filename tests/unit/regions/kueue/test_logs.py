"""The output of a rank by positions, over an API that knows only times."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web

from regions.cluster import ClusterUnreachableError, NoSuchLogError
from regions.kueue.logs import END_BYTES, Logs, Printer
from regions.kueue.members import Member
from tests.unit.regions.kueue.servers import Server, serving

PATH = "/api/v1/namespaces/training/pods/p-0/log"


def member(**changes: object) -> Member:
    known = {
        "uid": "uid-0",
        "key": "training/p-0",
        "gang": "g",
        "rank": 0,
        "node": "n",
        "node_uid": "",
        "created_s": 0.0,
        "bound_s": None,
    }
    return Member(**{**known, **changes})  # type: ignore[arg-type]


@dataclass(slots=True)
class Kubelet:
    """What a container printed, line by line with its time, as a kubelet tells it."""

    lines: list[tuple[str, bytes]] = field(default_factory=list)
    is_over: bool = True
    status: int = 200
    asked: list[dict[str, str]] = field(default_factory=list)
    drops_after: int = 0
    printer: Printer = field(default_factory=lambda: Printer(member=member(), is_over=True))

    def find(self, placement: str, _: int) -> Printer:
        if placement != "p1":
            raise NoSuchLogError(placement)
        return self.printer

    def prints(self, *lines: bytes, second: int = 1) -> None:
        start = len(self.lines)
        self.lines += [
            (f"2026-11-01T00:00:{second:02d}.{start + at:09d}Z", line)
            for at, line in enumerate(lines)
        ]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        assert request.path == PATH
        query = dict(request.query)
        self.asked.append(query)
        if self.status != 200:
            return web.json_response({"message": "waiting to start"}, status=self.status)
        # A kubelet is told whole seconds only.
        since = query.get("sinceTime", "")[:19]
        response = web.StreamResponse()
        await response.prepare(request)
        told = 0
        while True:
            known = [each for each in self.lines if each[0][:19] >= since]
            for stamp, line in known[told:]:
                await response.write(stamp.encode() + b" " + line)
                told += 1
                if self.drops_after and told >= self.drops_after:
                    self.drops_after = 0
                    await response.write_eof()
                    return response
            if self.is_over or "follow" not in query:
                await response.write_eof()
                return response
            await asyncio.sleep(0.01)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as found:
        yield found


def reading(server: Server, kubelet: Kubelet) -> Logs:
    server.answer = kubelet.answer
    return Logs(server.api(), server.clock, kubelet.find)


async def read(found: Logs, offset: int, follow: bool = False) -> list[tuple[int, bytes]]:
    return [chunk async for chunk in found.read("p1", 0, offset, follow)]


@pytest.mark.parametrize(
    ("offset", "told"),
    [
        (0, [(14, b"one\ntwo\nthree\n")]),
        (4, [(14, b"two\nthree\n")]),
        (5, [(14, b"wo\nthree\n")]),
        (14, []),
        (99, []),
        (-6, [(14, b"three\n")]),
        (-8, [(14, b"o\nthree\n"[-8:])]),
        (-100, [(14, b"one\ntwo\nthree\n")]),
    ],
)
async def test_any_position_is_found(
    server: Server, offset: int, told: list[tuple[int, bytes]]
) -> None:
    kubelet = Kubelet()
    kubelet.prints(b"one\n", b"two\n", b"three\n")
    assert await read(reading(server, kubelet), offset) == told


async def test_no_more_of_the_end_is_held_than_may_be(server: Server) -> None:
    kubelet = Kubelet()
    kubelet.prints(*(b"x" * 999_999 + b"\n" for _ in range(10)))
    ((at, told),) = await read(reading(server, kubelet), -(1 << 62))
    assert (at, len(told)) == (10_000_000, END_BYTES)


async def test_who_comes_back_with_a_position_is_served_from_its_time(server: Server) -> None:
    kubelet = Kubelet()
    kubelet.prints(b"one\n", b"two\n")
    found = reading(server, kubelet)
    assert await read(found, 0) == [(8, b"one\ntwo\n")]
    # The node has begun a new file: what was told is not there any more.
    del kubelet.lines[0]
    kubelet.prints(b"three\n")
    assert await read(found, 8) == [(14, b"three\n")]
    assert kubelet.asked[-1]["sinceTime"].startswith("2026-11-01T00:00:01.000000001")


async def test_lines_of_one_time_are_told_once_each(server: Server) -> None:
    kubelet = Kubelet()
    at = "2026-11-01T00:00:01.000000005Z"
    kubelet.lines = [(at, b"a\n"), (at, b"b\n")]
    found = reading(server, kubelet)
    assert await read(found, 0) == [(4, b"a\nb\n")]
    kubelet.lines += [(at, b"c\n")]
    assert await read(found, 4) == [(6, b"c\n")]


async def test_a_position_beyond_what_the_node_keeps_is_its_end(server: Server) -> None:
    kubelet = Kubelet()
    kubelet.prints(b"kept\n")
    found = reading(server, kubelet)
    assert await read(found, 1000) == []
    kubelet.prints(b"new\n", second=2)
    assert await read(found, 1000) == [(1004, b"new\n")]


async def test_a_log_is_followed_over_a_connection_that_broke(server: Server) -> None:
    kubelet = Kubelet(is_over=False, drops_after=1)
    kubelet.printer = Printer(member=member(), is_over=False)
    kubelet.prints(b"one\n", b"two\n")
    found = reading(server, kubelet)
    got = []
    async for chunk in found.read("p1", 0, 0, True):
        got.append(chunk)
        if chunk[0] == 8:
            kubelet.prints(b"three\n", second=3)
            kubelet.is_over = True
            kubelet.printer = Printer(member=member(left_s=1.0), is_over=True)
    assert b"".join(data for _, data in got) == b"one\ntwo\nthree\n"
    assert got[-1][0] == 14


async def test_a_line_without_an_end_is_told_too(server: Server) -> None:
    kubelet = Kubelet()
    kubelet.prints(b"one\n", b"half")
    assert await read(reading(server, kubelet), 0) == [(8, b"one\nhalf")]


async def test_what_is_kept_nowhere_has_no_log(server: Server) -> None:
    kubelet = Kubelet(status=404)
    found = reading(server, kubelet)
    with pytest.raises(NoSuchLogError):
        await read(found, 0)
    with pytest.raises(NoSuchLogError):
        await anext(found.read("p9", 0, 0, False))


@pytest.mark.parametrize("status", [404, 500])
async def test_the_last_words_of_what_is_gone_are_told(server: Server, status: int) -> None:
    kubelet = Kubelet(status=status)
    last = member(left_s=1.0, last_words="Traceback: boom\n")
    kubelet.printer = Printer(member=last, is_over=True)
    found = reading(server, kubelet)
    assert await read(found, 0, follow=True) == [(16, b"Traceback: boom\n")]
    assert await read(found, -5) == [(16, b"boom\n")]
    assert await read(found, 16) == []


async def test_a_container_that_has_not_begun_has_printed_nothing(server: Server) -> None:
    kubelet = Kubelet(status=400)
    assert await read(reading(server, kubelet), 0) == []
    kubelet.printer = Printer(member=None, is_over=False)
    assert await read(reading(server, kubelet), 0) == []


async def test_a_cluster_that_does_not_answer_is_said_to_be_silent(server: Server) -> None:
    server.deadlines = replace(server.deadlines, call_s=0.05)
    kubelet = Kubelet(is_over=False)

    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    found = reading(server, kubelet)
    server.answer = hang
    with pytest.raises(ClusterUnreachableError):
        await read(found, 0)
