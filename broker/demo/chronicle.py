"""What the demo has heard of its run: events in order, and the steps between them.

The rule: the story waits for what really happened, each for a bounded time. Read
``Chronicle.until`` first.
"""

import asyncio
from collections.abc import Callable

from broker.v1 import event_pb2, run_pb2
from broker.v1.event_pb2 import Event


class StoryError(Exception):
    """Something that the story tells did not happen in its time."""


class Chronicle:
    """One run as far as it was told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.losses: dict[int, float] = {}
        self.step = 0
        self._news = asyncio.Event()
        self._read = 0

    def take(self, update: event_pb2.Event | run_pb2.Progress) -> Event | None:
        """Take in one update; return it when it is an event."""
        if isinstance(update, run_pb2.Progress):
            self._see(update.step, update.loss if update.HasField("loss") else None)
            self._news.set()
            return None
        if update.HasField("step") and update.type == event_pb2.EVENT_TYPE_PROGRESSED:
            self._see(update.step, update.loss if update.HasField("loss") else None)
        self.events.append(update)
        self._news.set()
        return update

    async def until(self, what: str, is_it: Callable[[Event], bool], within_s: float) -> Event:
        """Return the next event that is it, from where the last call left off.

        Raises StoryError after ``within_s`` seconds.
        """
        try:
            async with asyncio.timeout(within_s):
                while True:
                    while self._read < len(self.events):
                        event = self.events[self._read]
                        self._read += 1
                        if is_it(event):
                            return event
                    await self._hear()
        except TimeoutError as error:
            raise StoryError(f"{what} did not happen within {within_s:.0f} s") from error

    async def until_step(self, step: int, within_s: float) -> None:
        """Return when a step of at least ``step`` was reported. Raises StoryError."""
        try:
            async with asyncio.timeout(within_s):
                while self.step < step:
                    await self._hear()
        except TimeoutError as error:
            raise StoryError(f"step {step} was not reached within {within_s:.0f} s") from error

    async def _hear(self) -> None:
        self._news.clear()
        await self._news.wait()

    def _see(self, step: int, loss: float | None) -> None:
        self.step = step
        if loss is not None:
            self.losses[step] = loss
