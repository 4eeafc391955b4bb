"""Folders in a store that is there. Read `make_in_store` first.

The rule it keeps: **a store is never made here.** A directory is a store while its marker,
`.store`, stands in it; who set up the region put it there. A store whose disk went away leaves
nothing, or an empty mount point: folders made there would be a false store, without a checkpoint in
it, that stands in the way of the real one when it comes back.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

STORE_MARKER = ".store"


def make_in_store(folder: Path) -> None:
    """Make `folder`, and what is missing between it and the store above it.

    Raises OSError when no directory above it is a store now, or when the store cannot be written.
    """
    for above in folder.parents:
        store = _open_store(above)
        if store is None:
            continue
        try:
            parts = folder.relative_to(above).parts
            for depth in range(1, len(parts) + 1):
                make_within(Path(*parts[:depth]), store)
        finally:
            os.close(store)
        return
    raise FileNotFoundError(errno.ENOENT, "no store is there, or its marker is gone", str(folder))


def make_within(folder: Path, parent: int | None = None) -> None:
    """Make one folder whose parent is there; a folder that is there already is as good.

    `parent` is a descriptor that a relative `folder` starts from. Raises OSError.
    """
    try:
        os.mkdir(str(folder), dir_fd=parent)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(str(folder), dir_fd=parent).st_mode):
            raise


def _open_store(directory: Path) -> int | None:
    """A descriptor of `directory` if it is a store, None if it is none; raises for unknown.

    Should the disk go away a moment later, what is made through the descriptor is made on it, and
    not in the place where it was mounted.
    """
    try:
        descriptor = os.open(str(directory), os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        os.stat(STORE_MARKER, dir_fd=descriptor)
    except FileNotFoundError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
