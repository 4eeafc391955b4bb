"""The embedded cluster as a world of the contract: a real daemon, real gangs."""

import asyncio
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

from regions.cluster import ClusterUnreachableError
from regions.launcher.store import DirectoryStore
from regions.local import faults
from regions.local.__main__ import main
from regions.local.client import Deadlines, LocalCluster
from regions.local.config import (
    FlavorConfig,
    LauncherConfig,
    QueueConfig,
    QuotaConfig,
    WorldConfig,
    dump,
)
from tests.contract.cluster.world import Knows, Shape

FLAVOR = "h100"


class LocalWorld:
    """One embedded cluster in ``root``, which must be a short path: a socket stands in it."""

    knows = Knows(most_nodes=True, ordered_nodes=True)

    def __init__(self, root: Path, shape: Shape) -> None:
        self.root = root
        self.store = root / "store"
        self.trace = root / "trace"
        self.directory = root / "cluster"
        self.socket = root / "run" / "socket"
        self.config = make_config(self.store, shape)
        self._config_file = root / "config.json"
        self._daemon: subprocess.Popen[bytes] | None = None
        DirectoryStore.create(str(self.store))
        self._config_file.write_bytes(dump(self.config))
        self.cluster = self.connect()

    def connect(self) -> LocalCluster:
        """The port, as a broker that starts anew would hold it."""
        return LocalCluster(
            cluster="west",
            region="eu-west4",
            socket=self.socket,
            store=DirectoryStore(str(self.store)),
            deadlines=Deadlines(call_s=2.0, store_s=10.0, gate_fresh_s=4.0),
        )

    @property
    def pid(self) -> int:
        """The daemon's process id."""
        assert self._daemon is not None
        return self._daemon.pid

    def wait(self) -> int:
        """Wait for the daemon's end."""
        assert self._daemon is not None
        return self._daemon.wait()

    async def stockout(self) -> None:
        await self.cluster.inject(faults.Stockout(flavor=FLAVOR))

    async def partial(self, nodes: int) -> None:
        await self.cluster.inject(faults.Partial(flavor=FLAVOR, nodes=nodes))

    async def restore(self) -> None:
        await self.cluster.inject(faults.Restore())

    async def preempt(self, placement: str, notice_s: float) -> None:
        await self.cluster.inject(faults.Preempt(placement=placement, notice_s=notice_s))

    async def lose_node(self, placement: str, rank: int) -> None:
        await self.cluster.inject(faults.NodeLost(placement=placement, rank=rank))

    async def recreate(self, placement: str) -> None:
        await self.cluster.inject(faults.Recreate(placement=placement))

    async def fill(self, queue: str, gpus: int, duration_s: float) -> None:
        fault = faults.Fill(queue=queue, flavor=FLAVOR, gpus=gpus, duration_s=duration_s)
        await self.cluster.inject(fault)

    async def counted(self, gpus: int) -> None:
        pass  # its figures are those by which it decides

    async def hold(self, is_held: bool) -> None:
        await self.cluster.inject(faults.Hold(queue="ours", is_held=is_held))

    async def turn_away(self) -> None:
        pass  # whoever looks holds nothing but a socket

    async def look_anew(self) -> None:
        self.cluster = self.connect()

    async def silence(self, duration_s: float) -> None:
        await self.cluster.inject(faults.Outage(duration_s=duration_s))

    async def book_nothing(self) -> None:
        await self.cluster.inject(faults.FlexSilent(flavor=FLAVOR))

    async def fail_booking(self, placement: str) -> None:
        await self.cluster.inject(faults.FlexFails(placement=placement))

    async def revoke_booking(self, placement: str) -> None:
        await self.cluster.inject(faults.FlexRevoked(placement=placement))

    async def kill_control_plane(self) -> None:
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGKILL)
        self._daemon.wait()

    async def start_control_plane(self) -> None:
        self._daemon = self._spawn()
        for _ in range(400):
            try:
                await self.cluster.observe()
            except ClusterUnreachableError:
                assert self._daemon.poll() is None, "the daemon ended"
                await asyncio.sleep(0.05)
            else:
                return
        raise AssertionError("the daemon does not answer")

    async def end(self) -> None:
        """Leave nothing behind, whatever the test has done."""
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait()
        assert main(["--dir", str(self.directory), "--sweep"]) == 0

    def _spawn(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "regions.local", *self.options()]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def options(self) -> list[str]:
        """What the daemon is started with."""
        return [
            *("--dir", str(self.directory)),
            *("--socket", str(self.socket)),
            *("--config", str(self._config_file)),
        ]


def make_config(store: Path, shape: Shape) -> WorldConfig:
    """The configuration of a world of this shape, with launchers that look often."""
    flavor = FlavorConfig(
        name=FLAVOR,
        accelerator="H100",
        capacity_type=shape.capacity_type,  # type: ignore[arg-type]
        zones=("eu-west4-a",),
        price_per_gpu_hour=Decimal("2.50"),
        max_nodes=shape.max_nodes,
        startup_s=shape.startup_s,
        preemption_notice_s=shape.preemption_notice_s,
        flex_wait_s=shape.flex_wait_s,
    )
    ours = QuotaConfig(flavor=FLAVOR, nominal=shape.nominal, borrowing_limit=shape.borrowing_limit)
    theirs = QuotaConfig(flavor=FLAVOR, nominal=shape.lent)
    return WorldConfig(
        cluster="west",
        region="eu-west4",
        store=str(store),
        flavors=(flavor,),
        queues=(
            QueueConfig(name="ours", quotas=(ours,)),
            QueueConfig(name="theirs", quotas=(theirs,), is_foreign=True),
        ),
        launcher=LauncherConfig(
            gate_poll_s=0.1, gate_fresh_s=4.0, control_poll_s=0.2, report_s=0.2, end_retry_s=20.0
        ),
    )
