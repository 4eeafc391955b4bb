"""brokerd as it serves: the composition root at work. It alone makes clocks, logs and servers.

The rule: nothing is decided here. A stop leaves gangs and clusters as they are; a kill does too,
and the next start goes on from the log. Read ``serve`` first.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path

from broker.access.book import BookError
from broker.access.certificates import CertificateError, Certificates
from broker.access.keyring import Keyring
from broker.assembly import Broker, assemble, begin_life
from broker.fleet.opening import open_fleet
from broker.loops.running import keep_going
from broker.options import Options, StartError
from broker.runtime.clock import MachineReadings, SystemClock
from broker.runtime.metrics import Metrics
from broker.runtime.tasks import Supervisor
from broker.service.address import check_outward
from broker.service.door import Door
from broker.service.server import AddressTakenError, build_server
from broker.store.ledger import LOG_NAME, open_early
from broker.store.recovery import read_mark
from broker.store.replacing import finish_broken_off

DOOR_S = 1.0  # a token that is taken back holds so long at most
HEALTH_S = 1.0  # a log that cannot be written is said so late at most
STOP_S = 5.0  # what calls under way get to end by themselves

_log = logging.getLogger(__name__)


async def serve(options: Options) -> None:
    """Serve until SIGTERM or SIGINT. Raises what keeps it from starting or going on."""
    stopped = _stop_on_signals()
    if options.lifeline is not None:
        _stop_with(options.lifeline, stopped)
    log = options.data / LOG_NAME
    broken_off = finish_broken_off(log)
    if broken_off is not None:
        _log.warning("%s: %s", log, broken_off)
    clock = SystemClock(read_mark(log), MachineReadings())
    metrics = Metrics()
    door = _door(options, clock, metrics)
    fleet = open_fleet(options.config, options.data)
    ledger = open_early(log, clock, regions=fleet.regions)
    try:
        await begin_life(ledger)
        async with contextlib.AsyncExitStack() as stack:
            links = fleet.connect()
            stack.push_async_callback(links.close)
            known = [region for region in fleet.regions if ledger.region(region).store]
            await links.start(options.lifeline, known=known)
            broker = await assemble(
                stack,
                options.config,
                options.data,
                ledger=ledger,
                fleet=fleet,
                links=links,
                clock=clock,
            )
            await _serve_with(stack, broker, options, metrics, stopped, door=door)
    finally:
        await ledger.close()


async def _serve_with(
    stack: contextlib.AsyncExitStack,
    broker: Broker,
    options: Options,
    metrics: Metrics,
    stopped: asyncio.Event,
    *,
    door: Door | None,
) -> None:
    if options.metrics is not None:
        try:
            metrics.serve(*options.metrics)
        except OSError as error:
            host, port = options.metrics
            raise StartError(f"cannot serve metrics on {host}:{port}: {error.strerror}") from error
    server = await build_server(broker.ports, door)

    def note(task: str) -> None:
        metrics.failures.labels(task).inc()
        broker.failures.note(task)

    keeper = Supervisor(note)
    await stack.enter_async_context(keeper)
    try:
        address = await server.start(options.address)
    except AddressTakenError as error:
        raise StartError(f"cannot listen on {options.address}: {error}") from error
    outward = ""
    if door is not None:
        try:
            outward = await server.open_door()
        except AddressTakenError as error:
            raise StartError(f"cannot listen on {door.address}: {error}") from error
        keeper.keep("door", lambda: keep_going(door.tick, None, lambda: DOOR_S, broker.clock))
    keeper.keep(
        "health", lambda: keep_going(server.health.tick, None, lambda: HEALTH_S, broker.clock)
    )
    _greet(address, outward, broker)
    try:
        await broker.begin(keeper, metrics, options.lifeline)
        await stopped.wait()
        _part(has_lifeline=options.lifeline is not None, has_embedded=broker.links.has_embedded)
    finally:
        keeper.stop()
        await server.stop(STOP_S)


def _door(options: Options, clock: SystemClock, metrics: Metrics) -> Door | None:
    """Return where other machines come in, None for nowhere. Raises StartError."""
    access = options.config.access
    if not access.address:
        return None
    ca = Path(access.client_ca) if access.client_ca else None
    try:
        return Door(
            check_outward(access.address),
            keyring=Keyring(options.tokens),
            certificates=Certificates(Path(access.certificate), Path(access.key), ca),
            clock=lambda: clock.now().elapsed_s,
            wall=lambda: clock.now().wall_s,
            note=lambda reason: metrics.calls_refused.labels(reason).inc(),
        )
    except BookError as error:
        raise StartError(
            f"access.tokens: {error}; no other machine is served without tokens, which"
            " `brokerd tokens add` makes"
        ) from error
    except CertificateError as error:
        raise StartError(f"access.certificate: {error}") from error


def _stop_on_signals() -> asyncio.Event:
    """Return what the first SIGTERM or SIGINT sets; the second one ends the process at once."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hear(number: signal.Signals) -> None:
        if stopped.is_set():
            os._exit(128 + number)
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, hear, number)
    return stopped


def _stop_with(lifeline: int, stopped: asyncio.Event) -> None:
    """Stop once the writing end of a pipe closes."""
    loop = asyncio.get_running_loop()

    def hear() -> None:
        if os.read(lifeline, 1) == b"":
            loop.remove_reader(lifeline)
            stopped.set()

    loop.add_reader(lifeline, hear)


def _greet(address: str, outward: str, broker: Broker) -> None:
    """Say on one line where it listens, and what to type next."""
    far = f"; other machines reach it at {outward}" if outward else ""
    regions = ", ".join(broker.agents.outposts.regions)
    sys.stdout.write(
        f"brokerd listens on {address}, with {regions}; try: broker --server {address} regions"
        f"{far}\n"
    )
    sys.stdout.flush()


def _part(*, has_lifeline: bool, has_embedded: bool) -> None:
    """Say on one line that it stops, and what goes on without it."""
    rest = "what trains and what waits goes on"
    if has_embedded:
        rest = (
            "embedded regions end with the pipe that it was given"
            if has_lifeline
            else f"{rest}; brokerd stop-embedded ends embedded regions too"
        )
    # Whoever read the greeting may be gone, which must neither keep it from stopping in order nor
    # leave anything in a buffer for the end of the process to trip over.
    with contextlib.suppress(OSError, ValueError):
        os.write(sys.stdout.fileno(), f"brokerd stops; {rest}\n".encode())
