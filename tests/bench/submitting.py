"""Durable SubmitRun per second, over a bare grpc.aio echo of the same message.

Three servers, each a process of its own: the echo, with nothing but grpc.aio and asyncio as they
come; the broker's edge, decisions and log, with its agents at rest; and brokerd whole, whose agents
begin to work on every run that was submitted. Read ``measure`` first.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from broker.assembly import assemble, begin_life
from broker.config import Config
from broker.fleet.opening import open_fleet
from broker.runtime import event_loop
from broker.runtime.clock import MachineReadings, SystemClock
from broker.sdk.intent import parse_intent
from broker.service.server import build_server
from broker.store.ledger import LOG_NAME, open_ledger
from broker.v1 import run_service_pb2, team_pb2
from tests.bench.figure import Figure, Size, median
from tests.bench.household import TEAM, Household

SUBMIT = "/broker.v1.RunService/SubmitRun"
AIM = ">= 0.6"
INTENT = b"""\
workload:
  command: python3 train.py --steps 1000
  hardware:
    - accelerator: H100
      accelerators_per_node: 1
      nodes: 16
terms:
  capacity_types: [spot]
  max_wait: 2h
"""


async def measure(size: Size) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-") as name, Household() as brokerd:
        folder = Path(name)
        await brokerd.until_ready()
        async with brokerd.client() as client:
            # A place could take each run, and none may go: what is measured is not their training.
            await client.teams.set_caps(TEAM, team_pb2.TeamCaps(running_gpus=1), etag="1")
        async with _served("echo", folder) as echo, _served("edge", folder) as edge:
            rates: dict[str, list[float]] = {"echo": [], "edge": [], "brokerd": []}
            sides = {"echo": echo, "edge": edge, "brokerd": brokerd.address}
            for number in range(size.rounds + 1):
                for side, address in sides.items():
                    rate = await _round(address, f"{side}-{number}", size, side == "echo")
                    if number:  # the first round warms up
                        rates[side].append(rate)
    pairs = {
        side: median([one / base for one, base in zip(rates[side], rates["echo"], strict=True)])
        for side in ("edge", "brokerd")
    }
    anchor = f"over an echo at {median(rates['echo']):.0f}/s, {size.clients} clients"
    return [
        Figure(
            name="durable SubmitRun, agents at rest",
            value=pairs["edge"],
            aim=AIM,
            unit="ratio",
            anchor=f"{median(rates['edge']):.0f}/s {anchor}",
        ),
        Figure(
            name="durable SubmitRun, brokerd whole",
            value=pairs["brokerd"],
            aim=AIM,
            unit="ratio",
            anchor=f"{median(rates['brokerd']):.0f}/s {anchor}",
        ),
    ]


async def _round(address: str, prefix: str, size: Size, is_echo: bool) -> float:
    """Return calls per second of one round against one server."""
    intent = parse_intent(INTENT, "intent.yaml", {}).message
    requests = iter(
        [
            run_service_pb2.SubmitRunRequest(
                parent="teams/bench", intent=intent, request_id=f"{prefix}-{number}"
            )
            for number in range(size.submits)
        ]
    )
    answer = run_service_pb2.SubmitRunRequest if is_echo else run_service_pb2.SubmitRunResponse
    async with grpc.aio.insecure_channel(address) as channel:
        call: Callable[[Any], Any] = channel.unary_unary(
            SUBMIT,
            request_serializer=run_service_pb2.SubmitRunRequest.SerializeToString,
            response_deserializer=answer.FromString,
        )
        await channel.channel_ready()
        began_s = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(size.clients):
                group.create_task(_client(call, requests))
        return size.submits / (time.perf_counter() - began_s)


async def _client(call: Callable[[Any], Any], requests: Iterator[Any]) -> None:
    for request in requests:
        await call(request)


@contextlib.asynccontextmanager
async def _served(side: str, folder: Path) -> AsyncIterator[str]:
    """Serve one side in a process of its own; yield its address."""
    address = f"unix:{folder / side}.sock"
    reading, writing = os.pipe()
    server = subprocess.Popen(  # noqa: ASYNC220 - nothing else goes on yet
        [sys.executable, "-m", "tests.bench.submitting", side, address, str(folder)],
        stdin=reading,  # the server ends when the other end closes
        stdout=subprocess.PIPE,
    )
    os.close(reading)
    try:
        assert server.stdout is not None
        await asyncio.to_thread(server.stdout.readline)
        yield address
    finally:
        os.close(writing)
        server.wait(30)
        if server.stdout is not None:
            server.stdout.close()


# ---- The servers ---------------------------------------------------------------------------


async def _echo(address: str, ended: asyncio.Event) -> None:
    async def answer(request: Any, _: Any) -> Any:
        return request

    handler = grpc.unary_unary_rpc_method_handler(
        answer,
        request_deserializer=run_service_pb2.SubmitRunRequest.FromString,
        response_serializer=run_service_pb2.SubmitRunRequest.SerializeToString,
    )
    _, service, method = SUBMIT.split("/")
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    server.add_insecure_port(address)
    await server.start()
    _say_ready()
    await ended.wait()
    await server.stop(None)


async def _edge(address: str, folder: Path, ended: asyncio.Event) -> None:
    """Serve all that brokerd does, with agents that are never called."""
    config, clock = Config(), SystemClock(None, MachineReadings())
    fleet = open_fleet(config, folder)
    ledger = open_ledger(folder / LOG_NAME, clock, regions=fleet.regions, is_threaded=True)
    await begin_life(ledger)
    links = fleet.connect()
    async with contextlib.AsyncExitStack() as stack:
        broker = await assemble(
            stack,
            config,
            folder,
            ledger=ledger,
            fleet=fleet,
            links=links,
            clock=clock,
        )
        server = await build_server(broker.ports)
        await server.start(address)
        _say_ready()
        await ended.wait()
        await server.stop(1.0)
    await ledger.close()


def _say_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def _serve(side: str, address: str, folder: Path) -> None:
    if side == "echo":
        asyncio.run(_until_closed(partial(_echo, address)))
    else:
        event_loop.run(_until_closed(partial(_edge, address, folder)))


async def _until_closed(serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await serve(ended)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=("echo", "edge"))
    parser.add_argument("address")
    parser.add_argument("folder", type=Path)
    found = parser.parse_args()
    _serve(found.side, found.address, found.folder)
