"""A whole broker without its edge: the real log, the real agents, real clusters, real gangs.

The rule it keeps: nothing is faked; a test waits on what the log says, never on time passing.
Read ``Fleet.submit`` first.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from broker.history.commands import BeginIncarnation, CancelRun, RunCommand, SetPolicy, SubmitRun
from broker.history.events import Event
from broker.loops.content import Content
from broker.loops.engine import Agents, Parts, make_agents
from broker.loops.off_loop import in_thread
from broker.loops.outposts import Outpost
from broker.loops.running import Pace, keep_all
from broker.model.actor import Actor, ActorKind
from broker.model.intent import CapacityType, CheckpointSpec, HardwareOption, Terms, Workload
from broker.model.policy import Patience, RegionPolicy
from broker.model.run import Run
from broker.runtime.clock import MachineReadings, SystemClock
from broker.runtime.entropy import Ids
from broker.runtime.tasks import Supervisor
from broker.service.bundles import BundleFolder
from broker.store.ledger import Ledger, open_ledger, read_mark
from regions.launcher import store
from regions.local import faults
from regions.local.client import Deadlines, LocalCluster
from regions.local.config import (
    FlavorConfig,
    LauncherConfig,
    QueueConfig,
    QuotaConfig,
    WorldConfig,
)
from regions.local.spawn import ensure_running, socket_of, stop_all
from replicator.stores.directory import DirectoryStore
from replicator.transfers import Transfers
from tests.builders import make_intent

USER = Actor(kind=ActorKind.USER, name="ada")
FLAVOR = "h100-spot"
TRAIN = """
import json, sys, time
from broker.sdk import training
steps, pause = int(sys.argv[1]), float(sys.argv[2])
with training.Job.from_env() as job:
    resumed = job.resume_dir()
    start = 0 if resumed is None else training.step_of(resumed)
    for step in range(start + 1, steps + 1):
        time.sleep(pause)
        job.report(step, loss=1.0 / step)
        if step % 5 == 0:
            with job.saving(step) as part:
                (part / f"rank-{job.grant.rank}.json").write_text(json.dumps(step))
        if job.drain() is not None:
            # The ranks are not in step here, so only what each of them has saved is kept.
            job.acknowledge(step - step % 5)
            job.stand_by()
            sys.exit(training.EXIT_DRAINED)
"""


@dataclass(slots=True)
class Fleet:
    """One broker over its clusters, and what a test asks of them."""

    root: Path
    ledger: Ledger
    agents: Agents
    clusters: dict[str, LocalCluster]
    ids: Ids

    async def submit(
        self,
        name: str,
        *,
        steps: int = 10,
        pause_s: float = 0.02,
        command: tuple[str, ...] = (),
        **terms: object,
    ) -> str:
        """Submit a gang of two ranks, one GPU each; return the run's name."""
        command = command or (sys.executable, "-c", TRAIN, str(steps), str(pause_s))
        workload = Workload(
            command=command,
            hardware=(HardwareOption(accelerator="H100", accelerators_per_node=1, nodes=2),),
            env=(("PYTHONPATH", str(Path(__file__).parents[3])),),
            checkpoint=CheckpointSpec(keep_last=2),
        )
        given = replace(Terms(capacity_types=(CapacityType.SPOT,)), **terms)  # type: ignore[arg-type]
        intent = make_intent(workload=workload, terms=given)
        run = f"teams/{intent.team}/runs/{name}"
        await self.ledger.submit(
            SubmitRun(
                name=run,
                uid=self.ids.run_uid(),
                intent=intent,
                request_id=name,
                body_digest="b" * 64,
            ),
            USER,
        )
        return run

    async def tell(self, name: str, command: RunCommand) -> None:
        """Command something as a user."""
        await self.ledger.handle(name, command, USER)

    async def cancel(self, name: str, grace_s: float = 0.0) -> None:
        """Cancel a run."""
        await self.tell(name, CancelRun(grace_s=grace_s, message="not needed any more"))

    def run(self, name: str) -> Run:
        """The run as it is now."""
        run = self.ledger.run(name)
        assert run is not None
        return run

    async def until(self, name: str, holds: Callable[[Run], bool], within_s: float = 40.0) -> Run:
        """Wait until the log says something of a run; fail with its story when it does not."""
        try:
            async with asyncio.timeout(within_s):
                with self.ledger.feed.watch(name) as bell:
                    while not holds(self.run(name)):
                        await bell.wait()
        except TimeoutError:
            raise AssertionError("\n".join(await self.story(name))) from None
        return self.run(name)

    async def events(self, name: str) -> list[Event]:
        """All that happened to a run."""
        return [recorded.event for recorded in await self.ledger.read(name, 0, 1_000)]

    async def story(self, name: str) -> list[str]:
        """All that happened, a line each."""
        return [
            f"{one.at.elapsed_s:7.2f} {one.actor.name:10} {one.event}"
            for one in await self.ledger.read(name, 0, 1_000)
        ]

    async def preempt(self, run: Run, notice_s: float) -> None:
        """Take the machines of a run's open epoch."""
        epoch = run.open_epoch
        assert epoch is not None
        fault = faults.Preempt(placement=epoch.placement, notice_s=notice_s)
        await self.clusters[epoch.cluster].inject(fault)


