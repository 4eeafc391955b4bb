"""Old runs leave the log: what is left adds up, proves itself and takes no more room."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from broker.history.commands import CancelRun
from broker.history.refusals import Refused
from broker.history.regional import TeamState
from broker.model.states import RunState
from broker.store import retention
from broker.store.batch import Order
from broker.store.ledger import Ledger
from broker.store.listing import RunQuery
from broker.store.rebuild import prove
from tests.builders import BROKER
from tests.fakes.readings import HandReadings
from tests.unit.store.ledgers import committing, opened, submit_of
from tests.unit.store.stories import TEAMS, Teller

DAY_S = 86_400.0


async def end_all(ledger: Ledger, readings: HandReadings, seed: int) -> None:
    """Tell a story, and then end what can be ended at once."""
    teller = Teller(chance=Random(seed), serial=seed * 1_000)
    for _ in range(150):
        stream, command = teller.step(ledger, readings)
        try:
            await ledger.handle(stream, command, BROKER)
        except Refused:
            continue
    for name in ledger.live_runs():
        await ledger.handle(name, CancelRun(grace_s=0.0, message="enough"), BROKER)


async def names_of(ledger: Ledger) -> set[str]:
    return set((await ledger.list_runs(RunQuery(page_size=1_000))).names)


async def test_old_runs_leave_and_what_is_left_adds_up_and_proves_itself(tmp_path: Path) -> None:
    path, readings = tmp_path / "broker.db", HandReadings()
    async with opened(path, readings) as ledger:
        await end_all(ledger, readings, seed=1)
        readings.wait(30 * DAY_S)
        young = await ledger.submit(submit_of("young"), BROKER)
        await ledger.handle(young, CancelRun(grace_s=0.0, message="enough"), BROKER)
        waiting = await ledger.submit(submit_of("waiting"), BROKER)
        stuck = set(ledger.live_runs())
        there = await names_of(ledger)
        spent = {team: ledger.standing(team).spent for team in TEAMS}
        assert any(spent.values()), "the story costs nothing"

        old = await ledger.old_runs(before_s=readings_elapsed(ledger, readings) - 20 * DAY_S)
        assert set(old) == there - stuck - {young}
        all_but_two = await ledger.old_runs(readings_elapsed(ledger, readings) - 20 * DAY_S, skip=2)
        assert all_but_two == old[2:]
        assert await ledger.retire([*old, waiting, "teams/vision/runs/nobody"], BROKER) == old

        assert await names_of(ledger) == there - set(old)
        assert all(ledger.run(name) is None for name in old)
        assert await ledger.read(old[0], 0, 10) == []
        assert {team: ledger.standing(team).spent for team in TEAMS} == spent
        carried = {team.id: team for team in ledger.teams()}
        assert sum(carried[team].carried_runs for team in TEAMS) == len(old)
        assert prove(path) == ()
        again = replace(submit_of("again"), name=old[0])
        assert await ledger.submit(again, BROKER) == old[0], "its name is free"
    async with opened(path, readings) as ledger:
        assert {team: ledger.standing(team).spent for team in TEAMS} == spent
        assert ledger.run(young) is not None
    assert prove(path) == ()


def readings_elapsed(ledger: Ledger, readings: HandReadings) -> float:
    """Return broker time; the log began when its readings did."""
    return readings.monotonic_s() - HandReadings().monotonic_s()


async def test_a_jump_of_the_wall_clock_retires_nothing(tmp_path: Path) -> None:
    readings = HandReadings()
    async with opened(tmp_path / "broker.db", readings) as ledger:
        name = await ledger.submit(submit_of("digits"), BROKER)
        await ledger.handle(name, CancelRun(grace_s=0.0, message="enough"), BROKER)
        readings.step_wall(400 * DAY_S)
        now_s = readings_elapsed(ledger, readings)
        assert await ledger.old_runs(before_s=now_s - 30 * DAY_S) == ()


async def test_a_retired_run_in_the_cache_is_forgotten(tmp_path: Path) -> None:
    readings = HandReadings()
    async with opened(tmp_path / "broker.db", readings) as ledger:
        name = await ledger.submit(submit_of("digits"), BROKER)
        await ledger.handle(name, CancelRun(grace_s=0.0, message="enough"), BROKER)
        run = ledger.run(name)
        assert run is not None
        assert run.state is RunState.CANCELLED
        assert await ledger.retire([name], BROKER) == (name,)
        assert ledger.run(name) is None
        assert ledger.teams() == (
            TeamState(id="vision", carried_runs=1, carried_usd=run.spent, stream_version=1),
        )
        assert await ledger.retire([name], BROKER) == ()


async def test_a_step_is_bounded_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, readings = tmp_path / "broker.db", HandReadings()
    monkeypatch.setattr(retention, "EVENTS_MAX", 5)  # each run has two
    async with opened(path, readings) as ledger:
        for serial in range(5):
            name = await ledger.submit(submit_of(f"run-{serial}"), BROKER)
            await ledger.handle(name, CancelRun(grace_s=0.0, message="enough"), BROKER)
            readings.wait(1.0)
        names = await ledger.old_runs(readings_elapsed(ledger, readings) + 1.0)
        assert len(names) == 5
        assert await ledger.retire(names, BROKER) == names[:2]
        assert await ledger.retire(names, BROKER) == names[2:4]
        assert await ledger.retire(names, BROKER) == names[4:]
        assert await ledger.retire(names, BROKER) == ()
    assert prove(path) == ()


def test_what_leaves_the_log_is_given_back_to_the_file_system(tmp_path: Path) -> None:
    with committing(tmp_path / "broker.db") as (committer, _, database):

        def free_pages() -> int:
            return int(database.conn.execute("pragma freelist_count").fetchone()[0])

        submits = (submit_of(f"run-{serial}") for serial in range(300))
        committer.commit([Order(stream=one.name, command=one, actor=BROKER) for one in submits])
        committer.do(lambda database: database.execute("delete from events"))
        assert free_pages() > 10
        retention.give_back(database)
        assert free_pages() == 0


async def test_years_of_use_take_no_more_room_than_what_is_kept(tmp_path: Path) -> None:
    path, readings = tmp_path / "broker.db", HandReadings()
    sizes = []
    for month in range(5):
        # A start at times, as over a year; closing brings the file to its true size.
        async with opened(path, readings, is_threaded=True) as ledger:
            cancel = CancelRun(grace_s=0.0, message="enough")
            submits = [submit_of(f"run-{month}-{serial}") for serial in range(300)]
            names = await asyncio.gather(*(ledger.submit(s, BROKER) for s in submits))
            await asyncio.gather(*(ledger.handle(name, cancel, BROKER) for name in names))
            readings.wait(30 * DAY_S)
            before_s = readings_elapsed(ledger, readings) - 20 * DAY_S
            while old := await ledger.old_runs(before_s):
                await ledger.retire(old, BROKER)
            await ledger.give_back()
            assert await names_of(ledger) == set()
        sizes.append(path.stat().st_size)
    assert sizes[-1] <= sizes[0] + 4_096, sizes
    assert prove(path) == ()
