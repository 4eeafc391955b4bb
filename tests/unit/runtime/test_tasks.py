"""The supervised group: nothing dies unseen."""

import asyncio

import pytest

from broker.runtime import tasks
from broker.runtime.tasks import Fatal, Supervisor


async def test_a_task_that_raises_is_counted_and_begun_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks, "FIRST_PAUSE_S", 0.0)
    failures: list[str] = []
    lives = 0
    done = asyncio.Event()

    async def work() -> None:
        nonlocal lives
        lives += 1
        if lives < 3:
            raise ValueError("broken")
        done.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(10), Supervisor(failures.append) as keeper:
        keeper.keep("loop", work)
        await done.wait()
    assert failures == ["loop", "loop"]
    assert [record.getMessage() for record in caplog.records] == ["task failed", "task failed"]


async def test_a_fatal_error_ends_the_group() -> None:
    async def hopeless() -> None:
        raise Fatal("a newer life works on this data")

    async def idle() -> None:
        await asyncio.Event().wait()

    with pytest.RaisesGroup(pytest.RaisesExc(Fatal, match="newer life")):
        async with asyncio.timeout(10), Supervisor(lambda _: None) as keeper:
            keeper.keep("idle", idle)
            keeper.keep("hopeless", hopeless)
            await asyncio.Event().wait()


async def test_stop_ends_every_task() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    async with asyncio.timeout(10), Supervisor(lambda _: None) as keeper:
        keeper.keep("work", work)
        await asyncio.sleep(0)
        keeper.stop()
    assert ended == ["work"]
