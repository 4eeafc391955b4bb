"""Whether a region has a checkpoint: its manifest is there, and every object still matches.

QUICK compares sizes and generations, and the crc32c where the store tells it, from one listing and
one small read. DEEP reads everything and compares checksums; generations that moved under equal
bytes are then no fault. Read ``is_ready`` first: it is what a placement may rely on.
"""

from dataclasses import dataclass
from enum import StrEnum

from replicator.checkpoint.formats import REPLICA_NAME
from replicator.checkpoint.manifest import MAX_REPLICA_BYTES, Replica, decode_replica
from replicator.checkpoint.paths import CheckpointPath
from replicator.errors import Changed, Incomplete, NotFound, TooLarge
from replicator.hashing import OnChunk, sha256_of
from replicator.stores.port import ContentReader, read_small


class Depth(StrEnum):
    """How closely to look."""

    QUICK = "QUICK"
    DEEP = "DEEP"


class Health(StrEnum):
    """What came of it."""

    SOUND = "SOUND"  # the manifest is there and all of it matches
    ABSENT = "ABSENT"  # there is no manifest
    UNREADABLE = "UNREADABLE"  # a manifest that cannot be believed
    FAULTY = "FAULTY"  # objects are missing, or are not those of the manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """``replica`` is None for ABSENT and UNREADABLE; ``faults`` has a sentence for each object."""

    health: Health
    replica: Replica | None
    faults: tuple[str, ...]


def is_ready(store: ContentReader, path: CheckpointPath, digest: str) -> bool:
    """Whether a start in this store's region can resume from this very checkpoint now.

    Raises StoreError when the store cannot say; unknown is not absent.
    """
    found = verify(store, path, Depth.QUICK, lambda size_bytes: None)
    return (
        found.health is Health.SOUND
        and found.replica is not None
        and found.replica.manifest.digest == digest
    )


def read_replica(store: ContentReader, path: CheckpointPath) -> Replica | None:
    """Return what ``_REPLICA.json`` says, None when there is none. Raises Incomplete otherwise."""
    entry = store.stat(path.prefix + REPLICA_NAME)
    if entry is None:
        return None
    try:
        return decode_replica(read_small(store, entry, MAX_REPLICA_BYTES), path)
    except TooLarge as error:
        raise Incomplete(entry.name, error.sentence) from error
    except NotFound:
        return None


def verify(
    store: ContentReader, path: CheckpointPath, depth: Depth, on_chunk: OnChunk
) -> Verification:
    """Hold a replica against its manifest. Raises StoreError, and Changed in the midst of a change.

    ``on_chunk`` hears of the bytes that DEEP reads, and can raise Cancelled.
    """
    try:
        replica = read_replica(store, path)
    except Incomplete as error:
        return Verification(
            health=Health.UNREADABLE, replica=None, faults=(f"{error.name}: {error.sentence}",)
        )
    if replica is None:
        return Verification(health=Health.ABSENT, replica=None, faults=())
    faults = tuple(_faults(store, replica, depth, on_chunk))
    health = Health.FAULTY if faults else Health.SOUND
    return Verification(health=health, replica=replica, faults=faults)


def _faults(store: ContentReader, replica: Replica, depth: Depth, on_chunk: OnChunk) -> "list[str]":
    prefix = replica.path.prefix
    listing = store.list(prefix)
    entries = {entry.name.removeprefix(prefix): entry for entry in listing.entries}
    faults = []
    for file in replica.manifest.files:
        entry = entries.get(file.name)
        if entry is None:
            faults.append(f"{file.name} is not there")
        elif entry.size_bytes != file.size_bytes:
            faults.append(f"{file.name} has {entry.size_bytes} bytes, not {file.size_bytes}")
        elif not file.can_be(entry):
            faults.append(f"{file.name} has another crc32c than the manifest says")
        elif depth is Depth.QUICK:
            if entry.generation != replica.generations[file.name]:
                faults.append(f"{file.name} was written again since it was verified")
        elif _is_other(store, entry.name, file.sha256, on_chunk):
            faults.append(f"{file.name} is not the file of the manifest")
    return faults


def _is_other(store: ContentReader, name: str, sha256: str, on_chunk: OnChunk) -> bool:
    entry = store.stat(name)
    try:
        return entry is None or sha256_of(store, entry, on_chunk) != sha256
    except (Changed, NotFound):
        return True
