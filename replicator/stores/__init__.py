"""Where content lies: the port to a store, and stores that are directories.

Object stores come as further modules beside ``directory``; the contract suite in
``tests/contract/replicator`` says what they must do.
"""

from replicator.stores.directory import DirectoryStore
from replicator.stores.port import (
    CHUNK_BYTES,
    ContentReader,
    ContentStore,
    ContentWriter,
    Entry,
    Listing,
    Refused,
    read_small,
)

__all__ = [
    "CHUNK_BYTES",
    "ContentReader",
    "ContentStore",
    "ContentWriter",
    "DirectoryStore",
    "Entry",
    "Listing",
    "Refused",
    "read_small",
]
