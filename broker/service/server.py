"""The gRPC server: every service, health and reflection, for this machine and perhaps for others.

The rule: an address of this machine wants no token, and ``check_address`` refuses every other one;
what other machines reach is a server of its own, behind its ``Door``. Read ``build_server`` first.
"""

import asyncio
import socket
import stat
from pathlib import Path

import grpc.aio
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from broker.service.accepting import OneDoor
from broker.service.address import check_address, check_outward
from broker.service.broker_service import BrokerService
from broker.service.door import Door
from broker.service.edge import Streams
from broker.service.health import Health
from broker.service.local_service import LocalService
from broker.service.ports import Ports
from broker.service.region_service import RegionService
from broker.service.run_service import RunService
from broker.service.team_service import TeamService
from broker.v1 import (
    broker_service_pb2,
    broker_service_pb2_grpc,
    local_service_pb2,
    local_service_pb2_grpc,
    region_service_pb2,
    region_service_pb2_grpc,
    run_service_pb2,
    run_service_pb2_grpc,
    team_service_pb2,
    team_service_pb2_grpc,
)

MESSAGE_MAX_BYTES = 4 * 1024 * 1024
HANDSHAKE_MS = 10_000  # who connects and says nothing keeps a connection so long
CALLS_AT_ONCE = 2_048  # watchers included; beyond it the answer is RESOURCE_EXHAUSTED
OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_MAX_BYTES),
    ("grpc.max_send_message_length", MESSAGE_MAX_BYTES),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    # Two servers on one port would each take half of the calls.
    ("grpc.so_reuseport", 0),
)


LISTENS_WITHIN_S = 2.0  # of a program on this machine; one that is stopped does not answer


class AddressTakenError(Exception):
    """An address on which nobody can listen now; the sentence says why."""


class Server:
    """The edge as it runs. Made by ``build_server``."""

    def __init__(
        self,
        server: grpc.aio.Server,
        streams: Streams,
        health: Health,
        outward: grpc.aio.Server | None = None,
        door: Door | None = None,
    ) -> None:
        """``outward`` is the server behind the door, None without one."""
        self._server = server
        self._streams = streams
        self.health = health
        self._outward = outward
        self.door = door

    async def start(self, address: str) -> str:
        """Begin to serve; return the address, with the port that was taken for port 0.

        Raises AddressRefusedError, or AddressTakenError when the address cannot be had.
        """
        bound = self._bind(check_address(address))
        await self._server.start()
        return bound

    async def open_door(self) -> str:
        """Begin to serve other machines; return the address. Raises as ``start`` does."""
        assert self._outward is not None
        assert self.door is not None
        address = check_outward(self.door.address)
        try:
            port = self._outward.add_secure_port(address, self.door.credentials())
        except RuntimeError as error:
            raise AddressTakenError("it is in use, or must not be used by this user") from error
        await self._outward.start()
        return f"{address.rpartition(':')[0]}:{port}"

    def _bind(self, address: str) -> str:
        path = Path(address.removeprefix("unix:")) if address.startswith("unix:") else None
        if path is not None:
            _check_free(path)
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            # What gRPC says names a variable for its own developers.
            raise AddressTakenError("it is in use, or must not be used by this user") from error
        if path is None:
            return f"{address.rpartition(':')[0]}:{port}"
        # Who may connect may do everything, so nobody but the owner may.
        path.chmod(0o600)
        return address

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, end the streams, and give the others ``grace_s`` seconds."""
        await self.health.stop()
        self._streams.end()
        async with asyncio.TaskGroup() as stopping:
            for server in (self._server, self._outward):
                if server is not None:
                    stopping.create_task(server.stop(grace_s))


def _check_free(path: Path) -> None:
    """Raise AddressTakenError unless nobody listens at the path of a socket.

    gRPC takes the path of a socket from whoever listens there, who is not told; the one that a
    killed program left behind is meant to be taken.
    """
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise AddressTakenError(f"{path.parent} is no directory") from None
        return
    except OSError as error:
        raise AddressTakenError(f"{path} cannot be looked at: {error.strerror}") from error
    if not stat.S_ISSOCK(kind):
        raise AddressTakenError("something that is no socket is there")
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(LISTENS_WITHIN_S)
        try:
            caller.connect(str(path))
        except ConnectionRefusedError:
            return
        except FileNotFoundError:
            return  # whoever listened there has just stopped
        except OSError as error:
            raise AddressTakenError(f"whose it is cannot be found out: {error}") from error
    raise AddressTakenError("another program listens there; stop it first, or name another address")


async def build_server(ports: Ports, door: Door | None = None) -> Server:
    """Return a server with every service, bound to nothing yet; ``door`` is for other machines."""
    streams = Streams()
    state = Health(ports.log, writing=(RUNS, REGIONS, TEAMS), reading=(LOCAL, BROKER))
    broker = BrokerService(ports, door)

    async def filled(*interceptors: grpc.aio.ServerInterceptor) -> OneDoor:
        server = OneDoor(
            grpc.aio.server(
                options=(*OPTIONS, ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS)),
                maximum_concurrent_rpcs=CALLS_AT_ONCE,
                interceptors=interceptors,
            )
        )
        run_service_pb2_grpc.add_RunServiceServicer_to_server(RunService(ports, streams), server)
        region_service_pb2_grpc.add_RegionServiceServicer_to_server(RegionService(ports), server)
        team_service_pb2_grpc.add_TeamServiceServicer_to_server(TeamService(ports), server)
        local_service_pb2_grpc.add_LocalServiceServicer_to_server(LocalService(ports), server)
        broker_service_pb2_grpc.add_BrokerServiceServicer_to_server(broker, server)
        await state.add_to(server)
        names = [RUNS, REGIONS, TEAMS, LOCAL, BROKER]
        names += [health.SERVICE_NAME, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(names, server)
        return server

    outward = None if door is None else await filled(door.admission)
    return Server(await filled(), streams, state, outward, door)


RUNS, REGIONS, TEAMS, LOCAL, BROKER = (
    module.DESCRIPTOR.services_by_name[name].full_name
    for module, name in (
        (run_service_pb2, "RunService"),
        (region_service_pb2, "RegionService"),
        (team_service_pb2, "TeamService"),
        (local_service_pb2, "LocalService"),
        (broker_service_pb2, "BrokerService"),
    )
)
