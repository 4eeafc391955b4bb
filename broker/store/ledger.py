"""The ledger: ``handle`` is the one way anything in the broker changes.

The rule: what ``handle`` returned is on the disk. Reads answer from memory as of the last commit,
or from the log itself. Made by ``open_ledger`` on the event loop that uses it.
"""

import asyncio
import sqlite3
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import sqlite_utils

from broker.history.commands import Command, SubmitRun
from broker.history.events import Recorded
from broker.history.regional import BrokerState, RegionState, TeamState
from broker.model.actor import Actor
from broker.model.policy import TeamStanding
from broker.model.run import Run
from broker.store import listing, log, retention, views
from broker.store.batch import AlreadySubmitted, Committed, Committer, Order, Result
from broker.store.errors import LogUnreadableError, LogUnwritableError
from broker.store.feed import Feed
from broker.store.listing import RunPage, RunQuery
from broker.store.lock import hold
from broker.store.picture import Picture
from broker.store.recovery import MarkingClock, begin, read_in, read_mark, read_run
from broker.store.schema import open_database
from broker.store.streams import BROKER_STREAM
from broker.store.writer import InlineWriter, ThreadedWriter, Writer

__all__ = ["LOG_NAME", "Ledger", "MarkingClock", "open_early", "open_ledger", "read_mark"]

T = TypeVar("T")
LOG_NAME = "broker.db"  # the log within brokerd's data directory
MARK_AFTER_S = 30.0  # without a write; a downtime is known to that
LATENCIES_KEPT = 50_000  # until the meter comes, every few seconds
PAGE = 200  # events read at once while following a stream


