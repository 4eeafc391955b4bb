"""``python -m regions.local --dir D --socket S --config C``: one embedded cluster.

The rule: SIGTERM and SIGINT end the daemon and leave the gangs alone, as a crash does; what ends
the gangs too is a ``terminate`` over the socket, the closing of the pipe that ``--lifeline`` names,
or ``--sweep``. Read ``run`` first.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from regions.local.config import ConfigError, WorldConfig, load
from regions.local.daemon import Daemon
from regions.local.disk import DirectoryInUseError, Disk, StateUnreadableError
from regions.local.server import BadSocketError, Server
from regions.local.sweep import sweep


def main(arguments: list[str]) -> int:
    """Run one cluster until it is told to end; returns the exit status."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if not options.sweep and None in (options.config, options.socket):
        sys.stderr.write("regions.local: --config and --socket are needed\n")
        return 2
    try:
        if options.sweep:
            return 0 if sweep(options.dir) else 1
        config = load(options.config)
        disk = Disk(options.dir)
        disk.claim()
        disk.prepare()
        asyncio.run(run(config, disk, options.socket, options.lifeline))
    except (ConfigError, DirectoryInUseError, StateUnreadableError, BadSocketError) as error:
        sys.stderr.write(f"regions.local: {error}\n")
        return 2
    return 0


async def run(config: WorldConfig, disk: Disk, socket: Path, lifeline: int | None) -> None:
    """Live. ``lifeline`` is the reading end of a pipe: once it closes, all gangs end too."""
    loop = asyncio.get_running_loop()
    daemon = Daemon(config, disk)
    server = Server(daemon, socket)
    listening = await server.serve()
    cut = asyncio.Event()
    leave = asyncio.Event()
    if lifeline is not None:
        os.set_blocking(lifeline, False)
        loop.add_reader(lifeline, _listen, lifeline, cut)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave.set)
    async with listening, asyncio.TaskGroup() as group:
        living = group.create_task(daemon.run())
        group.create_task(_leave(leave, living, daemon))
        ending = group.create_task(_end_with(cut, daemon, server))
        await daemon.stopped.wait()
        ending.cancel()
        leave.set()


async def _leave(leave: asyncio.Event, living: "asyncio.Task[None]", daemon: Daemon) -> None:
    await leave.wait()
    living.cancel()
    daemon.stopped.set()


async def _end_with(cut: asyncio.Event, daemon: Daemon, server: Server) -> None:
    await cut.wait()
    await daemon.terminate()
    server.remove()


def _listen(lifeline: int, cut: asyncio.Event) -> None:
    if os.read(lifeline, 4096) == b"":
        asyncio.get_running_loop().remove_reader(lifeline)
        cut.set()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="regions.local", description="one embedded cluster")
    parser.add_argument("--dir", type=Path, required=True, help="where it keeps its state")
    parser.add_argument("--socket", type=Path, help="the Unix socket it answers at")
    parser.add_argument("--config", type=Path, help="its configuration, .toml or .json")
    parser.add_argument(
        "--lifeline", type=int, metavar="FD", help="end everything once this pipe closes"
    )
    parser.add_argument(
        "--sweep", action="store_true", help="kill what a dead cluster of --dir left, and remove it"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
