"""Agents that are kept going: each tick is counted with the time that it took."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from broker.loops.running import timed
from broker.model.moment import Moment


class Hand:
    """A clock that a tick moves on by itself."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0

    def now(self) -> Moment:
        return Moment(elapsed_s=self.elapsed_s, wall_s=0.0)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def test_a_tick_that_raises_is_timed_as_one_that_does_not() -> None:
    clock, ticks = Hand(), deque[tuple[str, float]]()

    async def looks() -> None:
        clock.elapsed_s += 0.25

    async def stumbles() -> None:
        clock.elapsed_s += 2.0
        raise ValueError("a fault")

    await timed("placer", looks, ticks, clock)
    with pytest.raises(ValueError, match="a fault"):
        await timed("placer", stumbles, ticks, clock)
    assert list(ticks) == [("placer", 0.25), ("placer", 2.0)]
