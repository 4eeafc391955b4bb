"""The socket of an embedded cluster.

The rule: one connection, one question, one answer. In an outage a question hangs and then ends
without an answer, as questions to a dead control plane do; faults are heard all the same, or
nobody could end it. Read ``Server.serve`` first.
"""

import asyncio
import logging
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import assert_never

from regions.cluster import Outcome
from regions.local import clock, wire
from regions.local.daemon import Daemon

MAX_PATH_BYTES = 107
"""What a Unix socket's address can hold."""
READ_S = 10.0
"""How long a connection may take to ask its question."""

log = logging.getLogger(__name__)


class BadSocketError(Exception):
    """The socket cannot be made where it was asked for; the message says why."""


class Server:
    """Answers at ``path`` for one daemon."""

    def __init__(self, daemon: Daemon, path: Path) -> None:
        self._daemon = daemon
        self._path = path

    async def serve(self) -> asyncio.Server:
        """Begin to listen, for the owner alone. Raises BadSocketError."""
        path = self._path
        if len(os.fsencode(path)) > MAX_PATH_BYTES:
            raise BadSocketError(f"{path}: a socket's path has at most {MAX_PATH_BYTES} bytes")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.parent.stat()
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise BadSocketError(f"{path.parent}: must belong to this user alone (mode 0700)")
        # The directory's lock says that no other daemon lives: a socket found here is a dead one's.
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._converse, path)
        path.chmod(0o600)
        return server

    def remove(self) -> None:
        """Remove the socket, and its directory if that leaves it empty."""
        self._path.unlink(missing_ok=True)
        with suppress(OSError):
            self._path.parent.rmdir()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_S):
                request = await wire.read_request(reader)
            if await self._is_heard(request):
                await wire.write(writer, await self._answer(request))
        except wire.BadFrameError as error:
            with suppress(OSError):
                await wire.write(writer, wire.Failed(message=str(error)))
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            pass  # The other side went, or never asked.
        finally:
            writer.close()

    async def _is_heard(self, request: wire.Request) -> bool:
        """Let a question through, late or not at all, as the faults in force have it."""
        if isinstance(request, wire.Inject | wire.Terminate):
            return True
        if self._daemon.delay_s > 0:
            await clock.pause(self._daemon.delay_s)
        if clock.monotonic_s() >= self._daemon.silent_until_s:
            return True
        while clock.monotonic_s() < self._daemon.silent_until_s:
            await clock.pause(0.2)
        return False

    async def _answer(self, request: wire.Request) -> wire.Reply:
        match request:
            case wire.Observe():
                return await self._daemon.observe(request)
            case wire.QueueGang() | wire.WithdrawGang():
                return _done(self._daemon.command(request))
            case wire.ReadLog():
                return await self._daemon.read_log(request)
            case wire.Inject():
                return _done(self._daemon.inject(request.fault))
            case wire.Terminate():
                await self._daemon.terminate()
                self.remove()
                return _done(Outcome(is_done=True))
            case _:
                assert_never(request)


def _done(outcome: Outcome) -> wire.Done:
    return wire.Done(
        is_done=outcome.is_done,
        cause=outcome.cause,
        message=outcome.message,
        retry_after_s=outcome.retry_after_s,
    )
