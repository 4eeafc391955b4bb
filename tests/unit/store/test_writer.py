"""The line before the disk: many share one transaction, it has an end, nobody is forgotten."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.history.commands import AcceptRun
from broker.history.refusals import Refused
from broker.store.batch import BrokenInvariantError, Committed, Order
from broker.store.errors import LogBusyError, LogClosedError, LogDamagedError
from broker.store.rebuild import prove
from broker.store.recovery import read_mark
from broker.store.writer import BATCH_MAX, GATHER, WAITING_MAX, ThreadedWriter
from tests.builders import BROKER
from tests.fakes.readings import HandReadings
from tests.unit.store.ledgers import committing, submit_of


def _nothing() -> None:
    """What comes before the first order: nothing."""


def order_of(name: str) -> Order:
    submit = submit_of(name)
    return Order(stream=submit.name, command=submit, actor=BROKER)


@asynccontextmanager
async def writing(path: Path) -> AsyncIterator[tuple[ThreadedWriter, list[Committed]]]:
    """Open a writer, and keep what it publishes: one entry a transaction."""
    published: list[Committed] = []
    with committing(path) as (committer, _, _):
        loop = asyncio.get_running_loop()
        writer = ThreadedWriter(committer, published.append, loop, first=_nothing, idle_s=60.0)
        try:
            yield writer, published
        finally:
            await writer.close()


@asynccontextmanager
async def busy_disk(writer: ThreadedWriter) -> AsyncIterator[None]:
    """Hold the writer's thread for the length of a block."""
    is_held, may_go = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        is_held.set()
        may_go.wait(60.0)

    held = asyncio.get_running_loop().create_task(writer.upkeep(hold))
    await asyncio.to_thread(is_held.wait, 60.0)
    try:
        yield
    finally:
        may_go.set()
        await held


async def test_who_waits_together_shares_a_transaction(tmp_path: Path) -> None:
    async with writing(tmp_path / "broker.db") as (writer, published):
        async with busy_disk(writer):
            submits = [
                asyncio.get_running_loop().create_task(writer.submit(order_of(f"run-{n}")))
                for n in range(BATCH_MAX + 10)
            ]
            await asyncio.sleep(0)
        await asyncio.gather(*submits)
        assert [len(batch.results) for batch in published] == [BATCH_MAX, 10]
        positions = [one.position for batch in published for one in batch.recorded]
        assert positions == list(range(1, BATCH_MAX + 11))


async def test_who_asks_while_others_still_come_shares_their_transaction(tmp_path: Path) -> None:
    async with writing(tmp_path / "broker.db") as (writer, published):

        async def ask(rounds: int) -> None:
            for _ in range(rounds):
                await asyncio.sleep(0)
            await writer.submit(order_of(f"run-{rounds}"))

        await asyncio.gather(*(ask(n) for n in range(8)))
        assert sum(len(batch.results) for batch in published) == 8
        assert len(published) < 8

    async with writing(tmp_path / "other.db") as (writer, published):
        await asyncio.gather(*(ask(n) for n in range(2 * GATHER)))
        assert len(published[0].results) <= GATHER, "it did not wait for the last of them"


async def test_the_line_has_an_end_and_says_so(tmp_path: Path) -> None:
    async with writing(tmp_path / "broker.db") as (writer, _):
        refused = Order(stream="teams/vision/runs/nobody", command=AcceptRun(), actor=BROKER)
        async with busy_disk(writer):
            waiting = [
                asyncio.get_running_loop().create_task(writer.submit(refused))
                for _ in range(WAITING_MAX)
            ]
            await asyncio.sleep(0)
            with pytest.raises(LogBusyError, match="try again"):
                await writer.submit(refused)
        answers = await asyncio.gather(*waiting)
        assert all(isinstance(answer, Refused) for answer in answers)
        assert isinstance(await writer.submit(refused), Refused), "and then it goes on"


async def test_a_caller_that_goes_away_is_carried_out_and_spoils_nothing(tmp_path: Path) -> None:
    async with writing(tmp_path / "broker.db") as (writer, published):
        async with busy_disk(writer):
            loop = asyncio.get_running_loop()
            gone = loop.create_task(writer.submit(order_of("gone")))
            stays = loop.create_task(writer.submit(order_of("stays")))
            await asyncio.sleep(0)
            gone.cancel()
        assert len(await stays) == 1  # type: ignore[arg-type]  # events, or the test fails here
        assert [len(batch.recorded) for batch in published] == [2]
        assert gone.cancelled()