@asynccontextmanager
async def make_fleet(*regions: str, **flavors: FlavorConfig) -> AsyncIterator[Fleet]:
    """Start a broker over one embedded cluster in each region; leave nothing behind."""
    root = Path(tempfile.mkdtemp(prefix="fleet-"))
    worlds = {
        region: make_world(region, root, flavors.get(region.replace("-", "_"), make_flavor()))
        for region in regions
    }
    clusters = {}
    processes = []
    try:
        for region, world in worlds.items():
            store.DirectoryStore.create(world.store)
            cluster = clusters[world.cluster] = LocalCluster(
                cluster=world.cluster,
                region=region,
                socket=socket_of(root / region),
                store=Path(world.store),
                incarnation=1,
                deadlines=Deadlines(call_s=5.0, store_s=10.0, gate_fresh_s=4.0),
            )
            processes.append(await ensure_running(cluster, root / region, world))
        async with brokered(root, worlds, clusters) as fleet:
            yield fleet
    finally:
        await stop_all({root / c.region: c for c in clusters.values()})
        for process in processes:
            if process is not None:
                process.wait(10)
        shutil.rmtree(root, ignore_errors=True)


@asynccontextmanager
async def brokered(
    root: Path, worlds: dict[str, WorldConfig], clusters: dict[str, LocalCluster]
) -> AsyncIterator[Fleet]:
    """Run a broker's log and agents over clusters that are there."""
    path = root / "log.sqlite"
    clock = SystemClock(read_mark(path), MachineReadings())
    ledger = open_ledger(path, clock, regions=worlds, is_threaded=True)
    ids = Ids()
    ops = Actor(kind=ActorKind.OPS, name="test")
    await ledger.handle("broker", BeginIncarnation(incarnation=1, is_restored=False), ops)
    policy = RegionPolicy(patience=Patience(verdict_s=3.0), fence_grace_s=2.0)
    for region in worlds:
        await ledger.handle(
            f"regions/{region}", SetPolicy(policy=policy, expected_generation=1), ops
        )
    bundles = BundleFolder(root / "content" / "bundles")
    bundles.prepare()
    async with Transfers(max_parallel=2) as looks, Transfers(max_parallel=2) as copies:
        content = Content(
            stores={region: DirectoryStore(Path(w.store)) for region, w in worlds.items()},
            uploads=DirectoryStore.create(root / "content"),
            looks=looks,
            copies=copies,
            off_loop=in_thread,
        )
        agents = make_agents(
            Parts(
                log=ledger,
                outposts=tuple(
                    Outpost(cluster=c.cluster, region=c.region, port=c) for c in clusters.values()
                ),
                content=content,
                bundles=bundles,
                regions_needing_image=frozenset(),
                draws=ids,
                folders={},
                controls={r: store.DirectoryStore(w.store) for r, w in worlds.items()},
                retention_s=90 * 86_400.0,
                off_loop=in_thread,
                clock=clock,
            )
        )
        async with Supervisor(lambda name: None) as supervisor:
            keep_all(agents, supervisor, clock, Pace(look_s=0.1, converge_s=0.5, place_s=0.5))
            yield Fleet(root=root, ledger=ledger, agents=agents, clusters=clusters, ids=ids)
            supervisor.stop()
        await ledger.close()


def make_flavor(**changes: object) -> FlavorConfig:
    """Return spot machines that come soon."""
    flavor: dict[str, object] = {
        "name": FLAVOR,
        "accelerator": "H100",
        "capacity_type": "SPOT",
        "zones": ("a",),
        "price_per_gpu_hour": Decimal("2.50"),
        "max_nodes": 4,
        "startup_s": 0.2,
        "preemption_notice_s": 5.0,
    }
    return FlavorConfig(**{**flavor, **changes})  # type: ignore[arg-type]


def make_world(region: str, root: Path, flavor: FlavorConfig) -> WorldConfig:
    """Return one region's cluster, with launchers that look often."""
    return WorldConfig(
        cluster=f"{region}-1",
        region=region,
        store=str(root / region / "store"),
        flavors=(flavor,),
        queues=(QueueConfig(name="train", quotas=(QuotaConfig(flavor=flavor.name, nominal=4),)),),
        launcher=LauncherConfig(
            gate_poll_s=0.1, gate_fresh_s=4.0, control_poll_s=0.2, report_s=0.2, end_retry_s=20.0
        ),
    )
