"""brokerd: the composition root. It alone builds real clocks, logs, clusters and servers.

The rule: nothing is decided here. A stop leaves gangs and clusters as they are; a kill does too,
and the next start goes on from the log. Read ``serve`` first.
"""

import argparse
import asyncio
import contextlib
import getpass
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker import config as configuration
from broker.assembly import Broker, assemble, begin_life, open_fleet
from broker.config import Config, ConfigError
from broker.model.actor import Actor, ActorKind
from broker.runtime import logs
from broker.runtime.clock import MachineReadings, SystemClock
from broker.runtime.metrics import Metrics
from broker.runtime.tasks import Fatal, Supervisor
from broker.service.server import AddressRefusedError, build_server, check_address
from broker.store.backup import back_up, restore
from broker.store.errors import LogError
from broker.store.ledger import LOG_NAME, open_ledger
from broker.store.rebuild import prove, rebuild
from broker.store.recovery import read_mark
from regions.local.config import ConfigError as WorldError
from regions.local.spawn import ClusterDidNotStartError, stop_all

STOP_S = 5.0  # what calls under way get to end by themselves
FAILED, USAGE, UNAVAILABLE = 1, 2, 5
_EPILOG = """\
examples:
  brokerd                                  serve, with three embedded regions on this machine
  brokerd --config /etc/broker/brokerd.toml
  brokerd print-config > brokerd.toml      every field, with its meaning and default
  brokerd backup /backups/broker.db        while it runs
  brokerd restore /backups/broker.db       into an empty data directory; begins a new incarnation
  brokerd rebuild --check                  prove that the views follow from the events
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line said, with the defaults filled in."""

    data: Path
    config: Config
    address: str
    lifeline: int | None

    @property
    def log(self) -> Path:
        """Where the log is."""
        return self.data / LOG_NAME


class StartError(Exception):
    """brokerd cannot start; the sentence says why, and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run brokerd, or one of its tools; returns the exit status."""
    parsed = _parser().parse_args(arguments)
    os.umask(0o077)
    try:
        return int(parsed.work(parsed))
    except (ConfigError, WorldError, AddressRefusedError, StartError) as error:
        sys.stderr.write(f"brokerd: {error}\n")
        return USAGE
    except (LogError, ClusterDidNotStartError, Fatal) as error:
        sys.stderr.write(f"brokerd: {error}\n")
        return FAILED
    except BaseExceptionGroup as group:
        # What ended the supervised tasks: one sentence for people, the trace is in the log.
        first = _first(group)
        if not isinstance(first, Fatal | LogError):
            raise
        sys.stderr.write(f"brokerd: {first}\n")
        return FAILED


def _serve(parsed: argparse.Namespace) -> int:
    options = _options(parsed)
    logs.set_up(options.config.log.level, options.config.log.format)
    asyncio.run(serve(options))
    return 0


async def serve(options: Options) -> None:
    """Serve until SIGTERM or SIGINT. Raises what keeps it from starting or going on."""
    stopped = _stop_on_signals()
    if options.lifeline is not None:
        _stop_with(options.lifeline, stopped)
    clock = SystemClock(read_mark(options.log), MachineReadings())
    fleet = open_fleet(options.config, options.data)
    ledger = open_ledger(options.log, clock, regions=fleet.regions, is_threaded=True)
    try:
        clusters = fleet.connect(await begin_life(ledger))
        await fleet.start(clusters, options.lifeline)
        metrics = Metrics()
        async with contextlib.AsyncExitStack() as stack:
            broker = await assemble(
                stack,
                options.config,
                options.data,
                ledger=ledger,
                fleet=fleet,
                clusters=clusters.values(),
                clock=clock,
            )
            await _serve_with(stack, broker, options, metrics, stopped)
    finally:
        await ledger.close()


async def _serve_with(
    stack: contextlib.AsyncExitStack,
    broker: Broker,
    options: Options,
    metrics: Metrics,
    stopped: asyncio.Event,
) -> None:
    if options.config.metrics.address:
        metrics.serve(*_loopback(options.config.metrics.address))
    server = await build_server(broker.ports)
    keeper = Supervisor(lambda task: metrics.failures.labels(task).inc())
    await stack.enter_async_context(keeper)
    broker.keep_all(keeper, metrics)
    try:
        address = await server.start(options.address)
    except RuntimeError as error:
        raise StartError(f"cannot listen on {options.address}: {error}") from error
    _greet(address, broker)
    try:
        await stopped.wait()
    finally:
        keeper.stop()
        await server.stop(STOP_S)


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


def _greet(address: str, broker: Broker) -> None:
    """Say on one line where it listens, and what to type next."""
    regions = ", ".join(broker.agents.outposts.regions)
    sys.stdout.write(
        f"brokerd listens on {address}, with {regions}; try: broker --server {address} regions\n"
    )
    sys.stdout.flush()


# ---- Tools over the data directory ---------------------------------------------------------


