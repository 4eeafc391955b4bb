"""The parts of a broker put together: clusters, content, agents, and what the edge asks of them.

The rule: nothing is decided here; this is the rest of the composition root, apart from the process
that it runs in. Read ``assemble`` first.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from broker.config import Config
from broker.embedded import default_worlds
from broker.history.commands import BeginIncarnation
from broker.loops.content import Content
from broker.loops.desk import TURN
from broker.loops.engine import Agents, Parts, make_agents
from broker.loops.meter import Meter
from broker.loops.off_loop import in_thread
from broker.loops.outposts import Outpost
from broker.loops.running import Keeper, Pace, keep_all, keep_going
from broker.model.actor import Actor, ActorKind
from broker.options import StartError
from broker.runtime.clock import SystemClock
from broker.runtime.entropy import Ids
from broker.runtime.failures import Failures
from broker.runtime.metrics import Metrics
from broker.runtime.turns import Turns
from broker.service.bundles import BundleFolder
from broker.service.ports import Ports
from broker.store.ledger import Ledger
from broker.store.streams import BROKER_STREAM
from regions.launcher.store import DirectoryStore as LauncherStore
from regions.local import config as worlds
from regions.local.client import LocalCluster
from regions.local.config import WorldConfig
from regions.local.spawn import (
    ClusterDidNotStartError,
    ensure_running,
    has_lived,
    socket_of,
    was_killed,
)
from replicator.stores.directory import DirectoryStore
from replicator.stores.port import ContentStore
from replicator.transfers import Transfers

RUNS_AT_ONCE = 32  # commands of an agent that one fsync may serve
LOOKS_AT_ONCE = 4  # listings and checksums: bound by one machine's disks
COPIES_AT_ONCE = 2
MARK_S = 5.0  # a downtime is known to so many seconds
DAY_S = 86_400.0
METER_S = 2.0
MEND_S = 5.0  # an embedded cluster that was killed is missed for so long
KEY_LENGTH = 32  # of the log's own secret: more than 160 bits

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The clusters that the configuration names, by the directory of each."""

    worlds: Mapping[Path, WorldConfig]

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions, sorted."""
        return tuple(sorted({world.region for world in self.worlds.values()}))

    def connect(self) -> dict[Path, LocalCluster]:
        """Return the port to each cluster."""
        return {
            directory: LocalCluster(
                cluster=world.cluster,
                region=world.region,
                socket=socket_of(directory),
                store=Path(world.store),
            )
            for directory, world in self.worlds.items()
        }

    async def start(self, clusters: Mapping[Path, LocalCluster], lifeline: int | None) -> None:
        """Make each new cluster's store, and start each cluster that does not answer.

        One that was there before and does not start is an outage of its region, and the others go
        on; its store is looked for and not made: an empty one in the place of a disk that is not
        mounted would say that nothing was ever started in it. Raises ClusterDidNotStartError for
        one that never was.
        """
        known = frozenset(directory for directory in self.worlds if has_lived(directory))
        for directory in self.worlds.keys() - known:
            LauncherStore.create(self.worlds[directory].store)

        async def start_one(directory: Path, world: WorldConfig) -> None:
            try:
                await ensure_running(clusters[directory], directory, world, lifeline)
            except ClusterDidNotStartError as error:
                if directory not in known:
                    raise
                _log.error("going on without a cluster: %s", error)

        async with asyncio.TaskGroup() as group:
            for directory, world in self.worlds.items():
                group.create_task(start_one(directory, world))

    async def mend(self, clusters: Mapping[Path, LocalCluster], lifeline: int | None) -> None:
        """Start each cluster again that was killed; its gangs ran on, and it finds them."""
        for directory, world in self.worlds.items():
            if not was_killed(directory):
                continue
            _log.warning("%s was killed; it is started again", world.cluster)
            try:
                await ensure_running(clusters[directory], directory, world, lifeline)
            except ClusterDidNotStartError as error:
                _log.error("going on without a cluster: %s", error)


def open_fleet(config: Config, data: Path) -> Fleet:
    """Return the clusters that are configured, or the embedded default. Raises ConfigError."""
    if not config.clusters:
        return Fleet(worlds=default_worlds(data))
    loaded = {Path(one.directory): worlds.load(Path(one.world)) for one in config.clusters}
    _check_apart(loaded)
    return Fleet(worlds=loaded)


def _check_apart(loaded: Mapping[Path, WorldConfig]) -> None:
    """Refuse two clusters of one name, a region with two stores, and a store of two regions.

    A directory is told by where it leads: two links to one are one.
    """
    clusters: dict[str, Path] = {}
    directories: dict[Path, Path] = {}
    stores: dict[str, Path] = {}
    regions: dict[Path, str] = {}
    for directory, world in loaded.items():
        store = Path(world.store).resolve()
        twin = directories.setdefault(directory.resolve(), directory)
        if twin != directory:
            raise StartError(f"clusters {directory} and {twin} are one directory")
        twin = clusters.setdefault(world.cluster, directory)
        if twin != directory:
            raise StartError(f"cluster {world.cluster} is named twice: by {twin} and {directory}")
        if stores.setdefault(world.region, store) != store:
            raise StartError(
                f"region {world.region} has two stores, {stores[world.region]} and {store}: all"
                " clusters of a region share one"
            )
        if regions.setdefault(store, world.region) != world.region:
            raise StartError(
                f"regions {regions[store]} and {world.region} have one store, {store}: each needs"
                " its own"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker that is put together and not running yet."""

    ports: Ports
    failures: Failures
    agents: Agents
    ledger: Ledger
    clock: SystemClock
    pace: Pace

    async def begin(
        self, keeper: Keeper, metrics: Metrics, mend: Callable[[], Awaitable[None]]
    ) -> None:
        """Hand all that goes on by itself to a keeper, once the log is read.

        ``mend`` starts clusters again that were killed.

        Raises LogIncompatibleError or LogDamagedError when it cannot be.
        """
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
        mark = self.ledger.mark_time
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
    clusters: Iterable[LocalCluster],
    clock: SystemClock,
) -> Broker:
    """Put a broker together; what must be closed again goes onto the stack."""
    ids = Ids()
    bundles = BundleFolder(data / "uploads" / "bundles", size_max=config.data.bundle_max_bytes)
    uploads = await asyncio.to_thread(_prepare, data / "uploads", bundles)
    stores: dict[str, ContentStore] = {
        world.region: DirectoryStore(Path(world.store)) for world in fleet.worlds.values()
    }
    content = Content(
        stores=stores,
        uploads=uploads,
        looks=await stack.enter_async_context(Transfers(max_parallel=LOOKS_AT_ONCE)),
        copies=await stack.enter_async_context(Transfers(max_parallel=COPIES_AT_ONCE)),
        off_loop=in_thread,
    )
    agents = make_agents(
        Parts(
            log=ledger,
            outposts=tuple(
                Outpost(cluster=port.cluster, region=port.region, port=port, news=port)
                for port in clusters
            ),
            content=content,
            bundles=bundles,
            regions_needing_image=frozenset(),  # embedded clusters run what stands on this machine
            draws=ids,
            clock=clock,
            folders={world.region: Path(world.store) for world in fleet.worlds.values()},
            controls={world.region: LauncherStore(world.store) for world in fleet.worlds.values()},
            retention_s=config.data.retention_days * DAY_S,
            off_loop=in_thread,
            runs_at_once=RUNS_AT_ONCE,
        )
    )
    failures = Failures(clock)
    return Broker(
        failures=failures,
        ports=Ports(
            log=ledger,
            world=agents.answers,
            explainer=agents.answers,
            live=agents.answers,
            logs=agents.answers,
            checkpoints=agents.answers,
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
    )


def _prepare(uploads: Path, bundles: BundleFolder) -> DirectoryStore:
    store = DirectoryStore.create(uploads)
    bundles.prepare()
    return store
