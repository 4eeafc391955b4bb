"""One brokerd has a log: the lock beside it.

The rule: the kernel keeps the lock and drops it with the process, so that a kill leaves none
behind. Read ``hold`` first.
"""

import fcntl
import os
from pathlib import Path

from broker.store.errors import LogInUseError, LogUnwritableError


class Lock:
    """A held lock; it ends with ``release`` or with the process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Let another process have the log."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def hold(log_path: Path) -> Lock:
    """Take the lock of the log at a path.

    Raises LogInUseError when another process, or another ledger of this one, has it.
    """
    path = log_path.with_name(log_path.name + ".lock")
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LogUnwritableError(f"cannot open {path}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise LogInUseError(
            f"{log_path} is in use by process {holder or 'unknown'}; stop that brokerd first"
        ) from error
    _write_holder(descriptor)
    return Lock(path, descriptor)


def _write_holder(descriptor: int) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError:
        return  # a full disk: the lock holds all the same, only its owner is not named
