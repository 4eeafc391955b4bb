"""The events as rows: append after a stream's version, read a stream or everything in order.

The rule: a row is never changed; a position is never used again. The caller owns the transaction.
Read ``appends`` first.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import sqlite_utils

from broker.history.codec import decode, encode
from broker.history.events import Event, Recorded
from broker.model.actor import Actor, ActorKind
from broker.model.moment import Moment
from broker.store.errors import LogConflictError
from broker.store.many import Statement, execute, inserts

_COLUMNS = (
    "e.position, e.stream, e.stream_version, e.at_elapsed_s, e.at_wall_s, e.actor_kind,"
    " e.actor_name, e.type, e.body"
)
_INSERT = (
    "insert into events (position, stream, stream_version, at_elapsed_s, at_wall_s, actor_kind,"
    " actor_name, type, body)"
)
Row = tuple[int, str, int, float, float, str, str, str, bytes]


def record(
    stream: str,
    events: Sequence[Event],
    *,
    after_version: int,
    after_position: int,
    at: Moment,
    actor: Actor,
) -> tuple[Recorded, ...]:
    """Return the events as they will stand in the log, nothing written yet."""
    return tuple(
        Recorded(
            position=after_position + number,
            stream=stream,
            stream_version=after_version + number,
            at=at,
            actor=actor,
            event=event,
        )
        for number, event in enumerate(events, start=1)
    )


def appends(recorded: Iterable[Recorded]) -> tuple[Statement, ...]:
    """Return what appends recorded events, for ``append``."""
    return tuple(inserts(_INSERT, [_row(one) for one in recorded]))


def append(database: sqlite_utils.Database, statements: Iterable[Statement]) -> None:
    """Append what ``appends`` made.

    Raises LogConflictError when a stream or the log is not where the records expect it: somebody
    else appended. The caller rolls back.
    """
    try:
        execute(database, statements)
    except sqlite3.IntegrityError as error:
        raise LogConflictError(
            "the log moved under this brokerd: something else writes to it; stop one of the two"
        ) from error


def read_stream(
    database: sqlite_utils.Database, stream: str, after_version: int, limit: int
) -> list[Recorded]:
    """Return at most ``limit`` events of a stream after a version, oldest first."""
    query = (
        f"select {_COLUMNS} from events e where stream = ? and stream_version > ?"  # noqa: S608
        " order by stream_version limit ?"
    )
    rows = database.conn.execute(query, (stream, after_version, limit)).fetchall()
    return [_recorded(row) for row in rows]


def read_all(
    database: sqlite_utils.Database, after_position: int = 0, limit: int = -1
) -> Iterator[Recorded]:
    """Yield every event after a position in the order of the log."""
    query = f"select {_COLUMNS} from events e where position > ? order by position limit ?"  # noqa: S608
    for row in database.conn.execute(query, (after_position, limit)):
        yield _recorded(row)


def read_where(database: sqlite_utils.Database, clause: str) -> Iterator[Recorded]:
    """Yield the events ``e`` that a from-clause of this package selects."""
    for row in database.conn.execute(f"select {_COLUMNS} {clause}"):
        yield _recorded(row)


def head(database: sqlite_utils.Database) -> int:
    """Return the last position ever used, 0 for a log that never held anything."""
    query = "select seq from sqlite_sequence where name = 'events'"
    row = database.conn.execute(query).fetchone()
    return 0 if row is None else int(row[0])


def _row(recorded: Recorded) -> Row:
    type_name, body = encode(recorded.event)
    return (
        recorded.position,
        recorded.stream,
        recorded.stream_version,
        recorded.at.elapsed_s,
        recorded.at.wall_s,
        recorded.actor.kind.value,
        recorded.actor.name,
        type_name,
        body,
    )


def _recorded(row: Row) -> Recorded:
    position, stream, version, elapsed_s, wall_s, kind, name, type_name, body = row
    return Recorded(
        position=position,
        stream=stream,
        stream_version=version,
        at=Moment(elapsed_s=elapsed_s, wall_s=wall_s),
        actor=_actor(kind, name),
        event=decode(type_name, body),
    )


@lru_cache(maxsize=1024)
def _actor(kind: str, name: str) -> Actor:
    return Actor(kind=ActorKind(kind), name=name)
