"""Work over networks holds up no tick, and its outcome is for whoever asks."""

import asyncio

import pytest

from broker.loops import journeys
from broker.loops.journeys import Journeys, OnDone


async def settled() -> None:
    """Let all that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_value_is_told_once_and_asked_for_anew_is_worked_for_anew() -> None:
    calls: list[int] = []

    async def work(on_done: OnDone) -> int:
        calls.append(1)
        on_done(7)
        return len(calls)

    async with Journeys(max_parallel=1) as trips:
        assert trips.ask("key", work) is None
        await settled()
        assert trips.ask("key", work) == 1
        assert trips.ask("key", work) is None
        await settled()
        assert trips.ask("key", work) == 2


async def test_an_error_is_for_who_asks_and_ends_nothing_else() -> None:
    goes_on = asyncio.Event()

    async def fail(_: OnDone) -> int:
        raise ValueError("no")

    async def wait(_: OnDone) -> int:
        await goes_on.wait()
        return 1

    async with Journeys(max_parallel=2) as trips:
        assert trips.ask("bad", fail) is None
        assert trips.ask("good", wait) is None
        await settled()
        with pytest.raises(ValueError, match="no"):
            trips.ask("bad", fail)
        assert trips.ask("good", wait) is None
        goes_on.set()
        await settled()
        assert trips.ask("good", wait) == 1


async def test_so_many_are_at_work_at_once_and_each_says_how_far_it_is() -> None:
    goes_on, working = asyncio.Event(), set()

    async with Journeys(max_parallel=2) as trips:
        for name in "abc":

            async def work(on_done: OnDone, name: str = name) -> str:
                working.add(name)
                on_done(5)
                await goes_on.wait()
                return name

            assert trips.ask(name, work) is None
        await settled()
        assert (working, trips.done_bytes("a"), trips.done_bytes("c")) == ({"a", "b"}, 5, 0)
        goes_on.set()
        await settled()
        assert (working, trips.done_bytes("a")) == ({"a", "b", "c"}, 5)
        assert (trips.ask("a", work), trips.done_bytes("a")) == ("a", None)


async def test_leaving_cancels_what_is_under_way() -> None:
    ended: list[str] = []

    async def work(_: OnDone) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return 1

    async with Journeys(max_parallel=1) as trips:
        assert trips.ask("key", work) is None
        await settled()
    assert ended == ["cancelled"]


async def test_outcomes_that_nobody_asks_for_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journeys, "KEPT", 3)

    async def work(_: OnDone) -> int:
        return 1

    async with Journeys(max_parallel=1) as trips:
        for number in range(10):
            assert trips.ask(number, work) is None
            await settled()
        asked = [trips.ask(number, work) for number in (9, 0)]
    assert asked == [1, None]
