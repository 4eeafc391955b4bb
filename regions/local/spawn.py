"""Embedded clusters brought to life beside their broker, and found alive by the next one.

The rule: a cluster is a process of its own, in a session of its own; it outlives whoever started
it, unless a lifeline was tied. Read ``ensure_running`` first.
"""

import asyncio
import errno
import hashlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

from regions.cluster import ClusterUnreachableError
from regions.local import clock
from regions.local.client import LocalCluster
from regions.local.config import WorldConfig, dump
from regions.local.disk import DirectoryInUseError
from regions.local.server import MAX_PATH_BYTES
from regions.local.sweep import sweep

START_S = 30.0
"""A cluster answers within a second; a machine that is busy with others takes longer."""
STATE, CONFIG, LOG = "state", "config.json", "cluster.log"


class ClusterDidNotStartError(Exception):
    """The cluster's process ended, or does not answer; the message holds its last words."""


def socket_of(directory: Path) -> Path:
    """Where the cluster of a directory answers: in it, or, if that path is too long for a socket,
    in a folder of this user under the temporary one."""
    socket = directory.resolve() / "run" / "socket"
    if len(os.fsencode(socket)) <= MAX_PATH_BYTES:
        return socket
    digest = hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"cluster-{os.geteuid()}-{digest}" / "socket"


def has_lived(directory: Path) -> bool:
    """Whether the cluster of a directory was ever started."""
    return (directory / STATE).is_dir()


def was_killed(directory: Path) -> bool:
    """Whether the cluster of a directory is gone without having been ended: its state and its
    socket are there, and nobody listens. One that is slow, or plays an outage, listens."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)) as probe:
        refused = probe.connect_ex(str(socket_of(directory))) == errno.ECONNREFUSED
    return refused and has_lived(directory)


async def ensure_running(
    cluster: LocalCluster, directory: Path, config: WorldConfig, lifeline: int | None = None
) -> "subprocess.Popen[bytes] | None":
    """Start the cluster of a directory, unless one answers there, and wait until it answers.

    ``cluster`` must be connected to ``socket_of(directory)``. ``lifeline`` is the reading end of a
    pipe: the cluster ends everything once its other end closes. Returns the process if one was
    started; whoever keeps it hears of its end. Raises ClusterDidNotStartError.
    """
    if await _answers(cluster):
        return None
    process = _start(directory, config, lifeline)
    give_up_s = clock.monotonic_s() + START_S
    while clock.monotonic_s() < give_up_s:
        if await _answers(cluster):
            return process
        if process.poll() is not None:
            break
        await clock.pause(0.05)
    raise ClusterDidNotStartError(f"{config.cluster} did not start: {_last_words(directory)}")


def _start(directory: Path, config: WorldConfig, lifeline: int | None) -> "subprocess.Popen[bytes]":
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    config_file = directory / CONFIG
    config_file.write_bytes(dump(config))
    options = ["--dir", str(directory / STATE), "--socket", str(socket_of(directory))]
    options += ["--config", str(config_file)]
    options += ["--lifeline", str(lifeline)] if lifeline is not None else []
    with (directory / LOG).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "regions.local", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=() if lifeline is None else (lifeline,),
        )


async def _answers(cluster: LocalCluster) -> bool:
    with suppress(ClusterUnreachableError):
        await cluster.ping()
        return True
    return False


def _last_words(directory: Path) -> str:
    with suppress(OSError):
        return (directory / LOG).read_text(errors="replace")[-500:].strip()
    return "it left no word"


async def stop_all(clusters: Mapping[Path, LocalCluster]) -> None:
    """End every cluster by its directory, also one that is dead: gangs and files and all."""
    async with asyncio.TaskGroup() as group:
        for directory, cluster in clusters.items():
            group.create_task(_stop(directory, cluster))


async def _stop(directory: Path, cluster: LocalCluster) -> None:
    with suppress(ClusterUnreachableError):
        await cluster.terminate()
    await asyncio.to_thread(_clear, directory)


def _clear(directory: Path) -> None:
    # A daemon that has just answered its last question may hold its lock for a moment more.
    for _ in range(50):
        with suppress(DirectoryInUseError):
            sweep(directory / STATE)
            break
        time.sleep(0.1)
    for path in (directory / LOG, directory / CONFIG, socket_of(directory)):
        path.unlink(missing_ok=True)
    for folder in (socket_of(directory).parent, directory):
        with suppress(OSError):
            folder.rmdir()
