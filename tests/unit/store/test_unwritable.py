"""A disk that is full, read-only or failing: a clear error, nothing half-written, and then on."""

from __future__ import annotations

import asyncio
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from broker.runtime.clock import MachineReadings, SystemClock
from broker.store.batch import Order
from broker.store.errors import (
    LogConflictError,
    LogDamagedError,
    LogIncompatibleError,
    LogInUseError,
    LogUnreadableError,
    LogUnwritableError,
)
from broker.store.ledger import open_ledger
from broker.store.rebuild import prove
from broker.store.schema import SCHEMA_VERSION, write_meta
from tests.builders import BROKER
from tests.unit.store.ledgers import REGIONS, all_of, committing, opened, submit_of


def order_of(name: str) -> Order:
    submit = submit_of(name)
    return Order(stream=submit.name, command=submit, actor=BROKER)


def test_a_batch_that_cannot_be_looked_up_says_so_and_changes_nothing(tmp_path: Path) -> None:
    with committing(tmp_path / "broker.db") as (committer, picture, database):
        committer.commit([order_of("before")])
        database.execute("alter table requests rename to lost")
        with pytest.raises(LogUnreadableError, match="cannot be read: no such table"):
            committer.commit([order_of("digits")])
        assert list(picture.live) == [order_of("before").stream]
        database.execute("alter table lost rename to requests")
        assert len(committer.commit([order_of("digits")]).recorded) == 1


@pytest.mark.parametrize(
    ("break_it", "mend_it", "word"),
    [
        ("pragma max_page_count = 1", "pragma max_page_count = 1000000", "full"),
        ("pragma query_only = 1", "pragma query_only = 0", "readonly"),
    ],
)
def test_a_batch_that_the_disk_refuses_changes_nothing(
    tmp_path: Path, break_it: str, mend_it: str, word: str
) -> None:
    path = tmp_path / "broker.db"
    with committing(path) as (committer, picture, database):
        committer.commit([order_of("before")])
        known = (dict(picture.live), dict(picture.holdings))
        database.execute(break_it)
        batch = [order_of(f"run-{n}-{'x' * 20}") for n in range(200)]
        for _ in range(2):
            with pytest.raises(LogUnwritableError, match=f"nothing was changed.*{word}"):
                committer.commit(batch)
            assert (picture.live, picture.holdings) == known
            assert word in picture.trouble
        database.execute(mend_it)
        assert prove(path) == ()
        committed = committer.commit(batch)
        assert [one.position for one in committed.recorded] == list(range(2, 202))
        assert picture.trouble == ""
    assert prove(path) == ()


async def fill_the_disk(path: Path) -> None:
    """Write until the system takes no more, then once it takes more again."""
    # A file may not grow beyond this: the write fails as on a full disk.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    clock = SystemClock(None, MachineReadings())
    ledger = open_ledger(path, clock, regions=REGIONS, is_threaded=True)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    accepted: list[str] = []
    sentence = ""
    for serial in range(10_000):
        submits = [submit_of(f"run-{serial}-{n}") for n in range(16)]
        outcomes = await asyncio.gather(
            *(ledger.submit(submit, BROKER) for submit in submits), return_exceptions=True
        )
        accepted += [name for name in outcomes if isinstance(name, str)]
        failures = [error for error in outcomes if isinstance(error, BaseException)]
        if failures:
            assert all(isinstance(error, LogUnwritableError) for error in failures), failures
            sentence = str(failures[0])
            break
    assert "nothing was changed" in sentence
    # Once the disk refuses everything: what a burst left of the write-ahead log is used up first.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    await ledger.mark_time()
    assert "cannot be written" in ledger.trouble()
    assert sorted(ledger.live_runs()) == sorted(accepted), "a run that was not accepted is there"
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await ledger.mark_time()
    assert ledger.trouble() == "", "nobody has to change anything for it to be found out"
    accepted += [await ledger.submit(submit_of("after"), BROKER)]
    await ledger.close()
    print("\n".join(accepted))


def test_law_2_a_disk_that_fills_up_takes_whole_runs_or_none(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.store.test_unwritable", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[3],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    accepted = done.stdout.split()
    assert accepted[-1].endswith("/after")
    assert prove(path) == ()

    async def names() -> list[str]:
        async with opened(path) as ledger:
            runs, _, _ = await all_of(ledger)
            return sorted(runs)

    assert asyncio.run(names()) == sorted(accepted)


def test_what_another_wrote_meanwhile_is_a_conflict_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    path = tmp_path / "broker.db"
    # Two committers without the lock: as a filesystem that knows no locks would have it.
    with committing(path) as (ours, picture, _), committing(path) as (theirs, _, _):
        ours.commit([order_of("first")])
        with pytest.raises(LogConflictError, match="something else writes"):
            theirs.commit([order_of("second"), order_of("third")])
        ours.commit([order_of("fourth")])
        assert len(picture.live) == 2
    assert prove(path) == ()


async def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(LogUnwritableError, match="cannot open"):
        async with opened(tmp_path / "missing" / "broker.db"):
            pass


async def test_a_file_that_is_no_log_is_said_and_left(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    path.write_bytes(b"a text about capacity, nothing else\n" * 100)
    before = path.read_bytes()
    with pytest.raises(LogDamagedError, match="is not a log"):
        async with opened(path):
            pass
    assert path.read_bytes() == before


async def test_one_ledger_has_a_log(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    async with opened(path) as ledger:
        await ledger.submit(submit_of("digits"), BROKER)
        with pytest.raises(LogInUseError, match="in use by process"):
            async with opened(path):
                pass
    async with opened(path) as ledger:
        assert len(ledger.live_runs()) == 1


async def test_a_log_that_needs_newer_code_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    with committing(path) as (committer, _, _):
        committer.commit([order_of("before")])
        committer.do(
            lambda database: write_meta(database, "oldest_compatible", str(SCHEMA_VERSION + 1))
        )
    before = path.read_bytes()
    with pytest.raises(LogIncompatibleError, match=f"knows schema {SCHEMA_VERSION + 1}"):
        async with opened(path):
            pass
    assert path.read_bytes() == before


async def test_a_lost_event_is_damage_not_a_guess(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    with committing(path) as (committer, _, _):
        committer.commit([order_of("first"), order_of("second")])
        committer.do(
            lambda database: database.execute(
                "update events set stream_version = 2 where position = 1"
            )
        )
    with pytest.raises(LogDamagedError, match="lacks event 1"):
        async with opened(path):
            pass
    assert prove(path) != ()


async def test_an_event_of_a_newer_release_is_named_and_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    with committing(path) as (committer, _, _):
        committer.commit([order_of("first")])
        committer.do(lambda database: database.execute("update events set type = 'Teleported'"))
    with pytest.raises(LogIncompatibleError, match="Teleported"):
        async with opened(path):
            pass


if __name__ == "__main__":
    asyncio.run(fill_the_disk(Path(sys.argv[1])))
