"""The proof of the views finds every lie, and a rebuild mends it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from broker.history.codec import encode_run
from broker.store import release
from broker.store.errors import LogDamagedError
from broker.store.rebuild import prove, rebuild
from broker.store.schema import VIEW_KEYS, open_database, write_meta
from broker.store.views import read_snapshot
from tests.fakes.readings import HandReadings
from tests.unit.store.ledgers import all_of, opened
from tests.unit.store.stories import Teller, tell, tell_on

LIES = {
    "streams": "delete from streams where stream = 'broker'",
    "snapshots": "update snapshots set stream_version = stream_version - 1",
    "runs": "update runs set is_settled = 1 - is_settled",
    "run_labels": "insert into run_labels values ('teams/vision/runs/run-1', 'goal', '7b')",
    "run_regions": "update run_regions set region = 'nowhere' where region = 'alpha'",
    "requests": "update requests set body_digest = 'forged'",
    "gate_time": "update gate_time set gpu_ms = gpu_ms + 1",
    "team_spent": "update team_spent set usd = '0.01'",
}


async def tell_long(path: Path) -> None:
    readings = HandReadings()
    async with opened(path, readings) as ledger:
        # It goes quickly, for time at gates is looked at for two days only.
        teller = Teller(chance=Random(1), pauses_s=(1.0, 60.0))
        await tell_on(teller, ledger, readings, 250)


def test_there_is_a_lie_for_every_view() -> None:
    assert set(LIES) == set(VIEW_KEYS)


@pytest.mark.parametrize("table", list(LIES))
async def test_a_lie_is_found_and_mended(tmp_path: Path, table: str) -> None:
    path = tmp_path / "broker.db"
    await tell_long(path)
    assert prove(path) == ()
    database = open_database(path)
    changed = database.execute(LIES[table]).rowcount
    database.close()
    assert changed > 0, "the story has nothing to lie about"
    differences = prove(path)
    assert differences
    assert all(sentence.startswith(f"{table}: ") for sentence in differences)
    assert rebuild(path) > 10
    assert prove(path) == ()


async def test_a_snapshot_that_says_something_else_is_found(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    await tell_long(path)
    database = open_database(path)
    (name,) = database.execute("select stream from snapshots limit 1").fetchone()
    run = read_snapshot(database, name)
    assert run is not None
    forged = encode_run(run).replace(b'"user_failures":0', b'"user_failures":7')
    assert forged != encode_run(run)
    database.execute("update snapshots set body = ? where stream = ?", [forged, name])
    database.close()
    assert len(prove(path)) == 1


async def test_a_log_without_its_views_is_made_whole(tmp_path: Path) -> None:
    path, readings = tmp_path / "broker.db", HandReadings()
    async with opened(path, readings) as ledger:
        await tell(ledger, readings, seed=1, steps=150)
        before = await all_of(ledger)
    database = open_database(path)
    for table in VIEW_KEYS:
        database.execute(f"drop table {table}")
    database.close()
    rebuild(path)
    async with opened(path, readings) as ledger:
        assert await all_of(ledger) == before


async def made_by_other_code(path: Path) -> str:
    """Tell a story, and leave one snapshot as another release might have worded it."""
    await tell_long(path)
    database = open_database(path)
    (name,) = database.execute("select stream from snapshots limit 1").fetchone()
    run = read_snapshot(database, name)
    assert run is not None
    other = replace(run, why=replace(run.why, message="in other words"))
    database.execute("update snapshots set body = ? where stream = ?", [encode_run(other), name])
    write_meta(database, release.KEY, "another release")
    database.close()
    return str(name)


async def test_what_another_release_said_is_said_anew(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    name = await made_by_other_code(path)
    assert prove(path) == ()  # it is told apart from a lie
    async with opened(path, HandReadings()) as ledger:
        run = ledger.run(name)
        assert run is not None
        assert run.why.message != "in other words"
    database = open_database(path)
    assert release.is_ours(database)
    database.close()
    assert prove(path) == ()


async def test_events_that_are_lost_are_missed_by_another_release_too(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    name = await made_by_other_code(path)
    database = open_database(path)
    last = "select max(position) from events where stream = ?"
    database.execute(f"delete from events where position = ({last})", [name])
    database.close()
    with pytest.raises(LogDamagedError, match="lacks its last events"):
        async with opened(path, HandReadings()):
            pass
