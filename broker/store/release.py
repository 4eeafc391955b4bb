"""Which code made the views: another release may tell the same events in other words.

The rule: a snapshot is what some code made of events, and counts for that code alone. The log
remembers the code by the digest of its sources, and who opens it with other code makes the views
anew first. Read ``is_ours``.
"""

import hashlib
from functools import cache
from pathlib import Path

import sqlite_utils

import broker.history
import broker.model
from broker.store.schema import read_meta, write_meta

KEY = "views_made_by"


def is_ours(database: sqlite_utils.Database) -> bool:
    """Return whether the views of a log are this code's work."""
    return read_meta(database, KEY) == code_digest()


def sign(database: sqlite_utils.Database) -> None:
    """Write down, within the caller's transaction, that the views are this code's work."""
    write_meta(database, KEY, code_digest())


@cache
def code_digest() -> str:
    """Return the digest of all code that says what events make of a state."""
    digest = hashlib.sha256()
    for package in (broker.history, broker.model):
        for folder in package.__path__:
            for source in sorted(Path(folder).glob("*.py")):
                digest.update(f"{source.name}\0".encode() + source.read_bytes())
    return digest.hexdigest()
