"""The parts of a broker put together: clusters, content, agents, and what the edge asks of them.

The rule: nothing is decided here; this is the rest of the composition root, apart from the process
that it runs in. Read ``assemble`` first.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from broker.config import Config
from broker.fleet.fleet import Fleet, Links
from broker.fleet.pricing import open_egress
from broker.history.commands import BeginIncarnation
from broker.loops.content import Content
from broker.loops.desk import TURN
from broker.loops.engine import Agents, Parts, make_agents
from broker.loops.images import Images
from broker.loops.journeys import Journeys
from broker.loops.meter import Meter
from broker.loops.off_loop import in_thread
from broker.loops.running import Keeper, Pace, keep_all, keep_going
from broker.model.actor import Actor, ActorKind
from broker.runtime.clock import SystemClock
from broker.runtime.entropy import Ids
from broker.runtime.failures import Failures
from broker.runtime.metrics import Metrics
from broker.runtime.turns import Turns
from broker.service.bundles import BundleFolder
from broker.service.ports import Ports
from broker.store.ledger import Ledger
from broker.store.streams import BROKER_STREAM
from replicator.stores.directory import DirectoryStore
from replicator.transfers import Transfers

RUNS_AT_ONCE = 32  # commands of an agent that one fsync may serve
LOOKS_AT_ONCE = 4  # listings and checksums: bound by one machine's disks
COPIES_AT_ONCE = 2
ASKS_AT_ONCE = 16  # short questions to registries
IMAGES_AT_ONCE = 2  # of several layers each: more of them would share the same line
MARK_S = 5.0  # a downtime is known to so many seconds
DAY_S = 86_400.0
METER_S = 2.0
MEND_S = 5.0  # an embedded cluster that was killed is missed for so long
KEY_LENGTH = 32  # of the log's own secret: more than 160 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker that is put together and not running yet."""

    ports: Ports
    failures: Failures
    agents: Agents
    ledger: Ledger
    clock: SystemClock
    pace: Pace
    links: Links

    async def begin(self, keeper: Keeper, metrics: Metrics, lifeline: int | None) -> None:
        """Hand all that goes on by itself to a keeper, once the log is read.

        ``lifeline`` is tied to embedded clusters that have to be started again.

        Raises LogIncompatibleError or LogDamagedError when it cannot be.
        """
        # What follows clusters takes its time to see them first, and needs nothing of the log.
        self.links.keep(keeper)
        await self.ledger.whole()
        turns = Turns(TURN)
        for name in self.ledger.live_runs():
            self.ledger.feed.tell({name})
            self.agents.roster.refresh()
            await turns.pass_on()
        keep_all(self.agents, keeper, self.clock, self.pace)
        meter = Meter(self.ledger, self.agents, metrics, self.clock)
        keeper.keep("meter", meter.count)
        keeper.keep("gauges", lambda: keep_going(meter.tick, None, lambda: METER_S, self.clock))
        mark, mend = self.ledger.mark_time, partial(self.links.mend, lifeline)
        keeper.keep("mender", lambda: keep_going(mend, None, lambda: MEND_S, self.clock))
        keeper.keep("timekeeper", lambda: keep_going(mark, None, lambda: MARK_S, self.clock))


async def begin_life(ledger: Ledger) -> int:
    """Return the log's incarnation; a new log begins its first, with a key of its own."""
    if ledger.broker().incarnation == 0:
        key = Ids().text(KEY_LENGTH)
        command = BeginIncarnation(incarnation=1, is_restored=False, key=key)
        await ledger.handle(BROKER_STREAM, command, Actor(kind=ActorKind.BROKER, name="brokerd"))
    return ledger.broker().incarnation


async def assemble(
    stack: AsyncExitStack,
    config: Config,
    data: Path,
    *,
    ledger: Ledger,
    fleet: Fleet,
    links: Links,
    clock: SystemClock,
) -> Broker:
    """Put a broker together; what must be closed again goes onto the stack."""
    ids = Ids()
    bundles = BundleFolder(data / "uploads" / "bundles", size_max=config.data.bundle_max_bytes)
    uploads = await asyncio.to_thread(_prepare, data / "uploads", bundles)
    agents = make_agents(
        Parts(
            log=ledger,
            outposts=links.outposts,
            content=await _content(stack, fleet, uploads, clock),
            bundles=bundles,
            regions_needing_image=fleet.regions_needing_image,
            images=await _images(stack, config, fleet),
            draws=ids,
            clock=clock,
            locations=fleet.locations,
            controls={region: place.control() for region, place in fleet.stores.items()},
            retention_s=config.data.retention_days * DAY_S,
            off_loop=in_thread,
            egress_price=open_egress(config.prices),
            runs_at_once=RUNS_AT_ONCE,
        )
    )
    failures = Failures(clock, links.troubles)
    return Broker(
        failures=failures,
        ports=Ports(
            log=ledger,
            world=agents.answers,
            explainer=agents.answers,
            live=agents.answers,
            logs=agents.answers,
            checkpoints=agents.answers,
            manifests=agents.manifests,
            checks=agents.examiner,
            faults=agents.answers,
            bundles=bundles,
            workings=failures,
            clock=clock,
            draw=ids.text,
        ),
        agents=agents,
        ledger=ledger,
        clock=clock,
        pace=Pace(
            look_s=config.loops.observe_s,
            converge_s=config.loops.converge_s,
            place_s=config.loops.place_s,
        ),
        links=links,
    )


async def _content(
    stack: AsyncExitStack, fleet: Fleet, uploads: DirectoryStore, clock: SystemClock
) -> Content:
    """Open the stores of all regions for checkpoints and bundles."""
    # A bucket's identity may have to be asked for over the network.
    stores = await asyncio.to_thread(
        lambda: {region: place.content() for region, place in fleet.stores.items()}
    )
    return Content(
        stores=stores,
        uploads=uploads,
        looks=await stack.enter_async_context(Transfers(max_parallel=LOOKS_AT_ONCE)),
        copies=await stack.enter_async_context(Transfers(max_parallel=COPIES_AT_ONCE)),
        off_loop=in_thread,
        clock=clock,
    )


async def _images(stack: AsyncExitStack, config: Config, fleet: Fleet) -> Images | None:
    """Return who asks the registries that are configured, None where none is."""
    if not config.registries:
        return None
    # Only who has a registry pays for its client.
    from broker.fleet.registries import make_book, open_registries

    book = make_book(config.registries, fleet.regions_needing_image)
    return Images(
        book,
        await stack.enter_async_context(open_registries(config.registries, book)),
        asks=await stack.enter_async_context(Journeys(max_parallel=ASKS_AT_ONCE)),
        copies=await stack.enter_async_context(Journeys(max_parallel=IMAGES_AT_ONCE)),
    )


def _prepare(uploads: Path, bundles: BundleFolder) -> DirectoryStore:
    store = DirectoryStore.create(uploads)
    bundles.prepare()
    return store
