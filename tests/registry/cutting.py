"""A line to a registry that breaks after so many bytes, as often as it is told to.

The rule: what went through before the break arrives; nothing after it does. Read ``Line.cut``.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Literal

from tests.registry.servers import Server

Way = Literal["up", "down"]


class Line:
    """``server`` is the registry as it is reached over this line; ``cuts`` were done."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.cuts = 0
        self._left: dict[Way, tuple[int, int]] = {}

    def cut(self, way: Way, after_bytes: int, times: int) -> None:
        """Break a connection that carried so many bytes ``up`` to the registry, or ``down``."""
        self._left[way] = (after_bytes, times)

    def breaks(self, way: Way, carried_bytes: int) -> bool:
        """Whether the connection that carried so many bytes ends here."""
        after_bytes, times = self._left.get(way, (0, 0))
        if times == 0 or carried_bytes < after_bytes:
            return False
        self._left[way] = (after_bytes, times - 1)
        self.cuts += 1
        return True


@asynccontextmanager
async def line_to(server: Server) -> AsyncIterator[Line]:
    """Have a line to a registry while the block lasts."""
    host, _, port = server.name.partition(":")

    async def carry(here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        there, onward = await asyncio.open_connection(host, int(port))
        with suppress(ConnectionError, ExceptionGroup):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(pump("up", here, onward))
                tasks.create_task(pump("down", there, back))
        for writer in (back, onward):
            writer.transport.abort()

    async def pump(way: Way, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        carried_bytes = 0
        while chunk := await source.read(1 << 16):
            target.write(chunk)
            await target.drain()
            carried_bytes += len(chunk)
            if line.breaks(way, carried_bytes):
                # What was written is to arrive first.
                await asyncio.sleep(0.1)
                raise ConnectionError
        raise ConnectionError

    listener = await asyncio.start_server(carry, "127.0.0.1", 0)
    name = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    line = Line(replace(server, name=name))
    async with listener:
        yield line
