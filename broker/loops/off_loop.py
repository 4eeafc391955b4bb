"""Short calls to disks, off the event loop in a daemon and at once where time is simulated."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class OffLoop(Protocol):
    """Makes a call that may block."""

    async def __call__(self, call: Callable[[], T], /) -> T:
        """Return what the call returns; raises what it raises."""
        ...


async def in_thread(call: Callable[[], T], /) -> T:
    """Make the call in a thread."""
    return await asyncio.to_thread(call)


async def at_once(call: Callable[[], T], /) -> T:
    """Make the call here and now."""
    return call()
