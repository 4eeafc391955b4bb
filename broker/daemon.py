"""brokerd's command line: serve, or one of the tools over a data directory.

The rule: what is only needed to serve is imported only then, so that help, a mistake or a tool
answers at once. What serves is put together in ``serving`` and ``assembly``. Read ``main`` first.
"""

import argparse
import asyncio
import getpass
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from broker import config as configuration
from broker import endings, token_tools
from broker.config import Config
from broker.options import Options, StartError
from broker.service.address import AddressRefusedError, check_address

_CODES = "".join(f"  {code:<5}  {meaning}\n" for code, meaning in endings.CODES.items())
_EPILOG = f"""\
examples:
  brokerd                                  serve, with three embedded regions on this machine
  brokerd --config /etc/broker/brokerd.toml
  brokerd print-config > brokerd.toml      every field, with its meaning and default
  brokerd backup /backups/broker.db        while it runs
  brokerd restore /backups/broker.db       into an empty data directory; begins a new incarnation
  brokerd tokens add --actor ann --team vision --role member --days 90
  brokerd rebuild --check                  prove that the views follow from the events

exit codes:
{_CODES}  {endings.SIGNALS}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run brokerd, or one of its tools; returns the exit status."""
    parsed = _parser().parse_args(arguments)
    os.umask(0o077)
    # gRPC reads this when it is first imported, and would log whoever scans a port, line by line.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        return int(parsed.work(parsed))
    except Exception as error:
        # One sentence for people where the fault is the world's; the trace where it is ours.
        cause = _cause(error)
        code = endings.code_of(cause)
        if code == endings.FAULT:
            raise
        sys.stderr.write(f"brokerd: {cause}\n")
        return code


def _cause(error: BaseException) -> BaseException:
    """Return the first error of a group, which the tasks that were under way then make of one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _serve(parsed: argparse.Namespace) -> int:
    options = _options(parsed)
    from broker.runtime import event_loop, logs
    from broker.serving import serve

    logs.set_up(options.config.log.level, options.config.log.format)
    event_loop.run(serve(options))
    return 0


# ---- Tools over the data directory ---------------------------------------------------------


def _back_up(parsed: argparse.Namespace) -> int:
    from broker.store.backup import back_up
    from broker.store.ledger import LOG_NAME

    size_bytes = back_up(_there(_data(parsed) / LOG_NAME), parsed.target)
    sys.stdout.write(f"{parsed.target}: {size_bytes} bytes, checked\n")
    return 0


def _restore(parsed: argparse.Namespace) -> int:
    from broker.model.actor import Actor, ActorKind
    from broker.runtime.clock import MachineReadings, SystemClock
    from broker.store.backup import restore

    if not parsed.backup.is_file():
        raise StartError(f"there is no backup at {parsed.backup}")
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
    from broker.store.ledger import LOG_NAME
    from broker.store.rebuild import prove, rebuild

    path = _there(_data(parsed) / LOG_NAME)
    if not parsed.check:
        sys.stdout.write(f"rebuilt the views of {rebuild(path)} streams of events\n")
        return 0
    differences = prove(path)
    for difference in differences:
        sys.stdout.write(f"{difference}\n")
    sys.stdout.write(
        f"{len(differences)} differences\n" if differences else "the views follow from the events\n"
    )
    return endings.DIFFERENT if differences else endings.OK


def _there(log: Path) -> Path:
    from broker.store.replacing import RESTORED

    if Path(f"{log}{RESTORED}").exists():
        raise StartError(f"a restore to {log} was broken off; the next start of brokerd ends it")
    if not log.exists():
        raise StartError(f"there is no log at {log}")
    return log


def _print_config(_: argparse.Namespace) -> int:
    from broker.config_file import commented

    sys.stdout.write(commented())
    return 0


def _stop_embedded(parsed: argparse.Namespace) -> int:
    """End the embedded clusters, their gangs and their state; stores and the log stay."""
    from broker.fleet.embedded import embedded
    from broker.fleet.opening import open_fleet
    from regions.local.spawn import stop_all

    fleet = open_fleet(_config(parsed), _data(parsed))
    asyncio.run(stop_all(embedded(fleet)))
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
        "--lifeline",
        type=int,
        metavar="FD",
        help="stop, embedded clusters too, once this pipe closes",
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
        tools.add_parser(
            "stop-embedded", help="end embedded clusters and gangs; stores and log stay"
        ),
        _stop_embedded,
    )
    tokens = tools.add_parser("tokens", help="who may call from other machines")
    _add_common(tokens)
    token_tools.add_to(tokens, _tool, lambda parsed: _tokens(_config(parsed), _data(parsed)))
    return parser


def _tool(parser: argparse.ArgumentParser, work: Callable[[argparse.Namespace], int]) -> None:
    _add_common(parser)
    parser.set_defaults(work=work)


def _add_common(parser: argparse.ArgumentParser) -> None:
    # SUPPRESS: a subparser must not put its default over what stood before the tool's name.
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=argparse.SUPPRESS,
        help="where everything is kept; ~/.local/state/broker otherwise",
    )
    parser.add_argument(
        "--config", type=Path, default=argparse.SUPPRESS, help="a TOML file; see print-config"
    )


def _options(parsed: argparse.Namespace) -> Options:
    config = _config(parsed)
    data = _data(parsed)
    address = parsed.server or config.server.address or f"unix:{data / 'brokerd.sock'}"
    address = check_address(address)
    metrics = _loopback(config.metrics.address) if config.metrics.address else None
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(f"cannot make {data}: {error.strerror}") from error
    return Options(
        data=data,
        config=config,
        address=address,
        metrics=metrics,
        lifeline=parsed.lifeline,
        tokens=_tokens(config, data),
    )


def _tokens(config: Config, data: Path) -> Path:
    return Path(config.access.tokens) if config.access.tokens else data / "tokens.json"


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


if __name__ == "__main__":
    sys.exit(main())
