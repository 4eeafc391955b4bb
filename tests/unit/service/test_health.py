"""Health over the wire follows the log: what changes anything is not served while it cannot."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from broker.service.health import Health

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
NAMES = ("", "Writes", "Reads")


@dataclass
class Log:
    said: str = ""

    def trouble(self) -> str:
        return self.said


async def test_what_writes_is_served_while_the_log_takes_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    log = Log()
    health = Health(log, writing=["Writes"], reading=["Reads"])
    server = grpc.aio.server()
    await health.add_to(server)
    server.add_insecure_port(f"unix:{tmp_path}/s")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"unix:{tmp_path}/s") as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)  # the type stubs know no methods

            async def told() -> list[int]:
                asked = [health_pb2.HealthCheckRequest(service=name) for name in NAMES]
                return [(await stub.Check(one, timeout=10)).status for one in asked]

            assert await told() == [SERVING, SERVING, SERVING]
            log.said = "the disk is full"
            for _ in range(2):
                await health.tick()
                assert await told() == [NOT_SERVING, NOT_SERVING, SERVING]
            log.said = ""
            await health.tick()
            assert await told() == [SERVING, SERVING, SERVING]
            assert [record.getMessage() for record in caplog.records] == [
                "not serving what changes anything: the disk is full",
                "the log takes writes again; serving",
            ]
            await health.stop()
            assert await told() == [NOT_SERVING, NOT_SERVING, NOT_SERVING]
    finally:
        await server.stop(0)


async def test_a_log_in_trouble_from_the_start_is_never_served() -> None:
    health = Health(Log("read-only"), writing=["Writes"], reading=[])
    server = grpc.aio.server()
    await health.add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)  # the type stubs know no methods
            request = health_pb2.HealthCheckRequest(service="Writes")
            assert (await stub.Check(request, timeout=10)).status == NOT_SERVING
    finally:
        await server.stop(0)
