"""A log answers before it is read whole; nothing is decided on what is not known yet."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.history.commands import CancelRun, SetCaps, WarnRun
from broker.model.moment import Moment
from broker.model.policy import TeamCaps
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.runtime.clock import SystemClock
from broker.store import ledger as ledgers
from broker.store import recovery
from broker.store.batch import SNAPSHOT_EVERY, Committer
from broker.store.errors import LogClosedError, LogDamagedError
from broker.store.ledger import Ledger, open_early
from broker.store.picture import Picture
from tests.builders import BROKER
from tests.fakes.readings import HandReadings
from tests.unit.store.ledgers import REGIONS, all_of, opened, submit_of

CANCEL = CancelRun(grace_s=0.0, message="enough")


async def fill(path: Path) -> dict[str, Run | None]:
    """Write a log of runs with a snapshot, without one, and settled; return them."""
    async with opened(path) as ledger:
        for name, warnings in (("old", SNAPSHOT_EVERY + 3), ("young", 1), ("over", 2)):
            submit = submit_of(name)
            await ledger.submit(submit, BROKER)
            for n in range(warnings):
                warn = WarnRun(reason=Reason.UNKNOWN, message=f"warning {n}")
                await ledger.handle(submit.name, warn, BROKER)
        await ledger.handle(submit_of("over").name, CANCEL, BROKER)
        caps = SetCaps(caps=TeamCaps(running_gpus=64), expected_generation=1)
        await ledger.handle("teams/vision", caps, BROKER)
        runs, _, _ = await all_of(ledger)
        return runs


@asynccontextmanager
async def half_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Ledger, threading.Event]]:
    """Open a log early, and hold its reading until the event is set."""
    may_read = threading.Event()

    def held(committer: Committer, picture: Picture, now: Moment) -> None:
        assert may_read.wait(60.0)
        recovery.read_in(committer, picture, now)

    monkeypatch.setattr(ledgers, "read_in", held)
    ledger = open_early(path, SystemClock(None, HandReadings()), regions=REGIONS)
    try:
        yield ledger, may_read
    finally:
        may_read.set()
        await ledger.close()


async def test_what_is_not_read_in_yet_is_read_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "broker.db"
    runs = await fill(path)
    assert {run.stream_version for run in runs.values() if run} == {SNAPSHOT_EVERY + 4, 2, 4}
    async with half_read(path, monkeypatch) as (ledger, may_read):
        assert ledger.live_runs() == {}
        assert {name: ledger.run(name) for name in runs} == runs
        assert ledger.run("teams/vision/runs/nobody") is None
        assert ledger.team("vision").caps == TeamCaps(running_gpus=64)
        may_read.set()
        await ledger.whole()
        live = {name: run for name, run in runs.items() if run is not None and not run.is_ended}
        assert ledger.live_runs() == live
        assert {name: ledger.run(name) for name in runs} == runs


async def test_what_is_handed_in_early_is_decided_on_all_that_the_log_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "broker.db"
    before = await fill(path)
    name = submit_of("old").name
    was = before[name]
    assert was is not None
    async with half_read(path, monkeypatch) as (ledger, may_read):
        handed_in = asyncio.get_running_loop().create_task(
            ledger.handle(name, WarnRun(reason=Reason.UNKNOWN, message="once more"), BROKER)
        )
        again = asyncio.get_running_loop().create_task(ledger.submit(submit_of("young"), BROKER))
        await asyncio.sleep(0)
        assert ledger.run(name) == was
        may_read.set()
        assert [one.stream_version for one in await handed_in] == [was.stream_version + 1]
        assert await again == submit_of("young").name
        now = ledger.run(name)
        assert now is not None
        assert now.stream_version == was.stream_version + 1
    async with opened(path) as ledger:
        assert ledger.run(name) == now


async def test_a_log_that_cannot_be_read_whole_takes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    await fill(path)
    with sqlite3.connect(path) as damaged:
        damaged.execute(
            "delete from events where stream = ? and stream_version = 1",
            (submit_of("young").name,),
        )
    damaged.close()
    ledger = open_early(path, SystemClock(None, HandReadings()), regions=REGIONS)
    try:
        with pytest.raises(LogDamagedError, match="lacks event 1"):
            await ledger.whole()
        with pytest.raises(LogClosedError):
            await ledger.submit(submit_of("new"), BROKER)
    finally:
        await ledger.close()
