"""Where keys and certificates stand that a TLS library takes only as files.

The rule: they are nobody else's, and go with their process, however that ends: in order by itself,
killed by the next process that needs such a folder. Read ``folder``.
"""

import atexit
import fcntl
import functools
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "capacity-broker-keys-"
LOCK = "lock"
"""Held for as long as the folder's process lives, in whatever container that is."""


@functools.cache
def folder() -> str:
    """Return this process's own folder, empty at first; those of dead processes are removed."""
    prefix = f"{PREFIX}{os.getuid()}-"
    for one in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):
            if _is_ours(one) and _has_died(one):
                shutil.rmtree(one, ignore_errors=True)
    made = tempfile.mkdtemp(prefix=prefix)  # with mode 0700
    lock = os.open(os.path.join(made, LOCK), os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _is_ours(path: Path) -> bool:
    """Whether it is a folder, no link to one, and was made by this user."""
    seen = path.lstat()
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid()


def _has_died(path: Path) -> bool:
    """Whether nobody holds a folder's lock; of one that has none yet its process is beginning."""
    lock = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
