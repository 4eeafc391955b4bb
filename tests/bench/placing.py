"""One tick of the placer after one change, over 50 full clusters and a long line of runs.

Everything is real but the clusters, of which only what they would show is made up: the log on the
disk, the view, the judgement, the plan, and the commands that follow from it. The changes come in
turn: a run is submitted and accepted; a cluster's queue grows; a cluster has room for one gang.
Read ``measure`` first.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path

from broker.assembly import RUNS_AT_ONCE
from broker.history.commands import AcceptRun, BeginIncarnation, SubmitRun
from broker.loops.content import Content
from broker.loops.engine import Parts, make_agents
from broker.loops.off_loop import in_thread
from broker.loops.outposts import Outpost
from broker.loops.placer import Placer
from broker.loops.sight import Sight
from broker.model.intent import CapacityType, HardwareOption, Intent, Terms, Workload
from broker.runtime.clock import MachineReadings, SystemClock
from broker.runtime.entropy import Ids
from broker.service.bundles import BundleFolder
from broker.store.ledger import LOG_NAME, Ledger, open_ledger
from regions.capacity import FlavorSeen, QueueSeen
from regions.cluster import ClusterObservation
from regions.launcher.store import DirectoryStore as LauncherStore
from regions.local.client import LocalCluster
from replicator.stores.directory import DirectoryStore
from replicator.transfers import Transfers
from tests.bench.figure import Figure, Size, median
from tests.builders import BROKER, flat_egress

CLUSTERS = 50
NODES = 16
TEAMS = 10
AT_ONCE = 200


async def measure(size: Size) -> list[Figure]:
    """Measure each length in its turn, and all of them again, so that a slow minute hits all."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        async with AsyncExitStack() as stack:
            yards = [
                await stack.enter_async_context(_yard(Path(name) / f"{waiting}", waiting))
                for waiting in size.waiting
            ]
            ticks: list[list[float]] = [[] for _ in yards]
            for number in range(size.ticks):
                for yard, taken in zip(yards, ticks, strict=True):
                    taken.append(await yard.tick(number))
    medians = [median([seconds * 1000 for seconds in taken]) for taken in ticks]
    worst = [sorted(taken)[-max(1, len(taken) // 20)] * 1000 for taken in ticks]
    figures = [
        Figure(
            name=f"one placing tick, {waiting:,} runs waiting",
            value=value,
            aim="< 50",
            unit="ms",
            anchor=f"{CLUSTERS} clusters, {size.ticks} ticks, 95 of 100 within {late:.3g} ms",
        )
        for waiting, value, late in zip(size.waiting, medians, worst, strict=True)
    ]
    flatness = Figure(
        name="one placing tick, most over fewest waiting",
        value=median([medians[-1] / medians[0]]),
        aim="<= 1.3",
        unit="ratio",
        anchor=f"{size.waiting[-1]:,} over {size.waiting[0]:,} runs waiting",
    )
    return [*figures, flatness]


class Yard:
    """A placer with a line of runs before it, and the hands that change its world."""

    def __init__(self, ledger: Ledger, placer: Placer, sight: Sight, clock: SystemClock) -> None:
        self._ledger = ledger
        self._placer = placer
        self._sight = sight
        self._clock = clock
        self._ids = Ids()
        self._submitted = 0

    async def fill(self, waiting: int) -> None:
        """Let so many runs stand in line, and everything that follows from that be decided."""
        for number in range(CLUSTERS):
            self.show(number, pending=0, reserved=NODES)
        for first in range(0, waiting, AT_ONCE):
            await asyncio.gather(*(self.submit() for _ in range(min(AT_ONCE, waiting - first))))
        await self.settle()

    async def submit(self) -> None:
        """Submit a run and accept it."""
        number, self._submitted = self._submitted, self._submitted + 1
        team = f"team-{number % TEAMS}"
        name = f"teams/{team}/runs/run-{number}"
        gang = HardwareOption(accelerator="H100", accelerators_per_node=1, nodes=2 ** (number % 4))
        intent = Intent(
            team=team,
            owner="ada",
            workload=Workload(command=("python3", "train.py"), hardware=(gang,)),
            terms=Terms(capacity_types=(CapacityType.SPOT,)),
        )
        command = SubmitRun(
            name=name,
            uid=self._ids.run_uid(),
            intent=intent,
            request_id=f"request-{number}",
            body_digest=f"{number}",
        )
        await self._ledger.submit(command, BROKER)
        await self._ledger.handle(name, AcceptRun(), BROKER)

    async def settle(self) -> None:
        """Tick until a tick has nothing left to do."""
        while True:
            before = await self._ledger.head()
            await self._placer.tick()
            if await self._ledger.head() == before:
                return

    async def tick(self, number: int) -> float:
        """Make one change; return the seconds of the tick that answers it."""
        match number % 3:
            case 0:
                await self.submit()
            case 1:
                self.show(number % CLUSTERS, pending=number, reserved=NODES)
            case _:
                self.show(number % CLUSTERS, pending=0, reserved=NODES - 8)
        gc.collect()  # what the other yards left is not this one's to clear away
        began_s = time.perf_counter()
        await self._placer.tick()
        taken_s = time.perf_counter() - began_s
        await self.settle()
        return taken_s

    def show(self, number: int, *, pending: int, reserved: int) -> None:
        """Let a cluster be seen as it would show itself."""
        seen = observation(number, pending=pending, reserved=reserved)
        self._sight.saw(seen, self._clock.now(), ())


def _yard(folder: Path, waiting: int) -> _Opened:
    return _Opened(folder, waiting)


class _Opened:
    """Opens a yard with so many runs in it, and closes it."""

    def __init__(self, folder: Path, waiting: int) -> None:
        self._folder = folder
        self._waiting = waiting
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Yard:
        folder, stack = self._folder, self._stack
        folder.mkdir()
        clock = SystemClock(None, MachineReadings())
        regions = [_region(number) for number in range(CLUSTERS)]
        ledger = open_ledger(folder / LOG_NAME, clock, regions=regions, is_threaded=True)
        stack.push_async_callback(ledger.close)
        await ledger.handle("broker", BeginIncarnation(incarnation=1, is_restored=False), BROKER)
        work = await stack.enter_async_context(Transfers(max_parallel=1))
        content = Content(
            stores={},
            uploads=DirectoryStore.create(folder / "uploads"),
            looks=work,
            copies=work,
            off_loop=in_thread,
            clock=clock,
        )
        bundles = BundleFolder(folder / "bundles")
        bundles.prepare()
        agents = make_agents(
            Parts(
                log=ledger,
                outposts=tuple(_outpost(folder, number) for number in range(CLUSTERS)),
                content=content,
                bundles=bundles,
                regions_needing_image=frozenset(),
                draws=Ids(),
                clock=clock,
                locations={},
                controls={},
                retention_s=90 * 86_400.0,
                off_loop=in_thread,
                egress_price=flat_egress,
                runs_at_once=RUNS_AT_ONCE,
            )
        )
        yard = Yard(ledger, agents.placer, agents.sight, clock)
        await yard.fill(self._waiting)
        return yard

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


def observation(number: int, *, pending: int, reserved: int) -> ClusterObservation:
    """Return what a cluster with one queue of one flavor would show."""
    flavor = FlavorSeen(
        flavor="h100-spot",
        accelerator="H100",
        accelerators_per_node=1,
        capacity_type="SPOT",
        zones=(f"{_region(number)}-a",),
        price_per_gpu_hour=Decimal(2) + Decimal(number) / 100,
        nominal=NODES,
        reserved=reserved,
        used=reserved,
        parked=0,
        borrowable=0,
        nodes_free=NODES - reserved,
        nodes_coming=0,
        max_nodes=NODES,
        startup_s=120.0,
        preemption_notice_s=30.0,
    )
    queue = QueueSeen(
        queue="research",
        is_stopped=False,
        pending=pending,
        pending_gpus=8 * pending,
        flavors=(flavor,),
    )
    return ClusterObservation(
        cluster=_cluster(number),
        region=_region(number),
        seen_at_s=time.monotonic(),
        is_whole=True,
        is_store_readable=True,
        blind=(),
        queues=(queue,),
        placements={},
        epochs={},
        signals=(),
        changed=frozenset(),
        keeps_secrets=False,
    )


def _outpost(folder: Path, number: int) -> Outpost:
    port = LocalCluster(
        cluster=_cluster(number),
        region=_region(number),
        socket=folder / "nobody",
        store=LauncherStore(str(folder)),
    )
    return Outpost(cluster=port.cluster, region=port.region, port=port)


def _cluster(number: int) -> str:
    return f"cluster-{number}"


def _region(number: int) -> str:
    return f"region-{number}"
