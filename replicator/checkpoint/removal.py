"""Taking checkpoints away: the manifest first, then the marker, then the data.

So a removal that is cut off leaves what a cut-off copy leaves: nothing that anyone resumes from,
and what ``leftovers`` finds later. Which ones to remove is decided in ``retention``. Read
``remove`` first.
"""

from replicator.checkpoint.formats import MARKERS, OWN_MARKERS, REPLICA_NAME
from replicator.checkpoint.paths import CheckpointPath
from replicator.stores.port import ContentStore, Entry


def remove(store: ContentStore, path: CheckpointPath) -> int:
    """Remove the checkpoint at ``path``, whatever is left of it; return the bytes freed.

    Whoever calls it has made sure that nothing copies from or to it, or reads it. What cannot be
    content (a link, a device) is left lying, and its folder with it.
    """
    entries = store.list(path.prefix).entries
    freed_bytes = 0
    for entry in sorted(entries, key=lambda one: _order(one, path)):
        if store.delete(entry.name):
            freed_bytes += entry.size_bytes
    store.tidy(path.prefix)
    return freed_bytes


def clear_leftover(
    store: ContentStore, path: CheckpointPath, *, now_s: float, older_than_s: float
) -> int:
    """Remove a half copy, unless it has been written to or has become whole since it was seen.

    ``now_s`` is wall time in seconds; ``older_than_s`` the age from which a half copy counts as
    given up. Returns the bytes freed, 0 when it was left.
    """
    entries = store.list(path.prefix).entries
    names = {entry.name.removeprefix(path.prefix) for entry in entries}
    is_whole = REPLICA_NAME in names or not names.isdisjoint(OWN_MARKERS)
    newest_s = max((entry.modified_s for entry in entries), default=now_s)
    if is_whole or now_s - newest_s <= older_than_s:
        return 0
    return remove(store, path)


def _order(entry: Entry, path: CheckpointPath) -> tuple[int, str]:
    name = entry.name.removeprefix(path.prefix)
    if name == REPLICA_NAME:
        return (0, name)
    return (1 if name in MARKERS.values() else 2, name)
