"""Backups taken while the broker works, and a restore that harms nothing that came after.

The rule: a file has its name only when it is whole and on the disk. A restored log begins a new
incarnation, above every one that stores may have seen. Read ``back_up`` and ``restore`` first.
"""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from broker.history.commands import BeginIncarnation
from broker.model.actor import Actor
from broker.runtime.clock import ClockMark
from broker.store.batch import Order
from broker.store.errors import LogDamagedError, LogExistsError, LogUnwritableError
from broker.store.ledger import LOG_NAME
from broker.store.lock import hold
from broker.store.rebuild import prove
from broker.store.recovery import MarkingClock, read_mark, recover
from broker.store.replacing import RESTORING, decide, finish, put_in_place, remove
from broker.store.schema import open_database, read_meta
from broker.store.streams import BROKER_STREAM
from broker.store.views import read_snapshot


def back_up(path: Path, target: Path) -> int:
    """Copy a log, in use or not, into one file; return its size in bytes.

    The copy is one state of the log, checked, and replaces ``target`` only when it is on the disk.
    Raises LogUnwritableError, LogDamagedError, or LogIncompatibleError.
    """
    if not path.exists():
        raise LogDamagedError(f"there is no log at {path}")
    part = target.with_name(target.name + ".part")
    try:
        part.unlink(missing_ok=True)
        with (
            closing(open_database(path, is_read_only=True)) as source,
            closing(sqlite3.connect(part, isolation_level=None)) as copy,
        ):
            source.conn.backup(copy)  # one step: writers go on, and what they add is not in it
            copy.execute("pragma journal_mode = delete")  # all in the one file
            _check_whole(copy, path)
        put_in_place(part, target)
    except (sqlite3.OperationalError, OSError) as error:
        raise LogUnwritableError(f"cannot back up {path} to {target}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise LogDamagedError(f"{path} cannot be read whole: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return target.stat().st_size


def restore(
    backup: Path,
    data_dir: Path,
    *,
    clock: Callable[[ClockMark | None], MarkingClock],
    actor: Actor,
    is_told_to_replace: bool,
) -> int:
    """Make a backup the log of a data directory; return its new incarnation.

    ``clock`` continues broker time from a mark. A directory that holds anything is refused unless
    told; then what it has of a log is moved aside, not removed. A kill at any moment leaves the
    former log or this one (``replacing``). Raises LogInUseError, LogExistsError,
    LogUnwritableError, LogIncompatibleError, or LogDamagedError for a backup that is not whole.
    """
    path, part = data_dir / LOG_NAME, data_dir / f"{LOG_NAME}{RESTORING}"
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = hold(path)
        try:
            if not is_told_to_replace:
                _check_empty(data_dir, lock.path)
            finish(path)
            remove(part)
            shutil.copyfile(backup, part)
            _check_proven(part, backup)
            incarnation = _begin(part, _last_incarnation(path), clock, actor)
            decide(path)
        finally:
            remove(part)
            lock.release()
    except OSError as error:
        raise LogUnwritableError(f"cannot restore {backup} to {data_dir}: {error}") from error
    return incarnation


def _begin(
    part: Path, last: int, clock: Callable[[ClockMark | None], MarkingClock], actor: Actor
) -> int:
    """Begin the next life in a copied log, and leave it as one file."""
    started = clock(read_mark(part))
    with closing(open_database(part)) as database:  # closing takes all out of the write-ahead log
        _, committer = recover(
            database, lambda name: read_snapshot(database, name), started, regions=()
        )
        # Unix time is above whatever lives came after this backup was taken, on any machine.
        incarnation = max(
            last + 1,
            int(read_meta(database, "incarnation") or 0) + 1,
            int(started.now().wall_s),
        )
        command = BeginIncarnation(incarnation=incarnation, is_restored=True)
        committed = committer.commit([Order(stream=BROKER_STREAM, command=command, actor=actor)])
    if not committed.recorded:
        raise LogDamagedError(f"no life can begin in {part}: {committed.results[0]}")
    return incarnation


def _last_incarnation(path: Path) -> int:
    """Return the incarnation of the log that is replaced, 0 when there is none to read."""
    try:
        if not path.exists():
            return 0
        with closing(open_database(path, is_read_only=True)) as database:
            return int(read_meta(database, "incarnation") or 0)
    except (LogDamagedError, sqlite3.DatabaseError):
        return 0  # what is replaced may be what was damaged


def _check_empty(data_dir: Path, lock: Path) -> None:
    there = sorted(entry.name for entry in data_dir.iterdir() if entry != lock)
    if there:
        raise LogExistsError(
            f"{data_dir} is not empty ({', '.join(there[:3])}); restore to an empty directory, or"
            " say that it is to be replaced (--replace)"
        )


def _check_proven(part: Path, backup: Path) -> None:
    with closing(open_database(part, is_read_only=True)) as database:
        if "events" not in database.table_names():  # an empty file is an empty database
            raise LogDamagedError(f"{backup} holds no log")
        _check_whole(database.conn, backup)
    differences = prove(part)
    if differences:
        raise LogDamagedError(f"{backup} does not hold together: {differences[0]}")


def _check_whole(connection: sqlite3.Connection, path: Path) -> None:
    row = connection.execute("pragma integrity_check(1)").fetchone()
    if row[0] != "ok":
        raise LogDamagedError(f"{path} is damaged: {row[0]}")
