"""One life of brokerd: the real log, the real agents, until it is killed.

The rule: it can die between any write and any act. Dying is an exception that no agent catches,
and whoever goes on all the same finds every door closed. Read ``Life.live`` first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from broker.assembly import begin_life
from broker.history.commands import Command, SubmitRun
from broker.history.events import Recorded
from broker.history.regional import BrokerState, RegionState
from broker.loops import restorer
from broker.loops.content import Content
from broker.loops.engine import Agents, Parts, make_agents
from broker.loops.images import Images
from broker.loops.journeys import Journeys
from broker.loops.off_loop import at_once
from broker.loops.outposts import Outpost
from broker.loops.running import Pace, keep_all, keep_going
from broker.model.actor import Actor
from broker.model.policy import TeamStanding
from broker.model.run import Run
from broker.runtime.clock import SystemClock
from broker.runtime.entropy import Ids
from broker.runtime.tasks import Fatal, Supervisor
from broker.store.errors import LogError, LogUnwritableError
from broker.store.ledger import LOG_NAME, Ledger, open_ledger, read_mark
from broker.store.listing import RunPage, RunQuery
from replicator.hashing import OnChunk
from replicator.transfers import Ticket, TransferKey
from tests.builders import flat_egress
from tests.fakes.images import make_book
from tests.fakes.region_store import ControlStore, RegionContent
from tests.simulation import laws
from tests.simulation.place import BrokerLine, Place
from tests.simulation.port import SimPort
from tests.simulation.shelves import SimRegistries
from tests.simulation.stage import Stage
from tests.simulation.timeless import BEGAN_S, BEGAN_WALL_S

T = TypeVar("T")
PACE = Pace(look_s=5.0, converge_s=8.0, place_s=8.0)
MARK_S = 30.0
READ = 100_000


class Killed(BaseException):
    """brokerd died here: no handler of the code under test may catch it."""


class Life:
    """A broker from its start to its death."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.stage = stage
        self.chance = stage.dice(f"life {number}")
        self.is_dead = False
        self.is_former = False
        self.left = asyncio.Event()
        self.incarnation = 0
        self.log: SimLog | None = None
        self.agents: Agents | None = None
        self.since_s = stage.loop.time()
        self._task: asyncio.Task[Any] | None = None
        self._clock: SystemClock | None = None

    def cross(self, where: str) -> None:
        """Go on, or die here."""
        if self.is_dead:
            raise Killed(where)
        if self.stage.mortality and self.chance.random() < self.stage.mortality:
            self.stage.witness.note("broker", f"dies {where}")
            self.die()
            raise Killed(where)

    def stand_aside(self) -> None:
        """Be the old broker from now on: it does not know that another one is begun."""
        self.is_former = True
        self.stage.alive.clear()
        self.left.set()

    def broker_s(self) -> float:
        """Return broker time."""
        assert self._clock is not None
        return self._clock.now().elapsed_s

    def die(self) -> None:
        """Be killed from outside."""
        self.is_dead = True
        if self._task is not None:
            self._task.cancel()

    async def live(self) -> None:
        """Run until dead. Returns whatever the reason was, but a breach of the code's own laws."""
        self._task = asyncio.current_task()
        stage, path = self.stage, self.stage.data / LOG_NAME
        stage.pieces.before_life(path)
        clock = self._clock = SystemClock(read_mark(path), stage.readings)
        try:
            ledger = open_ledger(path, clock, regions=sorted(stage.places), is_threaded=False)
        except LogError as error:
            stage.witness.breach("law 3", "log", [f"it cannot be opened: {error}"])
            self.is_dead = True
            self.left.set()
            return
        try:
            self.incarnation = await begin_life(ledger)
            await self._check_recovered(ledger)
            self.log = stage.pieces.wrap_log(SimLog(ledger, self), stage)
            await self._run(ledger, clock)
        except (Killed, Fatal, asyncio.CancelledError) as error:
            stage.witness.note("broker", f"is over: {type(error).__name__} {error}")
        except BaseExceptionGroup as group:
            stage.witness.note("broker", f"is over: {group.exceptions}")
            _, rest = group.split((Killed, Fatal, asyncio.CancelledError))
            if rest is not None:
                raise rest from None
        finally:
            self.is_dead = True
            await ledger.close()
            self.left.set()

    async def _run(self, ledger: Ledger, clock: SystemClock) -> None:
        async with (
            Journeys(max_parallel=8) as asks,
            Journeys(max_parallel=2) as copies,
            Supervisor(lambda name: None) as supervisor,
        ):
            images = self._images(asks, copies)
            agents = self.agents = make_agents(self._parts(ledger, clock, images))
            keep_all(agents, supervisor, clock, PACE)
            mark = ledger.mark_time
            supervisor.keep("timekeeper", lambda: keep_going(mark, None, lambda: MARK_S, clock))
            if not self.is_former:
                self.stage.alive.set()
            await asyncio.Event().wait()

    def _images(self, asks: Journeys, copies: Journeys) -> Images | None:
        stage = self.stage
        if not stage.has_registries:
            return None
        registries = SimRegistries(stage.shelves, self, stage.dice(f"registries {self.since_s}"))
        book = make_book(*sorted(stage.places))
        return Images(book, registries, asks=asks, copies=copies)

    def _parts(self, ledger: Ledger, clock: SystemClock, images: Images | None) -> Parts:
        stage, places = self.stage, self.stage.places
        ports = {
            name: stage.pieces.wrap_port(
                SimPort(place, stage.post, self, stage.dice(f"post {name}")),
                place,
                stage,
            )
            for name, place in places.items()
        }
        content = Content(
            stores={name: self._content(place) for name, place in places.items()},
            uploads=stage.uploads,
            looks=SimWork(self, 0.2),
            copies=SimWork(self, 0.8),
            off_loop=at_once,
            clock=clock,
        )
        assert self.log is not None
        return Parts(
            log=self.log,
            outposts=tuple(
                Outpost(cluster=name, region=name, port=port) for name, port in ports.items()
            ),
            content=content,
            bundles=stage,
            regions_needing_image=frozenset(),
            draws=Ids(self.chance.randrange),
            clock=clock,
            locations={},
            controls={
                name: ControlStore(place.objects, BrokerLine(place))
                for name, place in places.items()
            },
            retention_s=stage.retention_s,
            off_loop=at_once,
            egress_price=flat_egress,
            images=images,
        )

    def _content(self, place: Place) -> RegionContent:
        return RegionContent(place.objects, ContentLine(place, self), BEGAN_WALL_S - BEGAN_S)

    async def _check_recovered(self, ledger: Ledger) -> None:
        """Hold what this life finds against what former ones made durable."""
        witness, since_s = self.stage.witness, self.stage.restored_since_s
        names: list[str] = []
        query = RunQuery(page_size=500)
        while True:
            page = await ledger.list_runs(query)
            names += page.names
            if page.next_after is None:
                break
            query = RunQuery(page_size=500, after=page.next_after)
        there = {name: ledger.run(name) for name in names}
        runs = {name: run for name, run in there.items() if run is not None}
        found = laws.law_2_nothing_accepted_is_lost(witness.record, runs, since_s=since_s)
        witness.breach("law 2", "log", found)
        for name, run in runs.items():
            events = await ledger.read(name, 0, READ)
            told = witness.record.log[name]
            if since_s is not None:
                told = witness.record.log[name] = list(events)
            found = laws.law_3_the_log_is_the_truth(name, told, events, run)
            witness.breach("law 3", run.uid, found)
        if since_s is not None:
            self.stage.restored(runs)


