"""Whether a save failed because its disk failed, and not the training. Read `fault_of` first.

The rule it keeps: only evidence excuses an error. It is the disk's fault when the error says so by
its number, or when the disk takes no more right after it; everything else is the script's own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from broker.sdk.training import durable

# Nothing is left, a quota is spent, a file may not grow; the disk broke, or went away.
DISK_ERRORS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ESTALE}
)

# Libraries that write in blocks leave less than one of theirs free when they give up.
PROBE_BYTES = 1 << 20

# Not failures: somebody ends the process. PyTorch's CheckpointException is no Exception either.
LEAVING = (KeyboardInterrupt, SystemExit, GeneratorExit)

# What PyTorch's archive writer says when the bytes before did not all reach the disk: of another
# rank's failure nothing else comes through.
_TORN = ("unexpected pos", "file write failed")

# A chain of errors is short; one that was tied into a ring must not hold the training.
_MOST = 32


def fault_of(error: BaseException, stage: Path) -> str | None:
    """What the disk of `stage` did to a save that ended with `error`, None if it did nothing.

    An error that names another place than `stage` says nothing of its disk.
    """
    if isinstance(error, LEAVING):
        return None
    for one in _behind(error):
        if isinstance(one, OSError) and one.errno in DISK_ERRORS and _is_about(one, stage):
            return str(one)
    return _refusal(stage) or next(filter(None, map(_torn, _behind(error))), None)


def _behind(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from; PyTorch DCP's carries those of other ranks besides."""
    waiting = [error]
    for _ in range(_MOST):
        if not waiting:
            return
        one = waiting.pop(0)
        yield one
        waiting += [next_ for next_ in (one.__cause__, one.__context__) if next_ is not None]
        failures = getattr(one, "failures", None)
        if isinstance(failures, dict):
            # By rank: the error, and where it was raised.
            found = [v[0] if isinstance(v, tuple) and v else v for v in failures.values()]
            waiting += [inner for inner in found if isinstance(inner, BaseException)]


def _is_about(error: OSError, stage: Path) -> bool:
    if not isinstance(error.filename, (str, bytes)):
        return True
    # The script may have gone there, or have asked for the real name of what it was given.
    name = os.fsdecode(error.filename)
    return any(
        root == path or root in path.parents
        for root, path in (
            (Path(os.path.abspath(stage)), Path(os.path.abspath(name))),
            (Path(os.path.realpath(stage)), Path(os.path.realpath(name))),
        )
    )


def _torn(error: BaseException) -> str | None:
    text = str(error)
    is_torn = isinstance(error, RuntimeError) and any(words in text for words in _TORN)
    return text if is_torn else None


def _refusal(stage: Path) -> str | None:
    """Why the disk takes no more, None if it does: some libraries tell no error's number."""
    probe = stage / f"{durable.TEMPORARY_PREFIX}probe"
    try:
        probe.write_bytes(bytes(PROBE_BYTES))
        probe.unlink()
    except OSError as error:
        return str(error) if error.errno in DISK_ERRORS else None
    return None
