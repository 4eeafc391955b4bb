"""A brokerd and three embedded clusters that a test may kill, in a folder of their own.

The rule: nothing here is a stand-in: the same programs as anywhere, and SIGKILL. Whatever happens,
``close`` leaves no process and no file; should the test itself be killed, a pipe that only it holds
ends the clusters and their gangs. Read ``Town.start`` first.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path

from broker.sdk import AsyncClient, BrokerError
from broker.sdk.settings import find
from regions.cluster import ClusterUnreachableError, PlacementSeen, Stage
from regions.launcher.store import DirectoryStore
from regions.local.client import LocalCluster
from regions.local.config import (
    FlavorConfig,
    LauncherConfig,
    QueueConfig,
    QuotaConfig,
    WorldConfig,
    dump,
)
from regions.local.faults import Preempt
from regions.local.spawn import STATE, socket_of

REGIONS = ("us-east4", "europe-west1", "us-central1")
FLAVOR, ACCELERATOR, NODES = "h100-spot", "H100", 4
ANSWERS_WITHIN_S = 60.0
BROKERD = (sys.executable, "-m", "broker.daemon")


class Town:
    """One brokerd, three clusters."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="killed-"))
        self.data = self.folder / "data"
        self.diary = self.folder / "diary"
        self.address = f"unix:{self.data / 'brokerd.sock'}"
        self.diary.touch()
        self._config = self.folder / "brokerd.toml"
        self._config.write_text("".join(self._found(region) for region in REGIONS))
        self._lifeline, self._held = os.pipe()
        self._brokerd: subprocess.Popen[bytes] | None = None

    # ---- brokerd ----

    def client(self, retry_for_s: float) -> AsyncClient:
        return AsyncClient(find(server=self.address, team="killed"), retry_for_s=retry_for_s)

    def start(self) -> None:
        with (self.folder / "brokerd.log").open("ab") as log:
            self._brokerd = subprocess.Popen(
                [*BROKERD, *self._options(), "--lifeline", str(self._lifeline)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(self._lifeline,),
                start_new_session=True,
            )

    def kill(self) -> None:
        """End brokerd as a power cut would. What was started must still be there to be killed."""
        assert self._brokerd is not None
        ended = self._brokerd.poll()
        assert ended is None, f"brokerd ended by itself with {ended}: {self.last_words()}"
        self._brokerd.kill()
        self._brokerd.wait()
        self._brokerd = None

    def stop(self) -> int:
        """Ask brokerd to stop; return its exit status."""
        assert self._brokerd is not None
        self._brokerd.terminate()
        status = self._brokerd.wait(30)
        self._brokerd = None
        return status

    async def until_ready(self) -> None:
        """Wait until brokerd answers."""
        give_up_s = time.monotonic() + ANSWERS_WITHIN_S
        async with self.client(0.0) as client:
            while time.monotonic() < give_up_s:
                assert self._brokerd is not None
                assert self._brokerd.poll() is None, self.last_words()
                with contextlib.suppress(BrokerError):
                    await client.teams.broker()
                    return
                await asyncio.sleep(0.05)
        raise AssertionError(f"brokerd does not answer: {self.last_words()}")

    def tool(self, *words: str) -> str:
        """Run one of brokerd's tools over the data; return what it says. Raises when it fails."""
        done = subprocess.run(
            [*BROKERD, *words, *self._options()], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def errors(self) -> list[str]:
        """Return what brokerd logged as its own failures, in all of its lives."""
        text = (self.folder / "brokerd.log").read_text(errors="replace")
        return [line for line in text.splitlines() if "level=error" in line or "Traceback" in line]

    def last_words(self) -> str:
        log = self.folder / "brokerd.log"
        return log.read_text(errors="replace")[-2000:] if log.exists() else ""

    # ---- clusters ----

    def cluster(self, region: str) -> LocalCluster:
        """Return a port of the test's own, beside brokerd's."""
        return LocalCluster(
            cluster=f"local-{region}",
            region=region,
            socket=socket_of(self._home(region)),
            store=DirectoryStore(str(self._home(region) / "store")),
        )

    def kill_cluster(self, region: str) -> bool:
        """Kill a cluster's daemon, not its gangs. False when it is not there."""
        state = str(self._home(region) / STATE)
        pids = [pid for pid, words in processes() if "regions.local" in words and state in words]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return bool(pids)

    async def preempt(self, region: str, notice_s: float) -> bool:
        """Take the machines of one gang back. False when there is none, or no answer."""
        cluster = self.cluster(region)
        with contextlib.suppress(ClusterUnreachableError):
            seen = await cluster.observe()
            running = [
                p for p in seen.placements.values() if p.stage is Stage.STANDING and p.is_granted
            ]
            if running:
                fault = Preempt(placement=running[0].placement, notice_s=notice_s)
                return (await cluster.inject(fault)).is_done
        return False

    async def standing(self) -> list[PlacementSeen]:
        """Return what still waits, stands at a gate or runs in any cluster."""
        seen = [await self.cluster(region).observe() for region in REGIONS]
        placements = [placement for one in seen for placement in one.placements.values()]
        return [one for one in placements if one.stage is not Stage.ENDED]

    def gangs(self) -> list[str]:
        """Return the command lines of launchers and trainings that are still alive."""
        here = [words for _, words in processes() if any(str(self.folder) in w for w in words)]
        return [" ".join(words) for words in here if str(self.diary) in words]

    def close(self) -> None:
        """End all of it and remove the folder."""
        if self._brokerd is not None:
            self._brokerd.kill()
            self._brokerd.wait()
        try:
            self.tool("stop-embedded")
        finally:
            for pid in self._ours():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            os.close(self._held)
            os.close(self._lifeline)
            shutil.rmtree(self.folder, ignore_errors=True)

    def _ours(self) -> list[int]:
        folder = f"{self.folder}/"
        return [pid for pid, words in processes() if any(w.startswith(folder) for w in words)]

    def _options(self) -> list[str]:
        return ["--data-dir", str(self.data), "--config", str(self._config)]

    def _home(self, region: str) -> Path:
        return self.folder / region

    def _found(self, region: str) -> str:
        """Write a cluster's world; return what the configuration says of it."""
        home = self._home(region)
        home.mkdir()
        world = home / "world.json"
        world.write_bytes(dump(_world(region, home / "store")))
        return f'[[clusters]]\ndirectory = "{home}"\nworld = "{world}"\n'


def processes() -> list[tuple[int, list[str]]]:
    """Return every process of this machine with the words of its command."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal():
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                found.append((int(entry.name), words))
    return found


def _world(region: str, store: Path) -> WorldConfig:
    return WorldConfig(
        cluster=f"local-{region}",
        region=region,
        store=str(store),
        flavors=(
            FlavorConfig(
                name=FLAVOR,
                accelerator=ACCELERATOR,
                capacity_type="SPOT",
                zones=(f"{region}-a",),
                price_per_gpu_hour=Decimal(2),
                max_nodes=NODES,
                startup_s=0.3,
                preemption_notice_s=2.0,
            ),
        ),
        queues=(QueueConfig(name="research", quotas=(QuotaConfig(flavor=FLAVOR, nominal=NODES),)),),
        launcher=LauncherConfig(gate_poll_s=0.2, control_poll_s=0.5, report_s=0.5),
    )
