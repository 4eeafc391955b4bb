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
from tests.builders import flat_egress, make_intent

LOG_NAME = "broker.db"  # the log within brokerd's data directory
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
            # The ranks are not in step here: what is one save ago, each of them has made.
            job.acknowledge(step - step % 5 - 5)
            job.stand_by()
            sys.exit(training.EXIT_DRAINED)
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """The clusters that brokers come and go over, by region."""

    root: Path
    worlds: dict[str, WorldConfig]

    def connect(self) -> dict[str, LocalCluster]:
        """Return the port to each cluster."""
        return {
            world.cluster: LocalCluster(
                cluster=world.cluster,
                region=region,
                socket=socket_of(self.root / region),
                store=store.DirectoryStore(world.store),
                deadlines=Deadlines(call_s=5.0, store_s=10.0, gate_fresh_s=4.0),
            )
            for region, world in self.worlds.items()
        }


@dataclass(slots=True)
class Fleet:
    """One broker over its clusters, and what a test asks of them."""

    stage: Stage
    data: Path
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

    async def allow_replacement(self, region: str, after_s: float) -> None:
        """Say that gangs in a region may be replaced when it cannot be reached."""
        state = self.ledger.region(region)
        policy = replace(state.policy, replace_unreachable_after_s=after_s)
        command = SetPolicy(policy=policy, expected_generation=state.generation)
        await self.ledger.handle(f"regions/{region}", command, USER)

    async def hide_store(self, region: str) -> None:
        """Take a region's store away: without its marker the directory is no store."""
        marker = Path(self.stage.worlds[region].store) / store.MARKER
        await asyncio.to_thread(marker.rename, marker.with_name("away"))

    async def show_store(self, region: str) -> None:
        """Bring a region's store back."""
        marker = Path(self.stage.worlds[region].store) / store.MARKER
        await asyncio.to_thread(marker.with_name("away").rename, marker)

    async def preempt(self, run: Run, notice_s: float) -> None:
        """Take the machines of a run's open epoch."""
        epoch = run.open_epoch
        assert epoch is not None
        fault = faults.Preempt(placement=epoch.placement, notice_s=notice_s)
        await self.clusters[epoch.cluster].inject(fault)


@asynccontextmanager
async def make_stage(*regions: str) -> AsyncIterator[Stage]:
    """Start one embedded cluster in each region; leave nothing behind."""
    root = Path(tempfile.mkdtemp(prefix="fleet-"))
    # Each region is a little dearer than the one before, so that a test knows the first choice.
    worlds = {
        region: make_world(region, root, make_flavor(price_per_gpu_hour=Decimal(2) + index))
        for index, region in enumerate(regions)
    }
    stage = Stage(root, worlds)
    clusters = stage.connect()
    processes = []
    try:
        for region, world in stage.worlds.items():
            store.DirectoryStore.create(world.store)
            cluster = clusters[world.cluster]
            processes.append(await ensure_running(cluster, root / region, world))
        yield stage
    finally:
        await stop_all({root / c.region: c for c in clusters.values()})
        for process in processes:
            if process is not None:
                process.wait(10)
        shutil.rmtree(root, ignore_errors=True)


@asynccontextmanager
async def make_fleet(*regions: str) -> AsyncIterator[Fleet]:
    """Start a broker over one embedded cluster in each region; leave nothing behind."""
    async with make_stage(*regions) as stage, brokered(stage, stage.root / "data") as fleet:
        yield fleet


@asynccontextmanager
async def brokered(stage: Stage, data: Path) -> AsyncIterator[Fleet]:
    """Run a broker's log and agents over clusters that are there; then leave it as a crash does."""
    await asyncio.to_thread(data.mkdir, exist_ok=True)
    clock = SystemClock(read_mark(data / LOG_NAME), MachineReadings())
    ledger = open_ledger(data / LOG_NAME, clock, regions=stage.worlds, is_threaded=True)
    if ledger.broker().incarnation == 0:
        await begin(ledger, stage)
    clusters = stage.connect()
    bundles = BundleFolder(data / "uploads" / "bundles")
    bundles.prepare()
    ids = Ids()
    async with Transfers(max_parallel=2) as looks, Transfers(max_parallel=2) as copies:
        content = Content(
            stores={region: DirectoryStore(Path(w.store)) for region, w in stage.worlds.items()},
            uploads=DirectoryStore.create(data / "uploads"),
            looks=looks,
            copies=copies,
            off_loop=in_thread,
            clock=clock,
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
                locations={},
                controls={r: store.DirectoryStore(w.store) for r, w in stage.worlds.items()},
                retention_s=90 * 86_400.0,
                off_loop=in_thread,
                egress_price=flat_egress,
                clock=clock,
            )
        )
        async with Supervisor(lambda name: None) as supervisor:
            keep_all(agents, supervisor, clock, Pace(look_s=0.1, converge_s=0.5, place_s=0.5))
            yield Fleet(
                stage=stage, data=data, ledger=ledger, agents=agents, clusters=clusters, ids=ids
            )
            supervisor.stop()
        await ledger.close()


async def begin(ledger: Ledger, stage: Stage) -> None:
    """Begin a log's first life, with policies that are quick to judge."""
    ops = Actor(kind=ActorKind.OPS, name="test")
    await ledger.handle("broker", BeginIncarnation(incarnation=1, is_restored=False), ops)
    policy = RegionPolicy(
        patience=Patience(verdict_s=3.0, capacity_s=2.0, partial_s=1.0), fence_grace_s=2.0
    )
    for region in stage.worlds:
        command = SetPolicy(policy=policy, expected_generation=1)
        await ledger.handle(f"regions/{region}", command, ops)


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
