"""A broker whose ticks a test calls by hand, over a cluster that shows and does what it is told.

The rule it keeps: the log, the stores and the agents are the real ones; only the far side of the
port is scripted, and time moves when a test moves it. Read ``Handheld.settle`` first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from broker.history.commands import BeginIncarnation, RunCommand, SubmitRun
from broker.loops.content import Content
from broker.loops.engine import Agents, Parts, make_agents
from broker.loops.images import Images
from broker.loops.journeys import Journeys
from broker.loops.off_loop import at_once
from broker.loops.outposts import Outpost
from broker.model.intent import Workload
from broker.model.run import Placement, Run
from broker.runtime.clock import SystemClock
from broker.runtime.entropy import Ids
from broker.store.ledger import Ledger, open_ledger
from regions.capacity import FlavorSeen, QueueSeen
from regions.cluster import (
    Action,
    ClusterObservation,
    ClusterUnreachableError,
    Manifest,
    Outcome,
    PlacementSeen,
    Queue,
)
from regions.launcher import store
from regions.local.faults import Fault
from replicator.hashing import OnChunk
from replicator.stores.directory import DirectoryStore
from replicator.transfers import Ticket, TransferKey
from tests.builders import BROKER, flat_egress, make_intent, make_workload
from tests.fakes.images import FakeRegistries, make_book
from tests.fakes.readings import HandReadings
from tests.unit.loops import seeing

T = TypeVar("T")


DONE = Outcome(is_done=True)
ANSWERED_WITHIN = 8  # turns of the event loop


class AtOnce:
    """File work that is done when it is asked for."""

    in_flight: tuple[Ticket[object], ...] = ()

    def start(self, key: TransferKey, work: Callable[[OnChunk], T]) -> Ticket[T]:
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        ticket = Ticket(key, outcome)
        try:
            outcome.set_result(work(ticket.on_chunk))
        except Exception as error:  # noqa: BLE001 - it is the ticket's to tell
            outcome.set_exception(error)
        return ticket


@dataclass(slots=True)
class ScriptedCluster:
    """The far side of a port: shows ``shown``, answers each action with ``answer``.

    ``meanwhile`` goes on while it is looked at.
    """

    shown: ClusterObservation
    is_silent: bool = False
    answer: Outcome = DONE
    before_answer: Callable[[], Awaitable[None]] | None = None
    heard: list[Action] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def observe(self) -> ClusterObservation:
        if self.is_silent:
            raise ClusterUnreachableError("silent")
        if self.meanwhile is not None:
            await self.meanwhile()
        return self.shown

    async def apply(self, actions: tuple[Action, ...]) -> tuple[Outcome, ...]:
        self.heard += actions
        if self.before_answer is not None:
            await self.before_answer()
        return tuple(self.answer for _ in actions)

    def manifest(self, order: Queue) -> Manifest:
        spec = {"placement": order.placement, "whole": repr(order)}
        return Manifest(objects=({"kind": "Order", "spec": spec},), notes=("as it is",))

    async def logs(
        self, placement: str, rank: int, offset: int, follow: bool
    ) -> AsyncIterator[tuple[int, bytes]]:
        yield offset, b""

    async def inject(self, fault: Fault) -> Outcome:
        self.faults.append(fault)
        return self.answer

    def show(self, *placements: PlacementSeen) -> None:
        """Show these placements and no other."""
        self.shown = replace(self.shown, placements={one.placement: one for one in placements})


@dataclass(slots=True)
class Handheld:
    """One broker, its clusters by region, and the clock in a test's hand."""

    ledger: Ledger
    agents: Agents
    clusters: dict[str, ScriptedCluster]
    stores: dict[str, DirectoryStore]
    readings: HandReadings

    async def settle(self, seconds: float = 0.0) -> None:
        """Let time pass, then let every agent tick until all has been taken in."""
        self.readings.wait(seconds)
        agents = self.agents
        for _ in range(6):
            await self.decide()
            for converger in agents.convergers:
                async with converger.acting():
                    await converger.tick()
            await agents.pruner.tick()
            await agents.reaper.tick()

    async def decide(self) -> None:
        """Let those tick that look and decide."""
        agents = self.agents
        for observer in agents.observers:
            await observer.tick()
        await agents.validator.tick()
        await agents.placer.tick()
        await agents.carrier.tick()
        if agents.courier is not None:
            await agents.courier.tick()
            # What registries were asked is answered meanwhile.
            for _ in range(ANSWERED_WITHIN):
                await asyncio.sleep(0)

    async def submit(self, name: str = "digits", workload: Workload | None = None) -> str:
        """Submit a gang of two nodes."""
        intent = make_intent(workload=workload or make_workload())
        run = f"teams/{intent.team}/runs/{name}"
        command = SubmitRun(
            name=run, uid=name.ljust(20, "u"), intent=intent, request_id=name, body_digest="b" * 64
        )
        await self.ledger.submit(command, BROKER)
        return run

    async def tell(self, name: str, *commands: RunCommand) -> None:
        """Command something as it comes."""
        for command in commands:
            await self.ledger.handle(name, command, BROKER)

    def run(self, name: str) -> Run:
        """The run as it is now."""
        run = self.ledger.run(name)
        assert run is not None
        return run

    def leg(self, name: str) -> Placement:
        """The run's last placement."""
        return list(self.run(name).placements.values())[-1]


