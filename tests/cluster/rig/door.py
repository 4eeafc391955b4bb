"""The way from a broker to a region's API server, which can be slowed, silenced, cut or half open.

The rule: the region itself goes on behind it: Kueue admits, pods run. That is what a broker that
is cut off has to live with, and it is not what a stopped API server does. Each door is a thread
with a loop of its own, so that faults are plain calls. Read ``Door.fault``.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from enum import StrEnum

CHUNK = 65_536


class Fault(StrEnum):
    """What happens to bytes at the door."""

    NONE = "NONE"
    SILENT = "SILENT"  # connections stand, nothing moves; new ones are accepted and hang
    DEAF = "DEAF"  # what is asked arrives, what is answered is lost
    CLOSED = "CLOSED"  # connections are reset, new ones too


class Door:
    """A relay from a port of loopback to another one."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self._target = target
        self._fault = Fault.NONE
        self._delay_s = 0.0
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_open = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"door-{port}", daemon=True)
        self._server: asyncio.Server | None = None
        self._serving = threading.Event()
        self._failure: OSError | None = None

    def open(self) -> None:
        """Begin to listen; return once connections are taken."""
        self._thread.start()
        self._serving.wait()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Stop listening and cut every connection."""
        if not self._thread.is_alive():
            return
        self._call(self._cut)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def fault(self, fault: Fault) -> None:
        """Have a fault from now on, or none. Connections of before keep what they lost."""

        def change() -> None:
            self._fault = fault
            if fault is Fault.CLOSED:
                self._cut()
            if fault is Fault.SILENT:
                self._is_open.clear()
            else:
                self._is_open.set()

        self._call(change)

    def slow(self, delay_s: float) -> None:
        """Hold back every piece, in both directions, for so long."""
        self._delay_s = delay_s

    def cut(self) -> None:
        """Reset the connections that stand now, watches among them."""
        self._call(self._cut)

    def _call(self, change: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            change()
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait(10)

    def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._is_open.set()
        try:
            self._server = self._loop.run_until_complete(
                asyncio.start_server(self._serve, "127.0.0.1", self.port)
            )
        except OSError as error:
            self._failure = error
            self._serving.set()
            return
        self._serving.set()
        self._loop.run_forever()
        self._server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self._fault is Fault.CLOSED:
                return
            await self._is_open.wait()
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(inner_writer)
            try:
                asking = asyncio.ensure_future(self._pass(reader, inner_writer, is_answer=False))
                answering = asyncio.ensure_future(self._pass(inner_reader, writer, is_answer=True))
                await asyncio.wait({asking, answering}, return_when=asyncio.FIRST_COMPLETED)
                for task in (asking, answering):
                    task.cancel()
                await asyncio.gather(asking, answering, return_exceptions=True)
            finally:
                self._writers.discard(inner_writer)
                inner_writer.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass  # the API server is away, or the door closes: to who asks it is a reset
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await self._is_open.wait()
                if is_answer and self._fault is Fault.DEAF:
                    continue
                writer.write(chunk)
                await writer.drain()
