"""Many rows in few statements.

The rule: each statement lets other threads run, and then waits for them; so a batch is written and
looked up in as few as there can be. Numbers of rows are those of a ladder, so that the connection's
cache of prepared statements serves. Read ``inserts`` first.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import sqlite_utils

# Rows of one statement: any number up to the last rung takes four statements or fewer. The last is
# below SQLite's limit of 32,766 values for tables of 255 columns.
RUNGS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
ROWS_MAX = RUNGS[-1]
Statement = tuple[str, Sequence[Any]]  # SQL, and the values of its places


def inserts(head: str, rows: Sequence[tuple[Any, ...]], tail: str = "") -> Iterator[Statement]:
    """Yield what inserts rows: ``head`` ends before ``values``, ``tail`` is a conflict clause."""
    start = 0
    while start < len(rows):
        count = _rung_within(len(rows) - start)
        part = rows[start : start + count]
        places = _places(count, len(part[0]))
        yield f"{head} values {places} {tail}", [value for row in part for value in row]
        start += count


def execute(database: sqlite_utils.Database, statements: Iterable[Statement]) -> None:
    """Execute statements in their order, within the caller's transaction."""
    for sql, values in statements:
        database.conn.execute(sql, values)


def select_many(
    database: sqlite_utils.Database, before: str, keys: Sequence[tuple[Any, ...]], after: str
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query with the keys' places between its two parts."""
    for start in range(0, len(keys), ROWS_MAX):
        part = list(keys[start : start + ROWS_MAX])
        count = _rung_above(len(part))
        part += [part[-1]] * (count - len(part))  # asking twice for one key changes nothing
        places = _places(count, len(part[0]))
        values = [value for key in part for value in key]
        yield from database.conn.execute(f"{before}{places}{after}", values).fetchall()


@cache
def _places(rows: int, columns: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return ", ".join([row] * rows)


def _rung_within(count: int) -> int:
    return RUNGS[bisect_right(RUNGS, count) - 1]


def _rung_above(count: int) -> int:
    return RUNGS[bisect_left(RUNGS, count)]
