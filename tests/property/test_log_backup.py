"""Law 2 over restores: a restored log is the log as it was at one moment, in a new life."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings

from broker.history.regional_events import IncarnationBegan
from broker.model.actor import Actor, ActorKind
from broker.runtime.clock import SystemClock
from broker.store.backup import back_up, restore
from broker.store.errors import LogDamagedError, LogExistsError, LogInUseError
from broker.store.ledger import LOG_NAME
from broker.store.log import read_all
from broker.store.rebuild import prove
from broker.store.schema import open_database
from tests.builders import BROKER
from tests.fakes.readings import HandReadings
from tests.unit.store.ledgers import all_of, opened, submit_of
from tests.unit.store.stories import tell

from .test_log import SEEDS, fresh_log

OPS = Actor(kind=ActorKind.OPS, name="grace")


def restored(
    backup: Path, data_dir: Path, readings: HandReadings, *, is_told_to_replace: bool = False
) -> int:
    return restore(
        backup,
        data_dir,
        clock=lambda mark: SystemClock(mark, readings),
        actor=OPS,
        is_told_to_replace=is_told_to_replace,
    )


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def events_of(path: Path) -> list[object]:
    database = open_database(path, is_read_only=True)
    try:
        return list(read_all(database))
    finally:
        database.close()


@settings(max_examples=10)
@given(seed=SEEDS)
def test_law_2_a_restored_log_is_the_prefix_in_a_new_life(seed: int) -> None:
    async def story(path: Path) -> None:
        readings = HandReadings()
        backup, data_dir = path.with_name("backup.db"), path.with_name("restored")
        async with opened(path, readings) as ledger:
            await tell(ledger, readings, seed, 60)
            prefix, runs = events_of(path), (await all_of(ledger))[0]
            last = ledger.broker().incarnation
            assert back_up(path, backup) == backup.stat().st_size
            await tell(ledger, readings, seed + 1, 30)
        incarnation = restored(backup, data_dir, readings)
        assert incarnation == int(readings.wall_s()) > last
        new = data_dir / LOG_NAME
        assert names_in(data_dir) == [LOG_NAME, f"{LOG_NAME}.lock"]
        *before, began = events_of(new)
        assert before == prefix
        assert began.event == IncarnationBegan(incarnation=incarnation, is_restored=True)  # type: ignore[attr-defined]
        assert prove(new) == ()
        async with opened(new, readings) as ledger:
            assert (await all_of(ledger))[0] == runs
            assert ledger.broker().is_restored

    with fresh_log() as path:
        asyncio.run(story(path))


async def test_a_backup_taken_amid_writes_is_one_state_of_the_log(tmp_path: Path) -> None:
    path, backup = tmp_path / "broker.db", tmp_path / "backup.db"
    async with opened(path, is_threaded=True) as ledger:

        async def write(number: int) -> None:
            for serial in range(40):
                await ledger.submit(submit_of(f"run-{number}-{serial}"), BROKER)

        async def copy() -> None:
            for _ in range(5):
                await asyncio.to_thread(back_up, path, backup)
                assert prove(backup) == ()
                taken = events_of(backup)
                assert taken == events_of(path)[: len(taken)]

        await asyncio.gather(copy(), *(write(number) for number in range(8)))
    assert names_in(tmp_path) == [
        "backup.db",
        "broker.db",
        "broker.db.lock",
    ]


async def test_a_restore_begins_above_the_life_that_it_replaces(tmp_path: Path) -> None:
    readings = HandReadings()
    path, backup = tmp_path / LOG_NAME, tmp_path.with_name(f"{tmp_path.name}-backup.db")
    async with opened(path, readings) as ledger:
        await ledger.submit(submit_of("digits"), BROKER)
        back_up(path, backup)
        await ledger.submit(submit_of("letters"), BROKER)
    first = restored(backup, tmp_path, readings, is_told_to_replace=True)
    readings.step_wall(-1_000_000.0)
    second = restored(backup, tmp_path, readings, is_told_to_replace=True)
    assert second == first + 1
    async with opened(path, readings) as ledger:
        assert list(ledger.live_runs()) == ["teams/vision/runs/digits"]
    # What was replaced is not removed.
    async with opened(tmp_path / f"{LOG_NAME}.replaced-1", readings) as ledger:
        assert len(ledger.live_runs()) == 2
    backup.unlink()


async def test_a_restore_over_a_log_in_use_is_refused(tmp_path: Path) -> None:
    readings = HandReadings()
    path, backup = tmp_path / LOG_NAME, tmp_path / "backup.db"
    async with opened(path, readings) as ledger:
        back_up(path, backup)
        with pytest.raises(LogInUseError):
            restored(backup, tmp_path, readings, is_told_to_replace=True)
        assert await ledger.submit(submit_of("digits"), BROKER)


async def test_a_restore_over_anything_is_refused_unless_told(tmp_path: Path) -> None:
    readings = HandReadings()
    path, backup, other = tmp_path / "a" / LOG_NAME, tmp_path / "backup.db", tmp_path / "b"
    path.parent.mkdir()
    async with opened(path, readings):
        back_up(path, backup)
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    for there in (path.parent, other):
        before = {*names_in(there), f"{LOG_NAME}.lock"}
        with pytest.raises(LogExistsError, match="is not empty"):
            restored(backup, there, readings)
        assert set(names_in(there)) == before


@pytest.mark.parametrize("cut", [0.5, 0.0])
async def test_half_a_backup_is_refused_and_leaves_nothing(tmp_path: Path, cut: float) -> None:
    readings = HandReadings()
    path, backup = tmp_path / "broker.db", tmp_path / "backup.db"
    async with opened(path, readings) as ledger:
        await tell(ledger, readings, 3, 60)
        size = back_up(path, backup)
    backup.write_bytes(backup.read_bytes()[: int(size * cut)])
    with pytest.raises(LogDamagedError):
        restored(backup, tmp_path / "new", readings)
    assert not (tmp_path / "new" / LOG_NAME).exists()


async def test_a_backup_whose_views_do_not_follow_from_its_events_is_refused(
    tmp_path: Path,
) -> None:
    readings = HandReadings()
    path, backup = tmp_path / "broker.db", tmp_path / "backup.db"
    async with opened(path, readings) as ledger:
        await ledger.submit(submit_of("digits"), BROKER)
        back_up(path, backup)
    database = open_database(backup)
    database.execute("update runs set state = 'RUNNING'")
    database.close()
    with pytest.raises(LogDamagedError, match="does not hold together: runs"):
        restored(backup, tmp_path / "new", readings)
