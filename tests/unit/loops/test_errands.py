"""Outcomes for which nobody waits hold up nothing, and are forgotten in the end."""

import asyncio

import pytest

from broker.loops import errands
from broker.loops.errands import WAITS_S, Errands
from broker.runtime.clock import SystemClock
from replicator.transfers import TransferKey, Transfers
from tests.fakes.readings import HandReadings


def key(number: int) -> TransferKey:
    return TransferKey(store="alpha", path=str(number))


async def done(work: Transfers) -> None:
    await asyncio.gather(*(ticket.wait() for ticket in work.in_flight))


async def test_who_waits_for_an_outcome_keeps_it_busy_and_who_left_does_not() -> None:
    readings = HandReadings()
    async with Transfers(max_parallel=1) as work:
        asked = Errands(work, SystemClock(None, readings))
        assert await asked.ask(key(1), lambda _: "one") is None
        await done(work)
        was_busy = asked.is_busy
        readings.wait(WAITS_S + 1.0)
        assert (was_busy, asked.is_busy) == (True, False)
        assert await asked.ask(key(1), lambda _: "another") == "one"


async def test_who_asks_on_keeps_it_busy_however_long_it_takes() -> None:
    readings, goes_on = HandReadings(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait(_: object) -> str:
        asyncio.run_coroutine_threadsafe(goes_on.wait(), loop).result()
        return "one"

    async with Transfers(max_parallel=1) as work:
        asked = Errands(work, SystemClock(None, readings))
        for _ in range(3):
            assert await asked.ask(key(1), wait) is None
            assert asked.is_busy
            readings.wait(WAITS_S)
        goes_on.set()
        await done(work)
        assert await asked.ask(key(1), wait) == "one"
    assert not asked.is_busy


async def test_outcomes_that_nobody_asks_for_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(errands, "KEPT", 3)
    async with Transfers(max_parallel=1) as work:
        asked = Errands(work, SystemClock(None, HandReadings()))
        for number in range(10):
            assert await asked.ask(key(number), lambda _: "one") is None
            await done(work)
        known = [asked.done_bytes(key(number)) is not None for number in range(10)]
    assert known == [False] * 7 + [True] * 3
