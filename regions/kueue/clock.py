"""Time as this package knows it: handed in, so that tests own it."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock, and pauses by it."""

    def monotonic_s(self) -> float:
        """Return seconds that only grow."""
        ...

    async def pause(self, seconds: float) -> None:
        """Let that many seconds pass."""
        ...


class SystemClock:
    """The machine's monotonic clock."""

    def monotonic_s(self) -> float:
        """Return seconds that only grow."""
        return time.monotonic()

    async def pause(self, seconds: float) -> None:
        """Let that many seconds pass."""
        await asyncio.sleep(max(0.0, seconds))
