"""What the edge asks of the rooms below it; the store and the loops stand behind these.

The rule: nothing here decides. Each port refuses with ``history.refusals.Refused``, whose code
and reason go to the client as they are.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from broker.history.commands import Command, SubmitRun
from broker.history.events import Recorded
from broker.history.regional import BrokerState, RegionState, TeamState
from broker.model.actor import Actor
from broker.model.capacity import ClusterFacts, Offer
from broker.model.capacity_seen import CapacitySeen, ClusterWord
from broker.model.check import ClusterCheck
from broker.model.checkpoint import CheckpointRef
from broker.model.faults import Fault
from broker.model.image import ImageOnItsWay, RegionRegistry
from broker.model.intent import Intent
from broker.model.manifest import Manifest
from broker.model.moment import Moment
from broker.model.policy import TeamStanding
from broker.model.run import Placement, Progress, Run
from broker.model.sightings import CheckpointFile, Orphan, Replica
from broker.placement.explain import Explanation
from broker.placement.nearest import NeverFits
from broker.store.listing import RunPage, RunQuery


class Ledger(Protocol):
    """The one way anything changes."""

    async def handle(self, stream: str, command: Command, actor: Actor) -> tuple[Recorded, ...]:
        """Decide a command and make its events durable."""
        ...

    async def submit(self, command: SubmitRun, actor: Actor) -> str:
        """Create a run; return its name, or that of the run the same request made before."""
        ...


class Runs(Protocol):
    """The runs as of the last commit."""

    def run(self, name: str) -> Run | None:
        """Return a run, or None."""
        ...

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Return one page of names."""
        ...

    async def run_by_request(self, team: str, request_id: str) -> tuple[str, str] | None:
        """Return (run name, body digest) of a request id, or None."""
        ...


class Events(Protocol):
    """The log itself."""

    async def read(self, stream: str, after_version: int, limit: int) -> list[Recorded]:
        """Return events of a stream after a version, oldest first."""
        ...

    def follow(self, stream: str, after_version: int) -> AsyncGenerator[Recorded, None]:
        """Yield every event of a stream after a version, once and in order, for ever."""
        ...


class Settings(Protocol):
    """What ops set for regions, and the broker's own state."""

    def trouble(self) -> str:
        """Return why the log cannot be written, empty when it can."""
        ...

    def region(self, region: str) -> RegionState:
        """Return a region's settings, the defaults when nothing was set."""
        ...

    def broker(self) -> BrokerState:
        """Return the broker's own state."""
        ...


class Teams(Protocol):
    """Teams, their caps and what they hold."""

    def team(self, team: str) -> TeamState:
        """Return a team's caps, none when nothing was set."""
        ...

    def teams(self) -> tuple[TeamState, ...]:
        """Return every team that has caps, by id."""
        ...

    def standing(self, team: str) -> TeamStanding:
        """Return what a team holds now."""
        ...

    async def whole(self) -> None:
        """Return once what teams hold is known: a moment after the start."""
        ...


class Log(Ledger, Runs, Events, Settings, Teams, Protocol):
    """All of the above: what ``broker.store.ledger.Ledger`` is."""


class World(Protocol):
    """The regions as last seen."""

    def regions(self) -> tuple[str, ...]:
        """Return the ids of all regions the broker was told of, sorted."""
        ...

    def clusters(self, region: str) -> tuple[ClusterFacts, ...]:
        """Return what is known of a region's clusters."""
        ...

    def orphans(self, region: str) -> tuple[Orphan, ...]:
        """Return what looks like ours there and belongs to no run."""
        ...

    def capacity(self, cluster: str) -> CapacitySeen:
        """Return what is known of a cluster's capacity beside its figures."""
        ...

    def store(self, region: str) -> str:
        """Return where a region's store is, empty where nobody said."""
        ...

    def registry(self, region: str) -> RegionRegistry | None:
        """Return where a region's clusters pull images from, None where nobody said."""
        ...

    def images_on_their_way(self, region: str) -> tuple[ImageOnItsWay, ...]:
        """Return the images that are being copied to a region's registry."""
        ...

    def word(self, placement: Placement) -> ClusterWord | None:
        """Return what a placement's cluster says of it, None where it says no more than why."""
        ...


class Explainer(Protocol):
    """Looks at every place for one run, submitted or not."""

    def explain(self, run: Run, now: Moment) -> Explanation:
        """Return all offers and refusals."""
        ...

    def never_fits(self, intent: Intent) -> NeverFits | None:
        """Return why no place could ever take an intent; None when one could, or it is unknown."""
        ...


class Live(Protocol):
    """What training reported last, logged or not."""

    def progress(self, run: str) -> Progress | None:
        """Return the last believed report of a run's open epoch."""
        ...


class Logs(Protocol):
    """What ranks wrote."""

    def tail(
        self, run: Run, placement: str, rank: int, *, offset: int, follow: bool
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """Yield (offset after, bytes); a negative offset counts from the end."""
        ...


class Checkpoints(Protocol):
    """The files of checkpoints and their copies."""

    def replicas(self, run: Run) -> tuple[Replica, ...]:
        """Return how far each region is behind."""
        ...

    async def local_path(self, run: Run, ref: CheckpointRef, region: str) -> str | None:
        """Return the folder on this machine, None when no store of a region is one."""
        ...

    def fetch(
        self, run: Run, ref: CheckpointRef, region: str
    ) -> AsyncGenerator[CheckpointFile | bytes, None]:
        """Yield each file and then its bytes; ``region`` empty is any that answers."""
        ...


class Manifests(Protocol):
    """What is sent to clusters."""

    def manifest(self, run: Run, placement: Placement) -> Manifest:
        """Return what is sent for a placement."""
        ...

    def offered(self, run: Run, offer: Offer) -> Manifest:
        """Return what would be sent if the run were placed on an offer."""
        ...


class Checks(Protocol):
    """What clusters say when they are asked whether all that is needed is there."""

    async def check(self, region: str) -> tuple[ClusterCheck, ...]:
        """Ask each cluster of a region."""
        ...


class Faults(Protocol):
    """The embedded clusters' faults."""

    async def inject(self, region: str, fault: Fault) -> str:
        """Make it so; return what was done, in a sentence."""
        ...


class Clock(Protocol):
    """The time."""

    def now(self) -> Moment:
        """Return the present moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait on the monotonic clock."""
        ...


class Draw(Protocol):
    """Chance, for ids."""

    def __call__(self, length: int) -> str:
        """Return that many random characters of a-z and 0-9."""
        ...


class Bundles(Protocol):
    """The bundles of this brokerd."""

    def size_bytes(self, digest: str) -> int | None:
        """Return the size of a bundle, None when it is not there."""
        ...

    async def receive(self, digest: str, size_bytes: int, chunks: AsyncIterator[bytes]) -> None:
        """Take in a bundle, whole or not at all."""
        ...


class Workings(Protocol):
    """What goes on in the daemon by itself."""

    def failing(self) -> tuple[str, ...]:
        """Return the names of what fails at every attempt now, sorted."""
        ...

    def troubles(self) -> tuple[str, ...]:
        """Return what cannot be done now, a sentence each."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """All that the services are given; ``daemon.py`` makes it."""

    log: Log
    world: World
    explainer: Explainer
    live: Live
    logs: Logs
    checkpoints: Checkpoints
    manifests: Manifests
    checks: Checks
    faults: Faults
    bundles: Bundles
    workings: Workings
    clock: Clock
    draw: Draw
