"""The stage of ``make demo-cluster``: three real Kueue regions, and a brokerd joined to them.

The rule: the story asks for a fault, and the rig's cloud does it: its pools are out of stock, its
machines end with a notice. Read ``Theatre``.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from broker.demo.stage import FIRST, REGIONS, SECOND, THIRD, StageError
from broker.sdk import AsyncClient
from broker.v1 import intent_pb2
from tests.cluster.rig import fleet
from tests.cluster.rig.brokerd import IMAGE, Brokerd, Joined
from tests.cluster.rig.building import RigNotBuiltError
from tests.cluster.rig.machines.pools import GPU, POOL, Pool
from tests.cluster.rig.manifests import namespace
from tests.cluster.rig.region import Region
from tests.cluster.rig.rig import Rig

NAMESPACE, QUEUE = "research", "training"
PRICES = {FIRST: "1.05", SECOND: "1.20", THIRD: "1.45"}
SHARES = (fleet.Share(capacity_type="SPOT", nominal=8),)
MACHINES = 8
DELAY_S = 1.0  # from a scale-up to its machines
START_S = 60.0


class Theatre:
    """A rig of three regions, each with a pool of spot machines that have one H100 each."""

    head = (
        "The capacity broker: a training run over three Kubernetes clusters, intent to result",
        "API servers, Kueue, JobSet, processes, training and checkpoints are real; machines and",
        "GPUs are counted, not there. About two minutes; Ctrl-C ends it and leaves nothing.",
    )

    def __init__(self) -> None:
        self.folder = Path()
        self._rig: Rig | None = None
        self._brokerd: Brokerd | None = None
        self._orders = ThreadPoolExecutor(MACHINES)

    def open(self) -> None:
        """Start the regions, and equip them as a platform team would."""
        self.folder = Path(tempfile.mkdtemp(prefix="demo-cluster-"))
        try:
            self._rig = Rig(REGIONS, self.folder / "rig")
            self._rig.start()
        except (RigNotBuiltError, TimeoutError) as error:
            raise StageError(str(error)) from error
        members = [equip(region) for region in self._rig.regions.values()]
        self._brokerd = Brokerd(self.folder / "broker", members)

    def close(self) -> bool:
        """End brokerd, the regions and their gangs, and remove the folder."""
        self._orders.shutdown()
        if self._brokerd is not None:
            self._brokerd.close()
        if self._rig is not None:
            self._rig.stop()
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)
        return self.folder == Path() or not self.folder.exists()

    @property
    def address(self) -> str:
        """Where brokerd listens."""
        return self.brokerd.address

    @property
    def pid(self) -> int:
        """The process id of brokerd; 0 when it does not run."""
        return self.brokerd.pid if self.brokerd.runs else 0

    @property
    def brokerd(self) -> Brokerd:
        """The brokerd, once the stage is open."""
        assert self._brokerd is not None, "the stage was not opened"
        return self._brokerd

    def region(self, name: str) -> Region:
        """Return a region of the rig, once the stage is open."""
        assert self._rig is not None, "the stage was not opened"
        return self._rig.regions[name]

    def start(self) -> None:
        """Start brokerd, without a wait."""
        self.brokerd.launch()

    def check(self, began_s: float) -> None:
        """Raise StageError when brokerd has ended, or takes longer than it may."""
        if not self.brokerd.runs:
            raise StageError(f"brokerd ended: {self.brokerd.last_words()}")
        if time.monotonic() - began_s > START_S:
            raise StageError(f"brokerd does not see its regions: {self.brokerd.last_words()}")

    async def is_ready(self, client: AsyncClient) -> bool:
        """Whether brokerd answers, and has seen each region."""
        found = await client.regions.find()
        return self.brokerd.sees(found.regions)

    def kill(self) -> None:
        """Kill brokerd, as a power cut would: SIGKILL."""
        self.brokerd.kill()

    def store(self, region: str) -> Path:
        """The directory that is a region's store."""
        return self.region(region).store

    def dress(self, intent: intent_pb2.Intent) -> None:
        """Name an image: clusters run no gang without one."""
        intent.workload.image = IMAGE

    async def run_short(self, client: AsyncClient, machines: int) -> None:
        """Let the pool of FIRST have so many more machines, and no more."""
        await self._change(FIRST, supply=machines)

    async def preempt(self, client: AsyncClient, notice_s: int) -> None:
        """End all spot machines of SECOND with a notice, and have no more of them."""
        await self._change(SECOND, supply=0)
        region, name = self.region(SECOND), pool(SECOND).name
        for node in await asyncio.to_thread(region.api.all, "v1", "Node"):
            if node["metadata"]["labels"][POOL] == name:
                # The answer comes when the machine is gone; the story goes on with the notice.
                self._orders.submit(region.preempt_node, node["metadata"]["name"], notice_s)

    async def _change(self, name: str, **fields: object) -> None:
        await asyncio.to_thread(self.region(name).change_pool, pool(name).name, **fields)


def equip(region: Region) -> Joined:
    """Give a region its queue and its pool; return how a brokerd joins it."""
    region.api.apply(*fleet.everything())
    region.set_pool(pool(region.name))
    region.api.apply(
        namespace(NAMESPACE),
        fleet.cluster_queue(QUEUE, SHARES),
        fleet.local_queue(QUEUE, NAMESPACE, QUEUE),
    )
    return Joined(
        region=region.name,
        kubeconfig=region.kubeconfig(),
        namespace=NAMESPACE,
        queue=QUEUE,
        store=region.store,
        prices={"spot": PRICES[region.name]},
        accelerators_per_node=1,
    )


def pool(region: str) -> Pool:
    """Return a region's pool: machines come when they are asked for, each with one H100."""
    made = fleet.pool("SPOT", f"{region}-a", is_autoscaled=True, delay_s=DELAY_S)
    made.max_nodes = MACHINES
    made.capacity = {**made.capacity, GPU: "1"}
    made.labels["node.kubernetes.io/instance-type"] = "a3-highgpu-1g"
    return made