class ContentLine:
    """brokerd's way to a store for content: it can die at every call."""

    def __init__(self, place: Place, life: Life) -> None:
        self._inner = BrokerLine(place)
        self._life = life

    def reach(self, key: str) -> bool:
        self._life.cross(f"before {key}")
        return self._inner.reach(key)

    def answers(self, key: str) -> bool:
        self._life.cross(f"after {key}")
        return self._inner.answers(key)


class SimWork:
    """File work that is done some time after it was begun: ``replicator.transfers.Transfers``."""

    def __init__(self, life: Life, longest_s: float) -> None:
        self._life = life
        self._longest_s = longest_s
        self._tickets: dict[TransferKey, Ticket[Any]] = {}

    @property
    def in_flight(self) -> tuple[Ticket[Any], ...]:
        return tuple(self._tickets.values())

    def start(self, key: TransferKey, work: Callable[[OnChunk], T]) -> Ticket[T]:
        there = self._tickets.get(key)
        if there is not None:
            return there
        loop = self._life.stage.loop
        outcome: asyncio.Future[T] = loop.create_future()
        outcome.add_done_callback(lambda done: done.cancelled() or done.exception())
        ticket = self._tickets[key] = Ticket(key, outcome)
        wait_s = self._life.chance.uniform(0.0, self._longest_s)
        loop.call_later(wait_s, self._do, ticket, outcome, work)
        return ticket

    def _do(
        self, ticket: Ticket[T], outcome: asyncio.Future[T], work: Callable[[OnChunk], T]
    ) -> None:
        del self._tickets[ticket.key]
        if self._life.is_dead:
            return
        try:
            outcome.set_result(work(ticket.on_chunk))
        except Killed:
            return
        except Exception as error:  # noqa: BLE001 - it is handed to whoever holds the ticket
            outcome.set_exception(error)


