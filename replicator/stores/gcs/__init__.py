"""Stores that are a prefix of a bucket of Google Cloud Storage, through Google's own client.

The rule: every call that changes something says what it expects to be there, so that it can be
sent again after an answer that was lost; what is absent is believed only of a bucket that carries
the store's marker. Imported only when a store of that kind is configured, for it takes Google's
client along. Read ``store.GcsStore`` first.
"""

from replicator.stores.gcs.access import Access, open_access
from replicator.stores.gcs.calls import PATIENCE, Patience
from replicator.stores.gcs.location import Location, read_location
from replicator.stores.gcs.notes import Notes
from replicator.stores.gcs.store import GcsStore

__all__ = [
    "PATIENCE",
    "Access",
    "GcsStore",
    "Location",
    "Notes",
    "Patience",
    "open_access",
    "read_location",
]
