"""One log put in the place of another, so that a kill at any moment leaves one of them, whole.

The rule: a restored log that is whole, and on the disk under ``RESTORED``, is decided: whoever
comes next puts it in place. Before that the former log is as it was. What was replaced is moved
aside, never removed. Read ``decide`` and ``finish`` first.
"""

import os
from enum import StrEnum
from pathlib import Path

from broker.store.errors import LogDamagedError, LogUnwritableError
from broker.store.lock import hold

RESTORING = ".restoring"  # behind a log's name: it is being made
RESTORED = ".restored"  # it is whole, and its place is its due
BESIDE = ("-wal", "-shm")  # what SQLite keeps beside a database


class BrokenOff(StrEnum):
    """A restore that was killed, and what became of it."""

    UNDONE = "a restore was broken off before its log was whole: the log is what it was before"
    FINISHED = (
        "a restore was broken off when its log was whole: it is put in place now, and what it"
        " replaced lies beside it"
    )


def finish_broken_off(path: Path) -> BrokenOff | None:
    """Finish a restore that was killed, before anybody opens the log; None when there was none.

    Raises LogInUseError, LogUnwritableError, or LogDamagedError where it leaves no log at all: to
    begin an empty one in its place would forget every run.
    """
    if not any(Path(f"{path}{suffix}").exists() for suffix in (RESTORING, RESTORED)):
        return None
    lock = hold(path)
    try:
        is_decided = finish(path)
        if not path.exists():
            raise LogDamagedError(
                f"a restore to {path.parent} was broken off before its log was whole, and there was"
                " none before: restore it again with --replace"
            )
        remove(Path(f"{path}{RESTORING}"))
    except OSError as error:
        raise LogUnwritableError(f"cannot finish the restore of {path}: {error}") from error
    finally:
        lock.release()
    return BrokenOff.FINISHED if is_decided else BrokenOff.UNDONE


def decide(path: Path) -> None:
    """Have the log that was made under ``RESTORING`` replace the one at ``path``, come what may.

    Raises OSError before that is decided, or when it cannot be carried out yet.
    """
    put_in_place(Path(f"{path}{RESTORING}"), Path(f"{path}{RESTORED}"))
    finish(path)


def finish(path: Path) -> bool:
    """Put a decided log in its place; return whether there was one. To be repeated after a kill."""
    restored = Path(f"{path}{RESTORED}")
    if not restored.exists():
        return False
    number = 1
    while (aside := path.with_name(f"{path.name}.replaced-{number}")).exists():
        number += 1
    # The database goes last: until it has gone, the next one to come finds the same number free.
    for suffix in (*BESIDE, ""):
        if (old := Path(f"{path}{suffix}")).exists():
            old.rename(f"{aside}{suffix}")
    put_in_place(restored, path)
    return True


def put_in_place(part: Path, target: Path) -> None:
    """Give a finished file its name, durably."""
    _sync(part, os.O_RDONLY)
    part.replace(target)
    _sync(target.parent, os.O_RDONLY | os.O_DIRECTORY)


def remove(part: Path) -> None:
    """Remove a log that is not to be one, and what is kept beside it."""
    for suffix in ("", *BESIDE, ".lock"):
        Path(f"{part}{suffix}").unlink(missing_ok=True)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
