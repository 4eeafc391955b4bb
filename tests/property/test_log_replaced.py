"""Law 2 over a restore that is killed: the log is the former one or the restored one, whole."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.history.regional_events import IncarnationBegan
from broker.model.actor import Actor, ActorKind
from broker.runtime.clock import SystemClock
from broker.store.backup import back_up, restore
from broker.store.errors import LogDamagedError
from broker.store.ledger import LOG_NAME
from broker.store.log import read_all
from broker.store.rebuild import prove
from broker.store.replacing import BrokenOff, finish_broken_off
from broker.store.schema import open_database
from tests.builders import BROKER
from tests.fakes.readings import HandReadings
from tests.unit.store.ledgers import opened, submit_of

OPS = Actor(kind=ActorKind.OPS, name="grace")
KILLED = 9
DONE = 0
# What changes a folder, as the interpreter tells it before it does it.
CHANGES = {"os.rename", "os.remove", "shutil.copyfile", "sqlite3.connect"}


def killed_at(point: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that dies before its change of that number; False: it was done."""
    child = os.fork()
    if child == 0:
        left = [point]

        def hear(event: str, _: object) -> None:
            if event in CHANGES:
                left[0] -= 1
                if left[0] < 0:
                    os._exit(KILLED)

        try:
            sys.addaudithook(hear)
            work()
            os._exit(DONE)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (DONE, KILLED)
    return code == KILLED


def told_of(path: Path) -> list[object]:
    database = open_database(path)
    try:
        return list(read_all(database))
    finally:
        database.close()


async def former_and_backup(folder: Path, readings: HandReadings) -> tuple[Path, Path]:
    """Make a data folder whose log has gone on since its backup, and was killed in its last write:
    what it wrote last is in its write-ahead log alone."""
    data, backup = folder / "former", folder / "backup.db"
    data.mkdir()
    async with opened(data / LOG_NAME, readings) as ledger:
        await ledger.submit(submit_of("digits"), BROKER)
        back_up(data / LOG_NAME, backup)
        await ledger.submit(submit_of("letters"), BROKER)
        shutil.copytree(data, folder / "killed")
    assert (folder / "killed" / f"{LOG_NAME}-wal").stat().st_size > 0
    return folder / "killed", backup


def restoring(backup: Path, data: Path, readings: HandReadings) -> Callable[[], int]:
    return lambda: restore(
        backup,
        data,
        clock=lambda mark: SystemClock(mark, readings),
        actor=OPS,
        is_told_to_replace=True,
    )


async def test_a_restore_that_is_killed_leaves_the_former_log_or_the_restored_one(
    tmp_path: Path,
) -> None:
    readings = HandReadings()
    former, backup = await former_and_backup(tmp_path, readings)
    shutil.copytree(former, tmp_path / "as-it-was")
    before, in_backup = told_of(tmp_path / "as-it-was" / LOG_NAME), told_of(backup)
    outcomes = []
    for point in range(1_000):
        data = tmp_path / f"{point}"
        shutil.copytree(former, data)
        log = data / LOG_NAME
        was_killed = killed_at(point, restoring(backup, data, readings))
        outcome = finish_broken_off(log)
        there = told_of(log)
        if there != before:
            *kept, began = there
            assert kept == in_backup
            assert isinstance(began.event, IncarnationBegan)  # type: ignore[attr-defined]
            assert prove(log) == ()
            assert told_of(data / f"{LOG_NAME}.replaced-1") == before
        if outcome is not None:
            assert (there == before) is (outcome is BrokenOff.UNDONE)
        assert not [one.name for one in data.iterdir() if "restor" in one.name]
        outcomes.append((outcome, there == before))
        shutil.rmtree(data)
        if not was_killed:
            break
    assert outcomes[-1] == (None, False)
    assert {outcome for outcome, _ in outcomes} == {None, *BrokenOff}


async def test_what_ends_a_broken_off_restore_can_be_killed_as_well(tmp_path: Path) -> None:
    readings = HandReadings()
    former, backup = await former_and_backup(tmp_path, readings)
    shutil.copytree(former, tmp_path / "as-it-was")
    before = told_of(tmp_path / "as-it-was" / LOG_NAME)
    point = 0
    while True:
        data = tmp_path / f"{point}"
        shutil.copytree(former, data)
        shutil.copy(backup, data / f"{LOG_NAME}.restored")
        log = data / LOG_NAME
        was_killed = killed_at(point, lambda log=log: finish_broken_off(log))  # type: ignore[misc]
        assert finish_broken_off(log) is (BrokenOff.FINISHED if was_killed else None) or (
            # It was killed when nothing but what it had moved aside was left to do.
            was_killed and not (data / f"{LOG_NAME}.restored").exists()
        )
        assert told_of(log) == told_of(backup)
        assert told_of(data / f"{LOG_NAME}.replaced-1") == before
        if not was_killed:
            break
        point += 1
    assert point > 3


def test_a_first_restore_that_is_killed_is_no_empty_log(tmp_path: Path) -> None:
    (tmp_path / f"{LOG_NAME}.restoring").write_bytes(b"half of it")
    with pytest.raises(LogDamagedError, match="restore it again with --replace"):
        finish_broken_off(tmp_path / LOG_NAME)
    with pytest.raises(LogDamagedError):
        finish_broken_off(tmp_path / LOG_NAME)
