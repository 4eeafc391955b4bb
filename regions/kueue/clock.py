"""Time as this package knows it: handed in, so that tests own it."""

import asyncio
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Protocol

NEAR_S = 2.0
"""A server tells whole seconds, and its answer is a moment on its way."""
SKEW_TOLD_S = 30.0
"""Clocks that are further apart than this are told to who runs the cluster."""


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


class ServerTime:
    """What time it is by a server's own clock: ours, until it tells another.

    What it wrote on its objects is by that clock, so that how long ago something was is found by it
    alone. It is heard with each answer, by its ``Date``.
    """

    def __init__(self, wall_s: Callable[[], float]) -> None:
        self._ours_s = wall_s
        self._ahead_s = 0.0

    def wall_s(self) -> float:
        """Return Unix seconds by the server's clock."""
        return self._ours_s() + self._ahead_s

    def hear(self, date: str) -> None:
        """Take in the time that an answer is of; what is none changes nothing."""
        try:
            ahead_s = parsedate_to_datetime(date).timestamp() - self._ours_s()
        except (ValueError, OverflowError):
            return
        if abs(ahead_s - self._ahead_s) > NEAR_S:
            self._ahead_s = ahead_s

    def doubts(self) -> tuple[str, ...]:
        """Say that the server's clock is another than ours, where it is."""
        if abs(self._ahead_s) < SKEW_TOLD_S:
            return ()
        where = "ahead of" if self._ahead_s > 0 else "behind"
        return (f"the cluster's clock is {abs(self._ahead_s):.0f} s {where} the broker's",)
