"""What follows from looks is done beside them, and what did not succeed is tried again later."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from regions.kueue.manifest import JOBSET_API, occupant
from regions.kueue.upkeep import AGAIN_S, WITHIN_S
from tests.unit.regions.kueue.kube import Json
from tests.unit.regions.kueue.ports import ported, seen
from tests.unit.regions.kueue.servers import Server, serving
from tests.unit.regions.kueue.test_sight import OURS, Cluster, until

GANGS = f"/apis/{JOBSET_API}/namespaces/{OURS}/jobsets"


class Busy(Cluster):
    """Holds a name that was taken long ago, and is slow to remove it, or refuses to."""

    def __init__(self) -> None:
        super().__init__()
        self.free = asyncio.Event()
        self.removals = 0
        self.objects[GANGS] = [taken("p1")]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "DELETE":
            return await super().answer(request)
        self.removals += 1
        await self.free.wait()
        return web.json_response({"message": "not now"}, status=503)


def taken(placement: str) -> Json:
    """A name that is taken since the beginning of time."""
    body = occupant(placement, "run1", OURS)
    body["metadata"] |= {
        "uid": f"uid-{placement}",
        "resourceVersion": "1",
        "creationTimestamp": "1970-01-01T00:00:00Z",
    }
    return body


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as found:
        yield found


async def test_a_look_waits_for_nothing_that_follows_from_one(
    server: Server, tmp_path: Path
) -> None:
    busy = Busy()
    async with ported(server, busy, tmp_path) as port:
        await seen(port)
        await until(lambda: busy.removals == 1)
        async with asyncio.timeout(WITHIN_S - 1.0):
            assert "p1" in (await port.observe()).placements
        busy.free.set()


async def test_what_was_refused_is_tried_again_and_not_at_once(
    server: Server, tmp_path: Path
) -> None:
    busy = Busy()
    busy.free.set()
    async with ported(server, busy, tmp_path) as port:
        await seen(port)
        await until(lambda: busy.removals == 1)
        for _ in range(5):
            await port.observe()
            await asyncio.sleep(0)
        assert busy.removals == 1
        server.clock.now_s += AGAIN_S["go"]
        await port.observe()
        await until(lambda: busy.removals == 2)
