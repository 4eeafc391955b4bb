"""A real brokerd with its embedded default, for the length of a test module.

The rule it keeps: whatever happens to the tests, nothing of it is left: the embedded clusters and
their gangs end once the pipe that brokerd was given is closed. Read ``running`` first.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker.sdk import Client, find
from broker.sdk.errors import BrokerError

START_S = 90.0
STOP_S = 30.0
PAUSE_S = 0.1
TYPED_S = 120.0
TREE = Path(__file__).parents[2]


@dataclass
class Daemon:
    """One brokerd over one data directory; it can be killed and started again."""

    data: Path
    lifeline: int
    config: Path | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def server(self) -> str:
        """Where it listens."""
        return f"unix:{self.data}/brokerd.sock"

    def environment(self, team: str, home: Path | None = None) -> dict[str, str]:
        """What a command of the broker's is told, when ann types it; at home, in its data."""
        mine = {"HOME": str(home or self.data), "BROKER_SERVER": self.server, "BROKER_TEAM": team}
        ours = {"BROKER_USER": "ann", "PYTHONPATH": str(TREE), "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **mine, **ours}

    def typed(
        self, *words: str, environment: dict[str, str], folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the broker's in a folder, its data unless another is named."""
        return subprocess.run(
            [sys.executable, "-m", "broker.cli", *words],
            capture_output=True,
            text=True,
            timeout=TYPED_S,
            check=False,
            env=environment,
            cwd=folder or self.data,
        )

    def start(self) -> None:
        """Start it, and wait until every region is seen."""
        command = [sys.executable, "-m", "broker.daemon", "--data-dir", str(self.data)]
        command += ["--config", str(self.config)] if self.config is not None else []
        with (self.data / "brokerd.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--lifeline", str(self.lifeline)],
                pass_fds=(self.lifeline,),
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        until(self._is_ready, START_S, "brokerd sees its regions")

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.data / "brokerd.log").read_text()[-3000:]
        found = find(server=self.server, environ={"HOME": str(self.data)})
        try:
            with Client(found, retry_for_s=0) as client:
                regions = client.regions.find().regions
        except BrokerError:
            return False
        clusters = [cluster for region in regions for cluster in region.clusters]
        return len(clusters) == 3 and all(cluster.reachable for cluster in clusters)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it; the embedded clusters go on."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(STOP_S)


def _of_default(data: Path) -> None:
    """Configure nothing."""


@contextmanager
def running(
    configure: Callable[[Path], Path | None] = _of_default,
) -> Iterator[Daemon]:
    """Run one, on a path that is short enough for sockets. ``configure`` writes its configuration
    of three regions, if it needs one, given where its data will be."""
    data = Path(tempfile.mkdtemp(prefix="brk-", dir="/tmp"))
    reading, writing = os.pipe()
    daemon = Daemon(data, reading, configure(data))
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.stop()
        os.close(reading)
        os.close(writing)
        until(lambda: not _is_anyone_left(data), STOP_S, "the embedded clusters end")
        shutil.rmtree(data, ignore_errors=True)


def until(holds: object, within_s: float, what: str) -> None:
    """Wait until a condition holds. Fails after ``within_s`` seconds."""
    assert callable(holds)
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(PAUSE_S)


def _is_anyone_left(data: Path) -> bool:
    """Whether a process still names the data directory on its command line."""
    needle = os.fsencode(data)
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and needle in (entry / "cmdline").read_bytes():
                return True
        except OSError:
            continue
    return False