class SimLog:
    """The ledger as agents and users reach it: each call can be the last one."""

    def __init__(self, ledger: Ledger, life: Life) -> None:
        self.ledger = ledger
        self.feed = ledger.feed
        self._life = life

    async def handle(self, stream: str, command: Command, actor: Actor) -> tuple[Recorded, ...]:
        await self._before(type(command).__name__)
        recorded = await self.ledger.handle(stream, command, actor)
        self._made_durable(recorded)
        self._life.cross(f"after {type(command).__name__} for {stream}")
        return recorded

    async def submit(self, command: SubmitRun, actor: Actor) -> str:
        await self._before("SubmitRun")
        before = self.ledger.run(command.name)
        name = await self.ledger.submit(command, actor)
        if before is None and name == command.name:
            self._made_durable(await self.ledger.read(name, 0, READ))
        self._life.cross("after SubmitRun")
        return name

    def _made_durable(self, recorded: Sequence[Recorded]) -> None:
        witness = self._life.stage.witness
        if self._life.is_former:
            witness.recorded_beside(recorded)
        else:
            witness.recorded(recorded)

    async def _before(self, what: str) -> None:
        self._life.cross(f"before {what}")
        await asyncio.sleep(self._life.chance.choice((0.0, 0.0, 0.01)))
        self._life.cross(f"before {what}")
        if self._life.stage.is_disk_full:
            raise LogUnwritableError("the log cannot be written, nothing was changed: disk full")

    def run(self, name: str) -> Run | None:
        return self.ledger.run(name)

    def live_runs(self) -> Mapping[str, Run]:
        return self.ledger.live_runs()

    def region(self, region: str) -> RegionState:
        return self.ledger.region(region)

    def standing(self, team: str) -> TeamStanding:
        return self.ledger.standing(team)

    def broker(self) -> BrokerState:
        return self.ledger.broker()

    async def list_runs(self, query: RunQuery) -> RunPage:
        return await self.ledger.list_runs(query)

    async def old_runs(self, before_s: float, skip: int = 0) -> tuple[str, ...]:
        return await self.ledger.old_runs(before_s, skip)

    async def retire(self, names: Sequence[str], actor: Actor) -> tuple[str, ...]:
        self._life.cross("before retiring")
        retired = await self.ledger.retire(names, actor)
        if not self._life.is_former:
            self._life.stage.witness.retired(retired, self._life.stage.retention_s)
        self._life.cross("after retiring")
        return retired

    async def give_back(self) -> None:
        await self.ledger.give_back()


class Alarm(logging.Handler):
    """Hears what agents log as errors: each is a breach, but what a disk explains."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(logging.ERROR)
        self._stage = stage

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, LogError):
            return
        if error is None and record.name == restorer.__name__ and self._stage.witness.changes:
            return  # it says that another disk stands in the place of a store
        text = f"{record.getMessage()}: {type(error).__name__}: {error}"
        self._stage.witness.breach("no agent stumbles", record.getMessage()[:80], [text])


async def ask(stage: Stage, what: Callable[[SimLog], Awaitable[T]]) -> T:
    """Ask whatever life of the broker there is until one answers."""
    while True:
        await stage.alive.wait()
        life = stage.life
        if life is None or life.is_dead or life.is_former or life.log is None:
            await asyncio.sleep(1.0)
            continue
        try:
            answer = await what(life.log)
            if not life.is_former:  # else it was said to the old broker, and is asked again
                return answer
        except (Killed, LogError):
            await asyncio.sleep(stage.user_dice.uniform(0.1, 5.0))
