"""Whether calls can be served, for whoever asks by gRPC's health protocol.

The rule: while the log cannot be written the server as a whole, and each service that changes
something, is NOT_SERVING; what only reads goes on. A supervisor that asks so learns what
``GetBroker``, ``broker doctor`` and the metric ``broker_log_writable`` say. Read ``Health.tick``.
"""

import logging
from collections.abc import Iterable
from typing import Protocol

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

WHOLE = ""  # the protocol's name for the server as a whole
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_log = logging.getLogger(__name__)


class Troubled(Protocol):
    """What is asked how it does: the log."""

    def trouble(self) -> str:
        """Return why the log cannot be written, empty when it can."""
        ...


class Health:
    """The health service. ``writing`` are the services that need the log to be writable."""

    def __init__(self, log: Troubled, *, writing: Iterable[str], reading: Iterable[str]) -> None:
        self._log = log
        self._writing = (WHOLE, *writing)
        self._reading = tuple(reading)
        self._servicer = health.aio.HealthServicer()
        self._is_well: bool | None = None

    async def add_to(self, server: grpc.aio.Server) -> None:
        """Answer on a server from its start on."""
        for name in self._reading:
            await self._servicer.set(name, SERVING)
        await self.tick()
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def tick(self) -> None:
        """Say how the log does, when that has changed."""
        trouble = self._log.trouble()
        if self._is_well is (not trouble):
            return
        if trouble:
            _log.error("not serving what changes anything: %s", trouble)
        elif self._is_well is not None:
            _log.warning("the log takes writes again; serving")
        self._is_well = not trouble
        for name in self._writing:
            await self._servicer.set(name, NOT_SERVING if trouble else SERVING)

    async def stop(self) -> None:
        """Say of everything that it is not served any more."""
        await self._servicer.enter_graceful_shutdown()
