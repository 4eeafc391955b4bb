"""Who calls the committer: a line that is served in batches, or nobody but the caller.

The rule: an answer is given after the fsync of the transaction that holds it. While one batch is
on its way to the disk the next one gathers, so the cost of an fsync is shared by all who wait.
Read ``ThreadedWriter`` first.
"""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from broker.store.batch import Committed, Committer, Decided, Order, Result
from broker.store.errors import LogBusyError, LogClosedError, LogUnwritableError

T = TypeVar("T")
BATCH_MAX = 256  # orders of one transaction: bounds what a failed commit takes with it
GATHER = 32  # orders for which a batch need not wait any longer
GATHER_S = 0.01  # the longest that one waits while others still come: about what an fsync takes
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


@dataclass(frozen=True, slots=True)
class _Task:
    """What the thread does, and what the loop does with its outcome, or with what it raised."""

    work: Callable[[], object]
    done: Callable[[object, Exception | None], None]


class ThreadedWriter:
    """Group commit: the event loop decides a batch, a thread of its own takes it to the disk.

    A thread that decides would fight with the loop for the interpreter, and lose milliseconds at
    every statement. So what takes the interpreter is done on the loop, what waits for the disk on
    the thread, and there is one batch, or one piece of work, between the two: nothing is decided
    on a state that may still fail to be written. What a batch costs does not grow much with its
    orders, so it gathers for as long as each round of the loop brings another one, within bounds;
    who is alone waits for one empty round. Made and used on one event loop.

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
        self._waiting: deque[_Job | _Work | None] = deque()  # None: the end of the line
        self._is_closed = False
        self._is_readable = True
        self._is_called = False  # the next turn is on its way
        self._idle: asyncio.TimerHandle | None = None
        self._first: asyncio.Future[None] = loop.create_future()
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._is_busy = False  # the thread has something to do, and the committer is its
        self._hand_over(first, self._begin)
        self._thread = threading.Thread(target=self._serve, name="log-writer", daemon=True)
        self._thread.start()

    async def begun(self) -> None:
        """Return once what comes before the first order is done; raise what it raised."""
        await asyncio.shield(self._first)

    async def submit(self, order: Order) -> Result:
        """Have one order carried out durably; a caller that goes away does not stop it."""
        self._check_open()
        answer: asyncio.Future[Result] = self._loop.create_future()
        self._line_up(_Job(order, answer))
        return await answer

    async def upkeep(self, work: Callable[[Committer], T]) -> T:
        """Have work done with the committer between batches."""
        self._check_open()
        answer: asyncio.Future[T] = self._loop.create_future()
        self._line_up(_Work(work, answer))
        return await answer

    async def close(self) -> None:
        """Carry out what waits, then stop."""
        if not self._is_closed:
            self._is_closed = True
            self._line_up(None)
        await self._loop.run_in_executor(None, self._thread.join)

    def _check_open(self) -> None:
        if self._is_closed:
            raise LogClosedError("the log is closed; brokerd is stopping")
        if len(self._waiting) >= WAITING_MAX:
            raise LogBusyError("too many commands wait for the disk; try again in a second")

    # ---- On the event loop -----------------------------------------------------------------

    def _line_up(self, item: _Job | _Work | None) -> None:
        self._waiting.append(item)
        if not self._is_busy and not self._is_called:
            self._call()

    def _call(self) -> None:
        """Begin to gather: whoever is about to ask shall share the transaction."""
        self._is_called = True
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._loop.call_soon(self._gather_on, 0, self._loop.time() + GATHER_S)

    def _gather_on(self, known: int, until_s: float) -> None:
        """Wait for as long as each round of the event loop brings somebody, within a bound."""
        count = len(self._waiting)
        if known < count < GATHER and self._loop.time() < until_s:
            self._loop.call_soon(self._gather_on, count, until_s)
        else:
            self._is_called = False
            self._take_turn()

    def _take_turn(self) -> None:
        """Give the thread its next task, the longest batch that waits or one piece of work."""
        while self._waiting and not self._is_busy:
            match self._waiting[0]:
                case _Job():
                    self._decide(self._gather())
                case _Work() as item:
                    self._waiting.popleft()
                    self._do_work(item)
                case None:
                    self._tasks.put(None)
                    return
        if self._is_readable and not self._is_busy:
            self._idle = self._loop.call_later(self._idle_s, self._mark_time)

    def _gather(self) -> list[_Job]:
        jobs: list[_Job] = []
        while self._waiting and len(jobs) < BATCH_MAX:
            item = self._waiting[0]
            if not isinstance(item, _Job):
                break
            jobs.append(item)
            self._waiting.popleft()
        return jobs

    def _decide(self, jobs: list[_Job]) -> None:
        if not self._is_readable:
            _fail_all(jobs, _unreadable())
            return
        try:
            decided = self._committer.decide([job.order for job in jobs])
        except Exception as error:  # noqa: BLE001 - it is handed to everyone of the batch
            _fail_all(jobs, error)
            return
        if not decided.committed.recorded:
            _answer(jobs, decided.committed)
            return
        self._hand_over(
            partial(self._committer.write, decided), partial(self._finish, jobs, decided)
        )

    def _finish(
        self, jobs: list[_Job], decided: Decided, _: object, error: Exception | None
    ) -> None:
        if error is not None:
            _fail_all(jobs, error)
            return
        try:
            self._committer.publish(decided)
            self._publish(decided.committed)
        finally:
            # It is on the disk: whatever else goes wrong, that is its sender's answer.
            _answer(jobs, decided.committed)

    def _do_work(self, item: _Work) -> None:
        if not self._is_readable:
            _fail(item.answer, _unreadable())
            return
        self._hand_over(partial(item.work, self._committer), partial(_deliver, item.answer))

    def _begin(self, _: object, error: Exception | None) -> None:
        self._is_readable = error is None
        _deliver(self._first, None, error)

    def _mark_time(self) -> None:
        self._idle = None
        if not self._is_busy:
            self._hand_over(self._committer.mark_time, _marked)

    def _hand_over(
        self, work: Callable[[], object], done: Callable[[object, Exception | None], None]
    ) -> None:
        self._is_busy = True
        self._tasks.put(_Task(work, done))

    def _take_back(self, task: _Task, outcome: object, error: Exception | None) -> None:
        self._is_busy = False
        try:
            task.done(outcome, error)
        finally:
            if self._waiting:
                self._call()
            else:
                self._take_turn()

    # ---- On the thread ---------------------------------------------------------------------

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            outcome, error = None, None
            try:
                outcome = task.work()
            except Exception as raised:  # noqa: BLE001 - it is handed to the caller
                error = raised
            # One call for the whole batch: waking the event loop costs more than an answer.
            self._loop.call_soon_threadsafe(self._take_back, task, outcome, error)


def _unreadable() -> LogClosedError:
    """Return what whoever asks is told: nothing is decided on a log that could not be read."""
    return LogClosedError("the log could not be read; brokerd is stopping")


def _marked(_: object, error: Exception | None) -> None:
    # A disk that refuses this will refuse the next order, and that one has a caller to tell.
    if error is not None and not isinstance(error, LogUnwritableError):
        raise error


def _deliver(answer: asyncio.Future[Any], outcome: object, error: Exception | None) -> None:
    if error is not None:
        _fail(answer, error)
    else:
        _settle(answer, outcome)


def _answer(jobs: list[_Job], committed: Committed) -> None:
    for job, result in zip(jobs, committed.results, strict=True):
        _settle(job.answer, result)


def _settle(answer: asyncio.Future[Any], outcome: object) -> None:
    if not answer.done():  # done: the caller went away
        answer.set_result(outcome)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _fail_all(jobs: list[_Job], error: Exception) -> None:
    for job in jobs:
        _settle(job.answer, error)
