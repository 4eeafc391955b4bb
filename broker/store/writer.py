"""Who calls the committer: a thread that groups what waits, or nobody but the caller.

The rule: an answer is given after the fsync of the transaction that holds it. While one batch is
on its way to the disk the next one gathers, so the cost of an fsync is shared by all who wait.
Read ``ThreadedWriter`` first.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from broker.store.batch import Committed, Committer, Order, Result
from broker.store.errors import LogBusyError, LogClosedError, LogUnwritableError

T = TypeVar("T")
BATCH_MAX = 256  # orders of one transaction: bounds what a failed commit takes with it
WAITING_MAX = 10_000  # orders in line; beyond it the edge answers RESOURCE_EXHAUSTED


class Writer(Protocol):
    """The one way to the committer."""

    async def begun(self) -> None:
        """Return once what comes before the first order is done; raise what it raised."""
        ...

    async def submit(self, order: Order) -> Result:
        """Have one order carried out durably."""
        ...

    async def upkeep(self, work: Callable[[Committer], T]) -> T:
        """Have work done with the committer between batches."""
        ...

    async def close(self) -> None:
        """Carry out what waits, then stop."""
        ...


class InlineWriter:
    """Carries out each order at once, on the caller's thread: for tools and the simulation."""

    def __init__(self, committer: Committer, publish: Callable[[Committed], None]) -> None:
        self._committer = committer
        self._publish = publish
        self._is_closed = False

    async def begun(self) -> None:
        """Return: nothing comes before the first order."""

    async def submit(self, order: Order) -> Result:
        """Have one order carried out durably."""
        self._check_open()
        committed = self._committer.commit((order,))
        self._publish(committed)
        return committed.results[0]

    async def upkeep(self, work: Callable[[Committer], T]) -> T:
        """Have work done with the committer between batches."""
        self._check_open()
        return work(self._committer)

    async def close(self) -> None:
        """Take nothing more; nothing waits."""
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise LogClosedError("the log is closed; brokerd is stopping")


@dataclass(frozen=True, slots=True)
class _Job:
    order: Order
    answer: asyncio.Future[Result]


@dataclass(frozen=True, slots=True)
class _Work:
    work: Callable[[Committer], object]
    answer: asyncio.Future[Any]  # what `work` returns


class ThreadedWriter:
    """Group commit on a thread of its own. Made and used on one event loop.

    ``first`` is done on the thread before any order; orders wait for it. Should it raise, so does
    ``begun``, and no order is carried out any more.
    Without an order for ``idle_s`` seconds the writer writes down the time, so that the next life
    knows how long it was away.
    """

    def __init__(
        self,
        committer: Committer,
        publish: Callable[[Committed], None],
        loop: asyncio.AbstractEventLoop,
        *,
        first: Callable[[], None],
        idle_s: float,
    ) -> None:
        self._committer = committer
        self._publish = publish
        self._loop = loop
        self._idle_s = idle_s
        self._waiting: queue.SimpleQueue[_Job | _Work | None] = queue.SimpleQueue()
        self._is_closed = False
        self._first = _Work(lambda _: first(), loop.create_future())
        self._thread = threading.Thread(target=self._write, name="log-writer", daemon=True)
        self._thread.start()

    async def begun(self) -> None:
        """Return once what comes before the first order is done; raise what it raised."""
        await asyncio.shield(self._first.answer)

    async def submit(self, order: Order) -> Result:
        """Have one order carried out durably; a caller that goes away does not stop it."""
        self._check_open()
        answer: asyncio.Future[Result] = self._loop.create_future()
        self._waiting.put(_Job(order, answer))
        return await answer

    async def upkeep(self, work: Callable[[Committer], T]) -> T:
        """Have work done with the committer between batches."""
        self._check_open()
        answer: asyncio.Future[T] = self._loop.create_future()
        self._waiting.put(_Work(work, answer))
        return await answer

    async def close(self) -> None:
        """Carry out what waits, then stop."""
        if not self._is_closed:
            self._is_closed = True
            self._waiting.put(None)
        await self._loop.run_in_executor(None, self._thread.join)

    def _check_open(self) -> None:
        if self._is_closed:
            raise LogClosedError("the log is closed; brokerd is stopping")
        if self._waiting.qsize() >= WAITING_MAX:
            raise LogBusyError("too many commands wait for the disk; try again in a second")

    def _write(self) -> None:
        if not self._do_work(self._first):
            self._refuse_all()
            return
        while True:
            try:
                first = self._waiting.get(timeout=self._idle_s)
            except queue.Empty:
                self._mark_time()
                continue
            if isinstance(first, _Job):
                jobs, first = self._gather(first)
                self._do_jobs(jobs)
            match first:
                case _Work():
                    self._do_work(first)
                case None:
                    return

    def _mark_time(self) -> None:
        # A disk that refuses this will refuse the next order, and that one has a caller to tell.
        with contextlib.suppress(LogUnwritableError):
            self._committer.mark_time()

    def _gather(self, first: _Job) -> "tuple[list[_Job], _Work | _Job | None]":
        """Return the jobs that wait, and what stopped the gathering (a job when nothing did)."""
        jobs = [first]
        while len(jobs) < BATCH_MAX:
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                break
            if not isinstance(item, _Job):
                return jobs, item
            jobs.append(item)
        return jobs, first

    def _do_jobs(self, jobs: list[_Job]) -> None:
        try:
            committed = self._committer.commit([job.order for job in jobs])
        except Exception as error:  # noqa: BLE001 - it is handed to everyone of the batch
            self._answer([(job.answer, error) for job in jobs], None)
            return
        pairs = list(zip((job.answer for job in jobs), committed.results, strict=True))
        self._answer(pairs, committed)

    def _do_work(self, item: _Work) -> bool:
        """Do work and hand its outcome to the caller; False when that is an error."""
        try:
            outcome = item.work(self._committer)
        except Exception as error:  # noqa: BLE001 - it is handed to the caller
            self._loop.call_soon_threadsafe(_fail, item.answer, error)
            return False
        self._loop.call_soon_threadsafe(_settle, item.answer, outcome)
        return True

    def _refuse_all(self) -> None:
        """Answer whoever asks: the log could not be read, so nothing is decided on it."""
        while (item := self._waiting.get()) is not None:
            error = LogClosedError("the log could not be read; brokerd is stopping")
            self._loop.call_soon_threadsafe(_fail, item.answer, error)

    def _answer(
        self,
        pairs: list[tuple[asyncio.Future[Result], Result]],
        committed: Committed | None,
    ) -> None:
        # One call for the whole batch: waking the event loop costs more than an answer.
        self._loop.call_soon_threadsafe(self._deliver, pairs, committed)

    def _deliver(
        self,
        pairs: list[tuple[asyncio.Future[Result], Result]],
        committed: Committed | None,
    ) -> None:
        if committed is not None:
            self._publish(committed)
        for answer, outcome in pairs:
            _settle(answer, outcome)


def _settle(answer: asyncio.Future[Any], outcome: object) -> None:
    if not answer.done():  # done: the caller went away
        answer.set_result(outcome)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
