"""The views made anew from the events, and the proof that what stands there is the same.

The rule: whatever is not in ``events`` or ``meta`` can be lost. Both directions fold one stream
at a time, so that memory does not grow with the log. Read ``prove`` first.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import sqlite_utils

from broker.history.codec import UndecodableError, decode_run
from broker.history.events import Recorded
from broker.history.refusals import HistoryError
from broker.history.regional import TeamState
from broker.model.run import Run
from broker.store import log, views
from broker.store.errors import LogDamagedError, LogIncompatibleError, LogUnwritableError
from broker.store.lock import hold
from broker.store.many import execute
from broker.store.picture import State, is_settled
from broker.store.release import is_ours, sign
from broker.store.schema import VIEW_KEYS, create_views, drop_views, open_database
from broker.store.standing import DAY_S, DAYS_KEPT, day_of, gate_ms_of
from broker.store.streams import fold

DIFFERENCES_MAX = 100  # more say nothing more
Row = tuple[Any, ...]  # of any table; keys are text and whole numbers
SENTENCE_MAX = 300  # of one difference, which may be of two whole runs
_LOST = (
    "select s.stream from snapshots s where s.stream_version >"
    " (select coalesce(max(e.stream_version), 0) from events e where e.stream = s.stream)"
)
_REASON = 4  # its column in ``runs``: a word as well
_BY_STREAM = "from events e order by e.stream, e.stream_version"


def rebuild(path: Path) -> int:
    """Make all views of a log anew from its events; return how many streams it has.

    Nobody may have the log open. One transaction: a kill leaves the old views. Raises
    LogInUseError, LogUnwritableError, or LogDamagedError when the events do not hold together.
    """
    lock = hold(path)
    try:
        database = open_database(path)
        try:
            return _remake(database)
        finally:
            database.close()
    finally:
        lock.release()


def take_over(database: sqlite_utils.Database) -> None:
    """Make the views anew if other code made them, so that this one meets only its own words.

    Raises LogDamagedError when the events do not hold together, or end before the views do,
    LogIncompatibleError for events of a newer release, LogUnwritableError when the disk refuses.
    """
    if is_ours(database):
        return
    try:
        lost = database.conn.execute(_LOST).fetchone()
        if lost is not None:
            raise LogDamagedError(f"{lost[0]} lacks its last events; restore a backup")
        _remake(database)
    except UndecodableError as error:
        raise LogIncompatibleError(
            f"the log holds what this brokerd does not understand ({error}); it was written by a"
            " newer one, or is damaged"
        ) from error
    except sqlite3.OperationalError as error:
        raise LogUnwritableError(f"the views cannot be made anew: {error}") from error


def _remake(database: sqlite_utils.Database) -> int:
    with database.atomic():
        drop_views(database)
        create_views(database)
        count = _fold_all(database, database, None)
        sign(database)
    return count


def prove(path: Path) -> tuple[str, ...]:
    """Return a sentence for each difference between the views and what the events make of them.

    At most 100 of them; empty is the proof. Reads one state of the log, also while it is in use.
    Of snapshots that other code made only the versions are compared: its words may be others.
    """
    database = open_database(path, is_read_only=True)
    # No name: a database of its own on the disk that goes with its connection.
    expected = sqlite_utils.Database(sqlite3.connect("", isolation_level=None))
    try:
        database.conn.execute("begin")
        create_views(expected)
        expected.conn.execute("begin")
        _fold_all(database, expected, partial(_kept_version, database))
        differences = _differences(database, expected)
        return tuple(one[:SENTENCE_MAX] for one in islice(differences, DIFFERENCES_MAX))
    except (LogDamagedError, HistoryError, sqlite3.DatabaseError) as error:
        return (f"the proof ended early: {error}",)
    finally:
        expected.close()
        database.close()


def _fold_all(
    events: sqlite_utils.Database,
    target: sqlite_utils.Database,
    kept_version: Callable[[str], int] | None,
) -> int:
    """Write the views that the events make; return how many streams there are.

    ``kept_version`` says at which version a live run has a snapshot; None gives each one, as it
    is at last.
    """
    spent: dict[str, Decimal] = defaultdict(Decimal)
    gate_ms: dict[tuple[str, int], int] = defaultdict(int)
    count = 0
    by_stream = groupby(log.read_where(events, _BY_STREAM), key=lambda one: one.stream)
    for stream, recorded in by_stream:
        count += 1
        states = _fold_stream(recorded, kept_version and kept_version(stream))
        state = states.last
        kept = [states.kept] if states.kept else []
        execute(target, views.changes({stream: None}, {stream: state}, kept))
        views.write_regions(target, stream, states.regions)
        for key, ms in states.gate_ms.items():
            gate_ms[key] += ms
        match state:
            case Run():
                spent[state.intent.team] += state.spent
            case TeamState():
                spent[state.id] += state.carried_usd
    execute(target, [views.spending(team, usd) for team, usd in spent.items() if usd])
    execute(target, [views.gate_time(*key, ms) for key, ms in gate_ms.items() if ms])
    return count


@dataclass(slots=True)
class _Folded:
    """What one stream came to, and what it was on its way."""

    last: State
    kept: Run | None
    regions: set[str]
    gate_ms: dict[tuple[str, int], int]


def _fold_stream(recorded: Iterator[Recorded], kept_version: int | None) -> _Folded:
    state: State | None = None
    kept: Run | None = None
    regions: set[str] = set()
    gate_ms: dict[tuple[str, int], int] = defaultdict(int)
    for one in recorded:
        before, state = state, _fold_one(state, one)
        if isinstance(state, Run):
            was = before if isinstance(before, Run) else None
            regions |= views.new_regions(was, state)
            gate_ms[(state.intent.team, day_of(one.at))] += gate_ms_of(state) - gate_ms_of(was)
            if state.stream_version == kept_version:
                kept = state
    assert state is not None, "a group has a member"
    if isinstance(state, Run) and (kept_version is None or is_settled(state)):
        kept = state
    return _Folded(last=state, kept=kept, regions=regions, gate_ms=gate_ms)


def _fold_one(state: State | None, recorded: Recorded) -> State:
    try:
        return fold(state, recorded)
    except HistoryError as error:
        raise LogDamagedError(
            f"event {recorded.position} of the log cannot be: {error}; restore a backup"
        ) from error


def _kept_version(database: sqlite_utils.Database, stream: str) -> int:
    query = "select stream_version from snapshots where stream = ?"
    row = database.conn.execute(query, (stream,)).fetchone()
    return 0 if row is None else int(row[0])


def _differences(is_there: sqlite_utils.Database, made: sqlite_utils.Database) -> Iterator[str]:
    since_day, has_words = _last_day(is_there) - DAYS_KEPT + 1, is_ours(is_there)
    for table, columns in VIEW_KEYS.items():
        left, right = (
            _rows(database, table, since_day, has_words=has_words) for database in (is_there, made)
        )
        yield from _compare(table, columns, left, right)


def _rows(
    database: sqlite_utils.Database, table: str, since_day: int, *, has_words: bool
) -> Iterator[Row]:
    key = ", ".join(str(number + 1) for number in range(VIEW_KEYS[table]))
    for row in database.conn.execute(f"select * from {table} order by {key}"):  # noqa: S608
        match table:
            case "snapshots":
                # Compared by what it says: its bytes may be those of an older release.
                yield (row[0], row[1], decode_run(row[2]) if has_words else None)
            case "runs" if not has_words:
                yield tuple(value for at, value in enumerate(row) if at != _REASON)
            case "gate_time" if row[1] < since_day:
                continue  # retention may have removed it
            case _:
                yield row


def _compare(
    table: str,
    columns: int,
    is_there: Iterator[Row],
    made: Iterator[Row],
) -> Iterator[str]:
    """Merge two lists of rows, both ordered by their first ``columns``."""
    left, right = next(is_there, None), next(made, None)
    while left is not None or right is not None:
        left_key = left and left[:columns]
        right_key = right and right[:columns]
        if right_key is None or (left_key is not None and left_key < right_key):
            yield f"{table}: {left_key} follows from no event"
            left = next(is_there, None)
        elif left_key is None or right_key < left_key:
            yield f"{table}: {right_key} is missing"
            right = next(made, None)
        else:
            if left != right:
                yield f"{table}: {left_key} is {left}, and the events make it {right}"
            left, right = next(is_there, None), next(made, None)


def _last_day(database: sqlite_utils.Database) -> int:
    row = database.conn.execute(
        "select at_wall_s from events order by position desc limit 1"
    ).fetchone()
    return 0 if row is None else int(row[0] // DAY_S)
