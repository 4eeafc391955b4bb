"""One piece of work at a time per key, for as long as somebody waits for it.

Who asks for what is under way waits for that, and hears its progress from where it stands. When
the last one who waits is cancelled, so is the work; it left what a crash leaves. Read
``Flights.join`` first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

# Called with all that was done by now, in bytes. It can shrink, when work is begun again.
OnDone = Callable[[int], None]


class _Flight(Generic[T]):
    """One piece of work, and who hears of it."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # A failure is for those who wait; when all of them left, it is nobody's.
        self.outcome.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.listeners: list[OnDone] = []
        self.task: asyncio.Task[None]
        self.is_left = False
        self._done_bytes = 0

    def told(self, done_bytes: int) -> None:
        """Let all who wait hear how far it is."""
        self._done_bytes = done_bytes
        for listener in self.listeners:
            listener(done_bytes)

    def listen(self, listener: OnDone) -> None:
        """Add one who waits."""
        self.listeners.append(listener)
        listener(self._done_bytes)

    def leave(self, listener: OnDone) -> None:
        """Take one away; with the last the work ends."""
        self.listeners.remove(listener)
        if not self.listeners and not self.outcome.done():
            self.is_left = True
            self.task.cancel()


class Flights(Generic[K, T]):
    """The supervised group of such work: use it as ``async with``; leaving cancels what is left."""

    def __init__(self) -> None:
        self._flights: dict[K, _Flight[T]] = {}
        self._tasks = asyncio.TaskGroup()

    async def __aenter__(self) -> "Flights[K, T]":
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for flight in self._flights.values():
            flight.task.cancel()
        await self._tasks.__aexit__(kind, error, trace)

    async def join(self, key: K, work: Callable[[OnDone], Awaitable[T]], on_done: OnDone) -> T:
        """Return what the work under way for ``key`` returns, or else that of ``work``.

        Raises what it raised. ``on_done`` hears of its progress.
        """
        flight = self._flights.get(key)
        while flight is not None and flight.is_left:
            # It is on its way out: two would be at work on one thing for a moment.
            await asyncio.wait([flight.task])
            flight = self._flights.get(key)
        if flight is None:
            flight = self._begin(key, work)
        flight.listen(on_done)
        try:
            return await asyncio.shield(flight.outcome)
        finally:
            flight.leave(on_done)

    def _begin(self, key: K, work: Callable[[OnDone], Awaitable[T]]) -> _Flight[T]:
        flight = self._flights[key] = _Flight[T]()

        def landed(_: object) -> None:
            # Not in the task: one that is cancelled before it begins does not get there.
            del self._flights[key]
            flight.outcome.cancel()

        flight.task = self._tasks.create_task(_fly(flight, work))
        flight.task.add_done_callback(landed)
        return flight


async def _fly(flight: _Flight[T], work: Callable[[OnDone], Awaitable[T]]) -> None:
    try:
        result = await work(flight.told)
    except Exception as error:  # noqa: BLE001 - it is handed to whoever waits
        flight.outcome.set_exception(error)
    else:
        flight.outcome.set_result(result)
