"""The tables of the log and of its views, and which code may read them.

The rule: ``events`` is the truth and ``meta`` its frame; every other table is a view that
``rebuild`` makes anew from ``events``. A change of shape raises SCHEMA_VERSION; a change that old
code would misread raises OLDEST_COMPATIBLE as well. Read ``open_database`` first.
"""

import sqlite3
from pathlib import Path

import sqlite_utils

from broker.store.errors import LogDamagedError, LogIncompatibleError, LogUnwritableError
from broker.store.many import Statement, execute

SCHEMA_VERSION = 1
OLDEST_COMPATIBLE = 1  # the oldest schema_version whose code can still use this log
BUSY_TIMEOUT_MS = 10_000
CHECKPOINT_PAGES = 4_000  # 16 MB of write-ahead log: a checkpoint waits for the disk three times
CACHE_KIB = 32_000  # of the writer: the inner pages of every index
WAL_KEPT_BYTES = 64 * 1024 * 1024  # what a burst leaves of the write-ahead log on the disk

TRUTH = """
create table if not exists meta (key text primary key, value text not null) without rowid;
create table if not exists events (
    position integer primary key autoincrement,
    stream text not null,
    stream_version integer not null,
    at_elapsed_s real not null,
    at_wall_s real not null,
    actor_kind text not null,
    actor_name text not null,
    type text not null,
    body blob not null,
    unique (stream, stream_version)
);
"""

VIEWS = """
create table if not exists streams (stream text primary key) without rowid;
create table if not exists snapshots (
    stream text primary key,
    stream_version integer not null,
    body blob not null
) without rowid;
create table if not exists runs (
    name text primary key,
    team text not null,
    owner text not null,
    state text not null,
    reason text not null,
    is_settled integer not null,
    created_wall_s real not null,
    settled_s real
) without rowid;
create index if not exists runs_unsettled on runs (name) where is_settled = 0;
create index if not exists runs_settled on runs (settled_s) where is_settled = 1;
create index if not exists runs_by_team on runs (team, created_wall_s, name);
create index if not exists runs_by_age on runs (created_wall_s, name);
create table if not exists run_labels (
    name text not null, key text not null, value text not null,
    primary key (name, key)
) without rowid;
create index if not exists labels_by_value on run_labels (key, value, name);
create table if not exists run_regions (
    name text not null, region text not null, primary key (name, region)
) without rowid;
create index if not exists runs_by_region on run_regions (region, name);
create table if not exists requests (
    team text not null, request_id text not null, name text not null, body_digest text not null,
    primary key (team, request_id)
) without rowid;
create table if not exists gate_time (
    team text not null, day integer not null, gpu_ms integer not null,
    primary key (team, day)
) without rowid;
create table if not exists team_spent (
    team text primary key, usd text not null
) without rowid;
"""

# Each view's table, and how many of its first columns are its key.
VIEW_KEYS = {
    "streams": 1,
    "snapshots": 1,
    "runs": 1,
    "run_labels": 2,
    "run_regions": 2,
    "requests": 2,
    "gate_time": 2,
    "team_spent": 1,
}


def open_database(path: Path, *, is_read_only: bool = False) -> sqlite_utils.Database:
    """Open the log's database, making its tables when it is new.

    Raises LogIncompatibleError for a log this code must not touch, LogUnwritableError when the
    disk refuses, LogDamagedError when the file is no log.
    """
    connection: sqlite3.Connection | None = None
    try:
        connection = _connect(path, is_read_only=is_read_only)
        database = sqlite_utils.Database(connection, execute_plugins=False)
        if "meta" in database.table_names():
            _check_compatible(database)  # before anything of it is touched
        if not is_read_only:
            _frame(database)
    except sqlite3.OperationalError as error:
        _close(connection)
        raise LogUnwritableError(f"cannot open the log at {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        _close(connection)
        raise LogDamagedError(f"{path} is not a log: {error}") from error
    except BaseException:
        _close(connection)
        raise
    return database


def read_meta(database: sqlite_utils.Database, key: str) -> str | None:
    """Return one value of the log's frame, or None."""
    row = database.execute("select value from meta where key = ?", [key]).fetchone()
    return None if row is None else str(row[0])


def write_meta(database: sqlite_utils.Database, key: str, value: str) -> None:
    """Set one value of the log's frame, within the caller's transaction."""
    execute(database, (setting(key, value),))


def setting(key: str, value: str) -> Statement:
    """Return what sets one value of the log's frame."""
    return "insert or replace into meta (key, value) values (?, ?)", (key, value)


def create_views(database: sqlite_utils.Database) -> None:
    """Make the view tables where they are missing."""
    _execute_each(database, VIEWS)


def drop_views(database: sqlite_utils.Database) -> None:
    """Remove the view tables, whatever shape they have."""
    for table in VIEW_KEYS:
        database.conn.execute(f"drop table if exists {table}")


def _connect(path: Path, *, is_read_only: bool) -> sqlite3.Connection:
    mode = "ro" if is_read_only else "rwc"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,  # transactions begin and end where the code says so
        check_same_thread=False,  # each connection is used by one thread at a time
        cached_statements=256,
    )
    connection.execute(f"pragma busy_timeout = {BUSY_TIMEOUT_MS}")
    if not is_read_only:
        connection.execute("pragma auto_vacuum = incremental")  # counts only before the first table
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute(f"pragma journal_size_limit = {WAL_KEPT_BYTES}")
        connection.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"pragma cache_size = {-CACHE_KIB}")
    return connection


def _close(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        connection.close()


def _frame(database: sqlite_utils.Database) -> None:
    # One transaction: a kill leaves a whole frame or none.
    with database.atomic():
        _execute_each(database, TRUTH)
        if read_meta(database, "schema_version") is None:
            write_meta(database, "schema_version", str(SCHEMA_VERSION))
            write_meta(database, "oldest_compatible", str(OLDEST_COMPATIBLE))
        create_views(database)


def _execute_each(database: sqlite_utils.Database, script: str) -> None:
    # Not `executescript`, which would commit what the caller has begun.
    for statement in script.split(";"):
        if statement.strip():
            database.conn.execute(statement)


def _check_compatible(database: sqlite_utils.Database) -> None:
    oldest = int(read_meta(database, "oldest_compatible") or 0)
    if oldest > SCHEMA_VERSION:
        raise LogIncompatibleError(
            f"this log needs a brokerd that knows schema {oldest}; this one knows {SCHEMA_VERSION}"
        )
