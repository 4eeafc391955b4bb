"""Lanes: a late run holds up no other, none is handled twice at a time, and no news is lost."""

import asyncio

import pytest

from broker.loops.desk import TURN
from broker.loops.lanes import Lanes
from broker.store.errors import LogUnwritableError
from broker.store.feed import Changes


class Hands:
    """Handles a run at once, unless it is among the late: those wait until they are let go."""

    def __init__(self, *late: str) -> None:
        self.begun: list[str] = []
        self.done: list[str] = []
        self._late = {name: asyncio.Event() for name in late}

    async def handle(self, name: str) -> None:
        self.begun.append(name)
        if name == "refused":
            raise LogUnwritableError("no space")
        if name in self._late:
            await self._late[name].wait()
        self.done.append(name)

    def let_go(self, name: str) -> None:
        self._late[name].set()


async def rest() -> None:
    for _ in range(3 * TURN):
        await asyncio.sleep(0)


async def test_a_late_run_holds_up_no_other() -> None:
    hands = Hands("slow")
    lanes = Lanes(hands.handle, Changes(), at_once=2)
    async with lanes.open():
        lanes.begin(["slow", "one"])
        await rest()
        lanes.begin(["two"])
        await rest()
        assert hands.done == ["one", "two"]
        hands.let_go("slow")
    assert hands.done == ["one", "two", "slow"]


@pytest.mark.parametrize(("at_once", "begun"), [(1, 1), (2, 2), (8, 3)])
async def test_only_so_many_runs_are_handled_at_once_and_they_begin_in_order(
    at_once: int, begun: int
) -> None:
    names = ["a", "b", "c"]
    hands = Hands(*names)
    lanes = Lanes(hands.handle, Changes(), at_once=at_once)
    async with lanes.open():
        lanes.begin(names)
        await rest()
        assert hands.begun == names[:begun]
        for name in names:
            hands.let_go(name)
    assert hands.begun == names


async def test_what_is_news_while_it_is_handled_is_news_when_that_is_done() -> None:
    hands, changes = Hands("slow"), Changes()
    lanes = Lanes(hands.handle, changes, at_once=2)
    async with lanes.open():
        lanes.begin(["slow"])
        await rest()
        lanes.begin(["slow"])
        await rest()
        assert (hands.begun, len(changes)) == (["slow"], 0)
        hands.let_go("slow")
    assert (hands.begun, set(changes.take())) == (["slow"], {"slow"})


async def test_an_error_of_the_log_lets_no_further_run_begin_and_loses_no_news() -> None:
    hands, changes = Hands("slow"), Changes()
    lanes = Lanes(hands.handle, changes, at_once=2)

    async def act() -> None:
        async with lanes.open():
            lanes.begin(["slow", "refused", "after"])
            await rest()
            assert changes.take() == {"refused"}
            hands.let_go("slow")
            await rest()
            lanes.begin([])

    with pytest.raises(LogUnwritableError):
        await act()
    assert hands.begun == ["slow", "refused"]
    assert changes.take() == {"refused", "after"}


async def test_who_leaves_with_an_error_waits_for_nobody_and_loses_no_news() -> None:
    hands, changes = Hands("slow"), Changes()
    lanes = Lanes(hands.handle, changes, at_once=1)

    async def act() -> None:
        async with lanes.open():
            lanes.begin(["slow", "after"])
            await rest()
            raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"):
        await act()
    assert (hands.done, set(changes.take())) == ([], {"slow", "after"})


async def test_who_is_cancelled_leaves_nothing_running() -> None:
    hands, changes = Hands("slow"), Changes()
    lanes = Lanes(hands.handle, changes, at_once=1)

    async def act() -> None:
        async with lanes.open():
            lanes.begin(["slow"])
            await asyncio.Event().wait()

    acting = asyncio.get_running_loop().create_task(act())
    await rest()
    acting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await acting
    hands.let_go("slow")
    await rest()
    assert (hands.begun, hands.done, set(changes.take())) == (["slow"], [], {"slow"})
