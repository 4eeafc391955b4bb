"""Runs handled side by side, each by one hand at a time: who is late holds up nobody else.

The rule: a run that is news again while it is handled is news once that is done; what was not done
when all is left is news again. An error of the log lets no further run begin. Read ``Lanes.begin``
first.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import cast

from broker.loops.desk import TURN, NewerIncarnationError
from broker.runtime.turns import Turns
from broker.store.errors import LogError
from broker.store.feed import Changes


class Lanes:
    """Handles runs, so many at once. ``changes`` is where what is left is news again."""

    def __init__(
        self, handle: Callable[[str], Awaitable[None]], changes: Changes, *, at_once: int
    ) -> None:
        self._handle = handle
        self._changes = changes
        self._at_once = at_once
        self._group: asyncio.TaskGroup | None = None
        self._waiting: dict[str, None] = {}
        self._under_way: set[str] = set()
        self._again: set[str] = set()
        self._workers: set[asyncio.Task[None]] = set()
        self._error: LogError | NewerIncarnationError | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Let runs be begun; who leaves waits for them, or has them cancelled with an error of his.

        Raises that error, or the log's.
        """
        raised: Exception | None = None
        self._error = None
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                try:
                    yield
                except Exception as error:  # noqa: BLE001 - raised below: a group would wrap it
                    raised = error
                    for worker in self._workers:
                        worker.cancel()
        finally:
            self._group = None
            self._changes.add({*self._waiting, *self._under_way})
            self._waiting, self._under_way, self._again = {}, set(), set()
        raised = raised or self._error
        if raised is not None:
            raise raised

    def begin(self, names: Iterable[str]) -> None:
        """Have runs handled, in order. Raises what the log raised since the last call."""
        if self._error is not None:
            raise self._error
        for name in names:
            if name in self._under_way:
                self._again.add(name)
            else:
                self._waiting[name] = None
        assert self._group is not None, "runs are begun between the opening and its end"
        for _ in range(min(len(self._waiting), self._at_once - len(self._workers))):
            self._workers.add(self._group.create_task(self._work()))

    async def _work(self) -> None:
        try:
            await self._handle_all()
        finally:
            # In the same step as the last look at who waits: who comes later finds a lane free.
            self._workers.discard(cast(asyncio.Task[None], asyncio.current_task()))

    async def _handle_all(self) -> None:
        turns = Turns(max(1, TURN // self._at_once))  # all that work are ready at once
        while self._waiting and self._error is None:
            name = next(iter(self._waiting))
            del self._waiting[name]
            self._under_way.add(name)
            try:
                await self._handle(name)
            except (LogError, NewerIncarnationError) as error:
                self._error = error
                self._changes.add({name})  # whoever begins runs hears of it
                return
            self._under_way.discard(name)
            if name in self._again:
                self._again.discard(name)
                self._changes.add({name})
            await turns.pass_on()
