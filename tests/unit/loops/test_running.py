"""Agents that are kept going: each tick is counted with the time that it took."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from broker.loops.running import APART_S, keep_looking, timed
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


class Told:
    """A clock that keeps what it was asked to sleep, and ends the test's loop in time."""

    def __init__(self, hand: Hand) -> None:
        self.now = hand.now
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) == 2:
            raise asyncio.CancelledError


class Chatter:
    """A cluster that always has something new to show."""

    async def wait_for_news(self, timeout_s: float) -> bool:
        return True


async def test_a_cluster_that_tells_much_is_looked_at_for_half_of_the_time() -> None:
    hand, took_s = Hand(), [0.001, 3.0]
    clock = Told(hand)

    async def looks() -> None:
        hand.elapsed_s += took_s[len(clock.slept)]

    with pytest.raises(asyncio.CancelledError):
        await keep_looking(looks, Chatter(), lambda: 0.5, clock)
    assert clock.slept == [APART_S, pytest.approx(3.0)]