async def test_who_waits_when_it_closes_is_answered_and_who_comes_later_is_told(
    tmp_path: Path,
) -> None:
    async with writing(tmp_path / "broker.db") as (writer, _):
        loop = asyncio.get_running_loop()
        waiting = [loop.create_task(writer.submit(order_of(f"run-{n}"))) for n in range(20)]
        await asyncio.sleep(0)
        await writer.close()
        assert all(isinstance(task.result(), tuple) for task in waiting)
        with pytest.raises(LogClosedError):
            await writer.submit(order_of("late"))


async def test_the_time_is_written_down_when_nothing_else_is(tmp_path: Path) -> None:
    path, readings = tmp_path / "broker.db", HandReadings()
    with committing(path, readings) as (committer, _, _):
        loop = asyncio.get_running_loop()
        writer = ThreadedWriter(committer, lambda _: None, loop, first=_nothing, idle_s=0.01)
        await writer.submit(order_of("digits"))
        readings.wait(1_000.0)
        await asyncio.to_thread(wait_until_marked, path, 1_000.0)
        await writer.close()


def wait_until_marked(path: Path, elapsed_s: float) -> None:
    until_s = time.monotonic() + 60.0
    while (mark := read_mark(path)) is None or mark.elapsed_s < elapsed_s:
        assert time.monotonic() < until_s, f"the mark is {mark}"
        time.sleep(0.01)


async def test_nothing_is_written_to_a_log_that_could_not_be_read(tmp_path: Path) -> None:
    def unreadable() -> None:
        raise LogDamagedError("events are missing")

    path = tmp_path / "broker.db"
    with committing(path) as (committer, _, _):
        loop = asyncio.get_running_loop()
        writer = ThreadedWriter(committer, lambda _: None, loop, first=unreadable, idle_s=0.0)
        with pytest.raises(LogDamagedError):
            await writer.begun()
        for _ in range(3):
            assert isinstance(await writer.submit(order_of("digits")), LogClosedError)
        await writer.close()
        assert read_mark(path) is None, "not even the time"


async def test_work_that_fails_is_its_callers(tmp_path: Path) -> None:
    async with writing(tmp_path / "broker.db") as (writer, _):

        def broken(_: object) -> None:
            raise ZeroDivisionError("a bug in upkeep")

        with pytest.raises(ZeroDivisionError):
            await writer.upkeep(broken)
        assert isinstance(await writer.submit(order_of("digits")), tuple)


async def test_a_state_that_must_not_be_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The alarm is made to ring: no command is known that leads to such a state.
    monkeypatch.setattr(
        "broker.store.batch.violations", lambda run: ("it cannot be",) if "bad" in run.name else ()
    )
    path = tmp_path / "broker.db"
    with committing(path) as (committer, picture, _):
        committed = committer.commit([order_of("good"), order_of("bad"), order_of("fine")])
        assert isinstance(committed.results[1], BrokenInvariantError)
        assert sorted(picture.live) == ["teams/vision/runs/fine", "teams/vision/runs/good"]
    assert prove(path) == ()


async def test_who_is_on_the_disk_is_answered_though_telling_it_fails(tmp_path: Path) -> None:
    # The alarm is made to ring: nothing is known that fails between the disk and the answers.
    def broken(_: Committed) -> None:
        raise ZeroDivisionError("a bug in telling")

    path = tmp_path / "broker.db"
    with committing(path) as (committer, _, _):
        loop = asyncio.get_running_loop()
        told: list[str] = []
        loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))
        writer = ThreadedWriter(committer, broken, loop, first=_nothing, idle_s=60.0)
        refused = Order(stream="teams/vision/runs/nobody", command=AcceptRun(), actor=BROKER)
        async with asyncio.timeout(60.0):
            answers = [await writer.submit(one) for one in (order_of("digits"), refused)]
            assert [type(answer) for answer in answers] == [tuple, Refused]
            await writer.close()
        assert told == ["a bug in telling"], "once, of what there is to tell"
    assert prove(path) == ()