def queue_seen(price: Decimal, nodes_free: int) -> QueueSeen:
    """Show the builders' queue, with room for many gangs."""
    flavor = FlavorSeen(
        flavor="spot",
        accelerator="h100",
        accelerators_per_node=1,
        capacity_type="SPOT",
        zones=(),
        price_per_gpu_hour=price,
        nominal=64,
        reserved=0,
        used=0,
        parked=0,
        borrowable=0,
        nodes_free=nodes_free,
        nodes_coming=0,
        max_nodes=64,
        startup_s=60.0,
        preemption_notice_s=30.0,
    )
    return QueueSeen(queue="train", is_stopped=False, pending=0, pending_gpus=0, flavors=(flavor,))


@asynccontextmanager
async def handheld(
    root: Path,
    *regions: str,
    is_restored: bool = False,
    nodes_free: int = 8,
    key: str = "the log's own",
    runs_at_once: int = 1,
    registries: FakeRegistries | None = None,
) -> AsyncIterator[Handheld]:
    """Make a broker over one scripted cluster in each region; the first is the cheapest.

    With nodes free a single leg gets its grant with its placement. With ``registries`` each region
    pulls from one of its own.
    """
    async with AsyncExitStack() as stack:
        images = None
        if registries is not None:
            asks = await stack.enter_async_context(Journeys(max_parallel=8))
            copies = await stack.enter_async_context(Journeys(max_parallel=8))
            images = Images(make_book(*regions), registries, asks=asks, copies=copies)
        beginning = BeginIncarnation(incarnation=1, is_restored=is_restored, key=key)
        made = await _made(
            root, regions, beginning, nodes_free, runs_at_once=runs_at_once, images=images
        )
        yield made
        await made.ledger.close()


async def _made(
    root: Path,
    regions: tuple[str, ...],
    begin: BeginIncarnation,
    nodes_free: int,
    *,
    runs_at_once: int,
    images: Images | None,
) -> Handheld:
    readings = HandReadings()
    clock = SystemClock(None, readings)
    ledger = open_ledger(root / "broker.db", clock, regions=regions, is_threaded=False)
    await ledger.handle("broker", begin, BROKER)
    clusters, controls, stores = {}, {}, {}
    for index, region in enumerate(regions):
        shown = seeing.observation(
            cluster=region, region=region, queues=(queue_seen(Decimal(2) + index, nodes_free),)
        )
        clusters[region] = ScriptedCluster(shown)
        controls[region] = store.DirectoryStore.create(str(root / region))
        stores[region] = DirectoryStore(root / region)
    agents = make_agents(
        Parts(
            log=ledger,
            outposts=tuple(
                Outpost(cluster=region, region=region, port=port)
                for region, port in clusters.items()
            ),
            content=Content(
                stores=stores,
                uploads=DirectoryStore.create(root / "uploads"),
                looks=AtOnce(),
                copies=AtOnce(),
                off_loop=at_once,
                clock=clock,
            ),
            bundles=NoBundles(),
            regions_needing_image=frozenset(),
            draws=Ids(),
            locations={},
            controls=controls,
            retention_s=90 * 86_400.0,
            off_loop=at_once,
            egress_price=flat_egress,
            clock=clock,
            runs_at_once=runs_at_once,
            images=images,
        )
    )
    return Handheld(ledger, agents, clusters, stores, readings)


class NoBundles:
    """Nothing was uploaded."""

    def size_bytes(self, digest: str) -> int | None:
        return None