class Ledger:
    """The log, the state it makes, and the line of those who want to change it."""

    def __init__(
        self,
        *,
        reads: "_Reads",
        picture: Picture,
        writer: Writer,
        feed: Feed,
        clock: MarkingClock,
        resources: ExitStack,
    ) -> None:
        self._reads = reads
        self._picture = picture
        self._writer = writer
        self._is_whole = False
        self._clock = clock
        self._resources = resources
        self._latencies: deque[float] = deque(maxlen=LATENCIES_KEPT)
        self.feed = feed

    async def whole(self) -> None:
        """Return once all live runs are in memory: until then ``live_runs`` and ``standing`` lack
        some, ``run`` reads each from the disk, and what is handed in waits.

        Raises LogIncompatibleError or LogDamagedError when the log cannot be read.
        """
        if not self._is_whole:
            await self._writer.begun()
            self._is_whole = True

    # ---- The one way in --------------------------------------------------------------------

    async def handle(self, stream: str, command: Command, actor: Actor) -> tuple[Recorded, ...]:
        """Decide a command on its stream and make the outcome durable.

        Returns the events, none when the command already holds. Raises Refused (nothing changed),
        LogUnwritableError, LogBusyError or LogClosedError (nothing changed either).
        """
        result = await self._carry_out(Order(stream=stream, command=command, actor=actor))
        return () if isinstance(result, AlreadySubmitted) else result

    async def submit(self, command: SubmitRun, actor: Actor) -> str:
        """Create a run; return its name, or that of the run the same request made before."""
        result = await self._carry_out(Order(stream=command.name, command=command, actor=actor))
        return result.name if isinstance(result, AlreadySubmitted) else command.name

    async def _carry_out(self, order: Order) -> tuple[Recorded, ...] | AlreadySubmitted:
        began_s = time.perf_counter()
        result: Result = await self._writer.submit(order)
        self._latencies.append(time.perf_counter() - began_s)
        if isinstance(result, Exception):
            raise result
        return result

    # ---- Reads from memory -----------------------------------------------------------------

    def run(self, name: str) -> Run | None:
        """Return a run as of the last commit."""
        return self._picture.run(name)

    def live_runs(self) -> Mapping[str, Run]:
        """Return the runs for which something is left to do, by name: a copy."""
        return dict(self._picture.live)

    def region(self, region: str) -> RegionState:
        """Return what ops set for a region; the defaults when nothing was."""
        state = self._picture.small.get(f"regions/{region}")
        return state if isinstance(state, RegionState) else RegionState(id=region)

    def team(self, team: str) -> TeamState:
        """Return what ops set for a team; no caps when nothing was."""
        state = self._picture.small.get(f"teams/{team}")
        return state if isinstance(state, TeamState) else TeamState(id=team)

    def teams(self) -> tuple[TeamState, ...]:
        """Return every team that has caps set, by id."""
        states = (s for s in list(self._picture.small.values()) if isinstance(s, TeamState))
        return tuple(sorted(states, key=lambda state: state.id))

    def standing(self, team: str) -> TeamStanding:
        """Return what a team holds now."""
        return self._picture.standing(team, self._clock.now())

    def trouble(self) -> str:
        """Return why the log could not be written the last time, in words; empty when it could.

        The time is written down every few seconds, so that it is as fresh as that.
        """
        return self._picture.trouble

    def take_latencies(self) -> tuple[float, ...]:
        """Return the seconds from a command's arrival to its answer, of those since the last call.

        At most as many as are kept, the newest.
        """
        taken = tuple(self._latencies)
        self._latencies.clear()
        return taken

    def broker(self) -> BrokerState:
        """Return the broker's own state: its incarnation, what it has surveyed."""
        state = self._picture.small.get(BROKER_STREAM)
        return state if isinstance(state, BrokerState) else BrokerState()

    # ---- Reads from the log ----------------------------------------------------------------

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Return one page of run names."""
        return await self._reads.ask(lambda database: listing.list_runs(database, query))

    async def run_by_request(self, team: str, request_id: str) -> tuple[str, str] | None:
        """Return (run name, body digest) of a request id, or None."""
        key = (team, request_id)
        known = await self._reads.ask(lambda database: views.known_requests(database, [key]))
        return known.get(key)

    async def read(self, stream: str, after_version: int, limit: int) -> list[Recorded]:
        """Return events of a stream after a version, oldest first."""
        return await self._reads.ask(
            lambda database: log.read_stream(database, stream, after_version, limit)
        )

    async def follow(self, stream: str, after_version: int) -> AsyncGenerator[Recorded, None]:
        """Yield every event of a stream after a version, each once and in order, for ever."""
        with self.feed.watch(stream) as bell:
            while True:
                page = await self.read(stream, after_version, PAGE)
                for recorded in page:
                    yield recorded
                    after_version = recorded.stream_version
                if len(page) < PAGE:
                    await bell.wait()

    async def head(self) -> int:
        """Return the position of the last event, 0 before the first."""
        return await self._reads.ask(log.head)

    async def follow_all(self, after_position: int) -> AsyncGenerator[Recorded, None]:
        """Yield every event after a position, each once and in the log's order, for ever."""
        changes = self.feed.subscribe()
        try:
            while True:
                changes.take()
                page = await self._reads.ask(partial(_page_after, after_position))
                for recorded in page:
                    yield recorded
                    after_position = recorded.position
                if len(page) < PAGE:
                    await changes.wait()
        finally:
            self.feed.unsubscribe(changes)

    # ---- Upkeep ----------------------------------------------------------------------------

    async def mark_time(self) -> None:
        """Write down the time while nothing else is written, so that a downtime is known.

        What keeps the disk from taking it is told by ``trouble``, which it finds out.
        """
        with suppress(LogUnwritableError):
            await self._writer.upkeep(Committer.mark_time)

    async def old_runs(self, before_s: float, skip: int = 0) -> tuple[str, ...]:
        """Return runs that ended before a point of broker time, oldest first, at most 1,000.

        ``skip`` passes over so many of the oldest, those that are kept. What the others left in
        stores is to be removed before they are retired.
        """
        return await self._reads.ask(lambda database: retention.old_runs(database, before_s, skip))

    async def retire(self, names: Sequence[str], actor: Actor) -> tuple[str, ...]:
        """Remove ended runs from the log for good, one step's worth; return those that were.

        Their team carries what they spent. Ask again for the others.
        """
        retired = await self._writer.upkeep(
            lambda committer: retention.retire(committer, names, actor)
        )
        self._picture.forget(retired.names)
        self.feed.publish(retired.committed.recorded)
        return retired.names

    async def give_back(self) -> None:
        """Give disk space that is no longer needed back, a bounded step at a time."""
        await self._writer.upkeep(lambda committer: committer.do(retention.give_back))

    async def close(self) -> None:
        """Carry out what waits, then close the database and let go of its lock."""
        await self._writer.close()
        self._resources.close()


