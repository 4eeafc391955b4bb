"""Work over networks, as the agents ask for it: begun in one tick and collected in a later one.

The rule: a tick never waits for an answer. One piece of work at a time per key; what was not asked
for any more is forgotten in the end, and leaving cancels all. Read ``Journeys.ask`` first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")
OnDone = Callable[[int], None]
"""Called with how many bytes are done by now, in all. It can shrink."""

KEPT = 1_000  # outcomes that nobody asked for, of runs that ended meanwhile


class _Journey:
    """One piece of work, and how far it is."""

    def __init__(self) -> None:
        self.task: asyncio.Task[object]
        self.done_bytes = 0

    def told(self, done_bytes: int) -> None:
        self.done_bytes = done_bytes


class Journeys:
    """The supervised group of such work, so many at a time: use it as ``async with``."""

    def __init__(self, *, max_parallel: int) -> None:
        if max_parallel < 1:
            raise ValueError("max_parallel is at least 1")
        self._slots = asyncio.Semaphore(max_parallel)
        self._tasks = asyncio.TaskGroup()
        self._journeys: dict[Hashable, _Journey] = {}

    async def __aenter__(self) -> "Journeys":
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for journey in self._journeys.values():
            journey.task.cancel()
        await self._tasks.__aexit__(kind, error, trace)

    def ask(self, key: Hashable, work: Callable[[OnDone], Awaitable[T]]) -> T | None:
        """Begin the work unless it is under way; return its value once, when it is done.

        Raises what the work raised. None: it is under way; so the work returns something else.
        """
        journey = self._journeys.get(key)
        if journey is None:
            self._begin(key, work)
            return None
        if not journey.task.done():
            return None
        del self._journeys[key]
        outcome = journey.task.result()
        if isinstance(outcome, _Failed):
            raise outcome.error
        return outcome  # type: ignore[return-value]  # one key, one kind of work

    def done_bytes(self, key: Hashable) -> int | None:
        """Return how far a piece of work is, or came; None once its outcome was told."""
        journey = self._journeys.get(key)
        return None if journey is None else journey.done_bytes

    def _begin(self, key: Hashable, work: Callable[[OnDone], Awaitable[object]]) -> None:
        over = [one for one, journey in self._journeys.items() if journey.task.done()]
        for one in over[: max(0, len(self._journeys) - KEPT)]:
            del self._journeys[one]
        journey = _Journey()
        journey.task = self._tasks.create_task(self._run(work, journey))
        self._journeys[key] = journey

    async def _run(self, work: Callable[[OnDone], Awaitable[object]], journey: _Journey) -> object:
        async with self._slots:
            try:
                return await work(journey.told)
            except Exception as error:  # noqa: BLE001 - it is for whoever asks
                return _Failed(error)


class _Failed:
    """An error on its way to who asks: raised in its task it would end all others."""

    def __init__(self, error: Exception) -> None:
        self.error = error
