"""A brokerd with its embedded default, for as long as a figure is measured.

The rule: whatever ends the bench ends it: everything hangs on a pipe. Read ``Household`` first.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from broker.embedded import default_worlds
from broker.sdk import AsyncClient
from broker.sdk.settings import find
from regions.launcher.store import DirectoryStore
from regions.local.client import LocalCluster
from regions.local.spawn import socket_of

READY_WITHIN_S = 60.0
LOOK_S = 0.005
TEAM = "bench"
COMPILED = Path(__file__).parents[2] / "build" / "compiled"
_BROKERD = (sys.executable, "-m", "broker.daemon")


def as_installed() -> dict[str, str]:
    """Return the environment of a program that was installed: its modules are compiled.

    Not what this process was told about them: it may keep none, and then each start of a program
    would be measured with a compiler in it.
    """
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(COMPILED)}


class Household:
    """One brokerd and its regions, in a folder of their own. Use it as a context manager."""

    def __init__(self) -> None:
        self.data = Path(tempfile.mkdtemp(prefix="bench-"))
        self.address = f"unix:{self.data / 'brokerd.sock'}"
        self._lifeline, self._held = os.pipe()
        self._brokerd: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        os.close(self._held)  # the clusters end with it
        subprocess.run(
            [*_BROKERD, "stop-embedded", "--data-dir", str(self.data)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            env=as_installed(),
        )
        os.close(self._lifeline)
        shutil.rmtree(self.data, ignore_errors=True)

    @property
    def pid(self) -> int:
        """The process id of brokerd."""
        assert self._brokerd is not None
        return self._brokerd.pid

    def start(self) -> None:
        """Start brokerd over the data that is there."""
        with (self.data / "brokerd.log").open("ab") as log:
            self._brokerd = subprocess.Popen(
                [*_BROKERD, "--data-dir", str(self.data), "--lifeline", str(self._lifeline)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(self._lifeline,),
                start_new_session=True,
                env=as_installed(),
            )

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End brokerd, and nothing else."""
        if self._brokerd is not None:
            self._brokerd.send_signal(number)
            try:
                self._brokerd.wait(20)
            except subprocess.TimeoutExpired:
                self._brokerd.kill()
                self._brokerd.wait()
            self._brokerd = None

    def client(self) -> AsyncClient:
        """Return a client of the bench's team."""
        return AsyncClient(find(server=self.address, team=TEAM), retry_for_s=0.0)

    def clusters(self) -> dict[str, LocalCluster]:
        """Return a port of one's own to each region's cluster."""
        return {
            world.region: LocalCluster(
                cluster=world.cluster,
                region=world.region,
                socket=socket_of(directory),
                store=DirectoryStore(world.store),
            )
            for directory, world in default_worlds(self.data).items()
        }

    def store(self, region: str) -> Path:
        """Return a region's store."""
        return next(
            Path(world.store)
            for world in default_worlds(self.data).values()
            if world.region == region
        )

    async def until_ready(self) -> None:
        """Wait until brokerd answers. Raises RuntimeError with its last words."""
        # A channel that was refused waits before it tries again, and so does the next one to the
        # same address: none is made before somebody listens.
        await self.until_listening()
        async with self.client() as client:
            await client.teams.broker()

    async def until_listening(self) -> None:
        """Wait until brokerd takes connections. Raises RuntimeError with its last words."""
        give_up_s = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < give_up_s:
            if self._brokerd is not None and self._brokerd.poll() is not None:
                break
            with socket.socket(socket.AF_UNIX) as trying:
                if trying.connect_ex(self.address.removeprefix("unix:")) == 0:
                    return
            await asyncio.sleep(LOOK_S)
        words = (self.data / "brokerd.log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"brokerd does not answer: {words}")