class _Reads:
    """A connection of its own for questions to the log, asked one at a time."""

    def __init__(self, database: sqlite_utils.Database, *, is_threaded: bool) -> None:
        self._database = database
        self._is_threaded = is_threaded
        self._lock = threading.Lock()

    async def ask(self, query: Callable[[sqlite_utils.Database], T]) -> T:
        """Answer a question, on another thread when the ledger has threads."""
        if self._is_threaded:
            return await asyncio.to_thread(self.answer, query)
        return self.answer(query)

    def answer(self, query: Callable[[sqlite_utils.Database], T]) -> T:
        """Answer a question on the caller's thread. Raises LogUnreadableError."""
        with self._lock:
            try:
                return query(self._database)
            except sqlite3.Error as error:
                raise LogUnreadableError(f"the log cannot be read: {error}") from error


def _page_after(position: int, database: sqlite_utils.Database) -> list[Recorded]:
    return list(log.read_all(database, position, PAGE))


def open_ledger(
    path: Path, clock: MarkingClock, *, regions: Iterable[str], is_threaded: bool
) -> Ledger:
    """Open or make the log at ``path`` and recover its state, whole.

    ``regions`` are those the broker is told of; after a restore each must be seen before the
    first grant. ``is_threaded`` False does everything on the caller's thread, for tools and the
    simulation. Raises LogInUseError, LogIncompatibleError, LogUnwritableError or LogDamagedError.
    """
    return _open(path, clock, regions, is_threaded=is_threaded, is_early=False)


def open_early(path: Path, clock: MarkingClock, *, regions: Iterable[str]) -> Ledger:
    """Open the log like ``open_ledger``, with threads, and answer before all of it is read.

    Its ``whole`` says when it is, and raises what ``open_ledger`` would.
    """
    return _open(path, clock, regions, is_threaded=True, is_early=True)


def _open(
    path: Path, clock: MarkingClock, regions: Iterable[str], *, is_threaded: bool, is_early: bool
) -> Ledger:
    with ExitStack() as opened:
        opened.callback(hold(path).release)
        writes, points, reads = (
            _opened(opened, path, is_read_only=is_read_only) for is_read_only in (False, True, True)
        )
        # Single runs are asked for on the event loop, which must not wait behind a long list.
        single = _Reads(points, is_threaded=False)
        picture, committer = begin(
            writes,
            lambda name: single.answer(lambda database: read_run(database, name)),
            clock,
            regions,
        )
        read_rest = partial(read_in, committer, picture, clock.now())
        if not is_early:
            read_rest()
        feed = Feed()

        def publish(committed: Committed) -> None:
            feed.publish(committed.recorded)

        writer: Writer = (
            ThreadedWriter(
                committer,
                publish,
                asyncio.get_running_loop(),
                first=read_rest if is_early else lambda: None,
                idle_s=MARK_AFTER_S,
            )
            if is_threaded
            else InlineWriter(committer, publish)
        )
        return Ledger(
            reads=_Reads(reads, is_threaded=is_threaded),
            picture=picture,
            writer=writer,
            feed=feed,
            clock=clock,
            resources=opened.pop_all(),
        )


def _opened(stack: ExitStack, path: Path, *, is_read_only: bool) -> sqlite_utils.Database:
    database = open_database(path, is_read_only=is_read_only)
    stack.callback(database.close)
    return database
