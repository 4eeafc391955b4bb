"""Where content lies: the port to a store, and stores that are directories.

Google's buckets are beside them, in ``gcs``, which is imported only where one is configured; the
contract suite in ``tests/contract/replicator`` says what every store must do.
"""

from replicator.stores.directory import DirectoryStore
from replicator.stores.port import (
    CHUNK_BYTES,
    ContentReader,
    ContentStore,
    ContentWriter,
    CopiesByItself,
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
    "CopiesByItself",
    "DirectoryStore",
    "Entry",
    "Listing",
    "Refused",
    "read_small",
]
