"""Where the server listens, and what stands beside its services."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from broker.service.address import AddressRefusedError, check_address
from broker.service.edge import Streams
from broker.service.health import Health
from broker.service.server import OPTIONS, AddressTakenError, Server
from broker.v1 import run_service_pb2
from tests.service.rig import DIGITS, refusal_of, serving


@pytest.mark.parametrize(
    ("address", "served"),
    [
        ("unix:/run/broker.sock", "unix:/run/broker.sock"),
        ("unix:///run/broker.sock", "unix:/run/broker.sock"),
        ("127.0.0.1:8470", "127.0.0.1:8470"),
        ("127.8.0.1:1", "127.8.0.1:1"),
        ("localhost:8470", "127.0.0.1:8470"),
        ("[::1]:8470", "[::1]:8470"),
    ],
)
def test_a_local_address_is_served(address: str, served: str) -> None:
    assert check_address(address) == served


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0:8470", "[::]:8470", "10.0.0.5:8470", "broker.example:8470", ":8470", "8470", "",
        "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:80,0.0.0.0:80", "unix:relative.sock", "unix:",
        "unix-abstract:broker", "dns:///127.0.0.1:80", "vsock:1:2", "127.0.0.1.example:80",
        "unix:/" + "x" * 120, "[::ffff:10.0.0.5]:80", "localhost.example:80", "0:80",
    ],
)  # fmt: skip
def test_every_other_address_is_refused(address: str) -> None:
    with pytest.raises(AddressRefusedError):
        check_address(address)


async def test_a_socket_that_was_left_behind_is_taken_over_and_is_the_owners_own(
    tmp_path: Path,
) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "s"))
    async with serving(tmp_path) as rig:
        assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
        await rig.submit()


async def test_accepting_a_call_costs_the_same_however_many_methods_there_are(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as rig:
        await rig.submit()
        doors = [one for one in map(str, asyncio.all_tasks()) if "AioServer._request" in one]
        assert len(doors) <= 1, doors


class Untroubled:
    """A log that takes every write."""

    def trouble(self) -> str:
        return ""


def alone(server: grpc.aio.Server) -> Server:
    """Return a server without a service."""
    return Server(server, Streams(), Health(Untroubled(), writing=(), reading=()))


async def test_a_socket_that_somebody_listens_on_is_left_to_them(tmp_path: Path) -> None:
    async with serving(tmp_path) as rig:
        other = grpc.aio.server()
        for path, why in (
            (tmp_path / "s", "another program listens there"),
            (tmp_path / "notes.txt", "something that is no socket is there"),
            (tmp_path / "none" / "s", "is no directory"),
        ):
            (tmp_path / "notes.txt").write_text("precious")
            with pytest.raises(AddressTakenError, match=why):
                await alone(other).start(f"unix:{path}")
        assert (tmp_path / "notes.txt").read_text() == "precious"
        await rig.submit()


async def test_a_port_that_is_taken_is_refused_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(AddressTakenError, match="it is in use"):
            await alone(grpc.aio.server(options=OPTIONS)).start(address)


async def test_health_and_reflection_stand_beside_the_services(tmp_path: Path) -> None:
    async with serving(tmp_path) as rig:
        channel: Any = rig.channel  # the stubs of these two know only the plain one
        health: Any = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest(service="broker.v1.RunService"))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        reflection: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        reflected = reflection.ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        )
        listed = [
            {service.name for service in one.list_services_response.service}
            async for one in reflected
        ]
        assert {"broker.v1.RunService", "broker.v1.LocalService"} <= listed[0]


async def test_a_message_that_is_too_large_is_refused_and_the_server_lives(tmp_path: Path) -> None:
    async with serving(tmp_path) as rig:
        request = run_service_pb2.CancelRunRequest(name=DIGITS, message="x" * 5_000_000)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rig.runs.CancelRun(request)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.aio.AioRpcError) as again:
            await rig.runs.GetRun(run_service_pb2.GetRunRequest(name=DIGITS))
        assert refusal_of(again.value).reason == "NOT_FOUND"
