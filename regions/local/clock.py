"""The embedded cluster's one source of time: the machine's monotonic clock, and pauses by it."""

import asyncio
import time


def monotonic_s() -> float:
    """Seconds on the clock that goes on over restarts of a daemon and begins anew with a boot."""
    return time.monotonic()


async def pause(seconds: float) -> None:
    """Let that many seconds pass."""
    await asyncio.sleep(max(0.0, seconds))