def _back_up(parsed: argparse.Namespace) -> int:
    size_bytes = back_up(_data(parsed) / LOG_NAME, parsed.target)
    sys.stdout.write(f"{parsed.target}: {size_bytes} bytes, checked\n")
    return 0


def _restore(parsed: argparse.Namespace) -> int:
    incarnation = restore(
        parsed.backup,
        _data(parsed),
        clock=lambda mark: SystemClock(mark, MachineReadings()),
        actor=Actor(kind=ActorKind.OPS, name=getpass.getuser()),
        is_told_to_replace=parsed.replace,
    )
    sys.stdout.write(
        f"restored as incarnation {incarnation}; before its first grant brokerd reads every"
        " cluster and store, or a person waives a region by name (broker regions waive)\n"
    )
    return 0


def _rebuild(parsed: argparse.Namespace) -> int:
    path = _data(parsed) / LOG_NAME
    if not path.exists():
        raise StartError(f"there is no log at {path}")
    if not parsed.check:
        sys.stdout.write(f"rebuilt the views from {rebuild(path)} events\n")
        return 0
    differences = prove(path)
    for difference in differences:
        sys.stdout.write(f"{difference}\n")
    sys.stdout.write(
        f"{len(differences)} differences\n" if differences else "the views follow from the events\n"
    )
    return FAILED if differences else 0


def _print_config(_: argparse.Namespace) -> int:
    sys.stdout.write(configuration.commented())
    return 0


def _stop_embedded(parsed: argparse.Namespace) -> int:
    """End the embedded clusters, their gangs and their files."""
    fleet = open_fleet(_config(parsed), _data(parsed))
    asyncio.run(stop_all(fleet.connect(incarnation=0)))
    sys.stdout.write("the embedded clusters and their gangs are ended\n")
    return 0


# ---- The command line -----------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="brokerd",
        description="The capacity broker's daemon: queues training where it starts soonest.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_common(parser)
    parser.add_argument("--server", metavar="ADDRESS", help="unix:/PATH or HOST:PORT on loopback")
    parser.add_argument(
        "--lifeline", type=int, metavar="FD", help="stop, embedded clusters too, once this pipe closes"
    )
    parser.set_defaults(work=_serve)
    tools = parser.add_subparsers(title="tools", metavar="TOOL")
    _tool(tools.add_parser("print-config", help="print a configuration file"), _print_config)
    backing = tools.add_parser("backup", help="copy the log while it is in use, and check the copy")
    backing.add_argument("target", type=Path, help="the file to write")
    _tool(backing, _back_up)
    restoring = tools.add_parser("restore", help="begin a new incarnation from a backup")
    restoring.add_argument("backup", type=Path, help="the file that backup wrote")
    restoring.add_argument("--replace", action="store_true", help="move an existing log aside")
    _tool(restoring, _restore)
    rebuilding = tools.add_parser("rebuild", help="make the views anew from the events")
    rebuilding.add_argument("--check", action="store_true", help="only compare")
    _tool(rebuilding, _rebuild)
    _tool(
        tools.add_parser("stop-embedded", help="end embedded clusters, gangs and files"),
        _stop_embedded,
    )
    return parser


def _tool(parser: argparse.ArgumentParser, work: Callable[[argparse.Namespace], int]) -> None:
    _add_common(parser)
    parser.set_defaults(work=work)


def _add_common(parser: argparse.ArgumentParser) -> None:
    # SUPPRESS: a subparser must not put its default over what stood before the tool's name.
    parser.add_argument(
        "--data-dir", type=Path, default=argparse.SUPPRESS, help="where everything is kept"
    )
    parser.add_argument(
        "--config", type=Path, default=argparse.SUPPRESS, help="a TOML file; see print-config"
    )


def _options(parsed: argparse.Namespace) -> Options:
    config = _config(parsed)
    data = _data(parsed)
    address = parsed.server or config.server.address or f"unix:{data / 'brokerd.sock'}"
    address = check_address(address)
    if config.metrics.address:
        _loopback(config.metrics.address)
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(f"cannot make {data}: {error.strerror}") from error
    return Options(data=data, config=config, address=address, lifeline=parsed.lifeline)


def _config(parsed: argparse.Namespace) -> Config:
    path = getattr(parsed, "config", None)
    return Config() if path is None else configuration.load(path)


def _data(parsed: argparse.Namespace) -> Path:
    """Where the data is: as told, or where the user's programs keep their state."""
    told = getattr(parsed, "data_dir", None)
    if told is not None:
        return Path(told).absolute()
    state = os.environ.get("XDG_STATE_HOME", "")
    home = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return home / "broker"


def _loopback(address: str) -> tuple[str, int]:
    checked = check_address(address)
    if checked.startswith("unix:"):
        raise AddressRefusedError(f"metrics.address: {address!r} is not HOST:PORT")
    host, _, port = checked.rpartition(":")
    return host.strip("[]"), int(port)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


if __name__ == "__main__":
    sys.exit(main())
