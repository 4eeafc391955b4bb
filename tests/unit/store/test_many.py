"""Many rows in few statements: none is left out, whatever their number."""

from __future__ import annotations

import sqlite3

import pytest
from sqlite_utils import Database

from broker.store.many import ROWS_MAX, execute, inserts, select_many


@pytest.mark.parametrize("count", [*range(ROWS_MAX + 2), 2 * ROWS_MAX + 127])
def test_every_row_is_written_and_found_in_few_statements(count: int) -> None:
    database = Database(sqlite3.connect(":memory:"))
    database.conn.execute("create table t (a integer primary key, b text)")
    rows = [(number, f"of {number}") for number in range(count)]
    statements: list[str] = []
    database.conn.set_trace_callback(statements.append)

    execute(database, inserts("insert into t", rows))
    written = [one for one in statements if one.startswith("insert")]
    assert database.conn.execute("select a, b from t order by a").fetchall() == rows
    assert len(written) <= 4 + count // ROWS_MAX

    keys = [(number,) for number in range(count)]
    before, after = "with asked (a) as (values ", ") select t.a, t.b from asked join t using (a)"
    found = list(select_many(database, before, keys, after))
    assert sorted(set(found)) == rows
