"""What the demo has heard of its run: events in order, and the steps between them.

The rule: the story waits for what really happened, each for a bounded time. Read
``Chronicle.until`` first.
"""

import asyncio
from collections.abc import Callable

from broker.v1 import event_pb2, run_pb2
from broker.v1.event_pb2 import Event

_CHECKPOINTS = (
    event_pb2.EVENT_TYPE_CHECKPOINT_COMPLETED,
    event_pb2.EVENT_TYPE_CHECKPOINT_COPIED,
)


class StoryError(Exception):
    """Something that the story tells did not happen in its time."""


class Chronicle:
    """One run as far as it was told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.losses: dict[int, float] = {}
        self.newest: dict[str, int] = {}
        self.step = 0
        self._news = asyncio.Event()
        self._read = 0

    def take(self, update: event_pb2.Event | run_pb2.Progress) -> Event | None:
        """Take in one update; return it when it is an event."""
        if isinstance(update, run_pb2.Progress):
            self.step = update.step
            if update.HasField("loss"):
                self.losses[update.step] = update.loss
            self._news.set()
            return None
        if update.type == event_pb2.EVENT_TYPE_PROGRESSED and update.HasField("loss"):
            self.losses[update.step] = update.loss  # it may be older than the live step
        if update.type in _CHECKPOINTS:
            newest = self.newest.get(update.place.region, 0)
            self.newest[update.place.region] = max(newest, update.step)
        self.events.append(update)
        self._news.set()
        return update

    @property
    def last_loss(self) -> float | None:
        """The loss that was told last, None before the first."""
        return self.losses[max(self.losses)] if self.losses else None

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
                        if event.type == event_pb2.EVENT_TYPE_ENDED:
                            raise StoryError(f"{what} did not happen: {event.message}")
                    await self._hear()
        except TimeoutError as error:
            raise StoryError(f"{what} did not happen within {within_s:.0f} s") from error

    async def until_step(self, step: int, within_s: float) -> None:
        """Return when a step of at least ``step`` was reported. Raises StoryError."""
        try:
            async with asyncio.timeout(within_s):
                while self.step < step:
                    if self.events and self.events[-1].type == event_pb2.EVENT_TYPE_ENDED:
                        raise StoryError(f"step {step}: {self.events[-1].message}")
                    await self._hear()
        except TimeoutError as error:
            raise StoryError(f"step {step} was not reached within {within_s:.0f} s") from error

    async def _hear(self) -> None:
        self._news.clear()
        await self._news.wait()
