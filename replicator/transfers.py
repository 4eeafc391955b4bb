"""Many pieces of file work at once, from asyncio: bounded, counted, and stoppable.

One piece of work at a time per key (a store and a path): asking again for a key that is under way
gives the same ticket. The work runs in threads and is stopped between two chunks; a transfer that
was stopped left what a crash leaves, and is taken up by the next. Read ``Transfers.start`` first.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, TypeVar

from replicator.errors import Cancelled
from replicator.hashing import OnChunk

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferKey:
    """What at most one transfer works on: ``path`` in the store named ``store``."""

    store: str
    path: str


class Ticket(Generic[T]):
    """One transfer: how far it is, its end, and the way to stop it."""

    def __init__(self, key: TransferKey, outcome: "asyncio.Future[T]") -> None:
        self.key = key
        self._outcome = outcome
        self._stop = threading.Event()
        self._done_bytes = 0

    @property
    def done_bytes(self) -> int:
        """Bytes handled so far: copied, or found in place and verified."""
        return self._done_bytes

    @property
    def is_done(self) -> bool:
        """Whether it ended, one way or the other."""
        return self._outcome.done()

    async def wait(self) -> T:
        """Return what the work returned, or raise what it raised.

        To cancel the waiting does not stop the transfer: others may wait for it too.
        """
        return await asyncio.shield(self._outcome)

    def stop(self) -> None:
        """Ask the transfer to stop at its next chunk; ``wait`` then raises Cancelled."""
        self._stop.set()

    def on_chunk(self, size_bytes: int) -> None:
        """Count a chunk, in the working thread. Raises Cancelled when it was asked to stop."""
        # One thread writes, others read: an int needs no lock.
        self._done_bytes += size_bytes
        if self._stop.is_set():
            raise Cancelled(self.key.path, "stopped")


class Transfers:
    """The supervised group of transfers: use it as ``async with``; leaving stops and awaits all."""

    def __init__(self, *, max_parallel: int) -> None:
        if max_parallel < 1:
            raise ValueError("max_parallel is at least 1")
        self._slots = asyncio.Semaphore(max_parallel)
        # Threads of its own: long copies must not keep the process's short file work waiting.
        self._threads = ThreadPoolExecutor(max_parallel, thread_name_prefix="transfer")
        self._tasks = asyncio.TaskGroup()
        self._tickets: dict[TransferKey, Ticket[object]] = {}

    async def __aenter__(self) -> "Transfers":
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for ticket in self._tickets.values():
            ticket.stop()
        try:
            await self._tasks.__aexit__(kind, error, trace)
        finally:
            self._threads.shutdown(wait=False)

    @property
    def in_flight(self) -> tuple[Ticket[object], ...]:
        """All that run or wait for a slot, in the order in which they were started."""
        return tuple(self._tickets.values())

    def start(self, key: TransferKey, work: Callable[[OnChunk], T]) -> Ticket[T]:
        """Run ``work`` in a thread as soon as a slot is free, unless ``key`` is under way already.

        ``work`` is given the function that counts its bytes and stops it. Its result for a key is
        the same whoever asked, so the ticket under way is as good as a new one.
        """
        there = self._tickets.get(key)
        if there is not None:
            return there  # type: ignore[return-value]  # one key, one kind of work
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # A failure is the ticket's to tell. Nobody has to wait for it, so it is marked as seen.
        outcome.add_done_callback(lambda done: done.cancelled() or done.exception())
        ticket = Ticket(key, outcome)
        self._tickets[key] = ticket  # type: ignore[assignment]  # read for its progress only
        self._tasks.create_task(self._run(ticket, outcome, work), name=f"transfer {key.path}")
        return ticket

    async def _run(
        self, ticket: Ticket[T], outcome: "asyncio.Future[T]", work: Callable[[OnChunk], T]
    ) -> None:
        try:
            async with self._slots:
                ticket.on_chunk(0)
                result = await self._in_thread(ticket, work)
        except asyncio.CancelledError:
            outcome.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - it is handed to whoever holds the ticket
            outcome.set_exception(error)
        else:
            outcome.set_result(result)
        finally:
            del self._tickets[ticket.key]

    async def _in_thread(self, ticket: Ticket[T], work: Callable[[OnChunk], T]) -> T:
        """Run the work in a thread and never leave it behind.

        A thread cannot be cancelled: when this task is, the work is told to stop and waited for,
        so that nothing writes after its group is gone.
        """
        loop = asyncio.get_running_loop()
        thread = loop.run_in_executor(self._threads, work, ticket.on_chunk)
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            ticket.stop()
            await asyncio.wait([thread])
            raise
