"""One checkpoint from one store to another, at the same path.

The order is the safety: data files, then the marker, then the manifest, create-if-absent. Each
file is published only when its bytes had the checksum of the manifest. So a copy that is killed
anywhere is never a checkpoint, let alone a replica, and the next call takes up what is there.
Files are taken up whole: one that was cut off in the middle is read again from its start.

Where the destination copies by itself, its word stands for the checksum: the source's generation
is the one whose bytes were read when the manifest was made, the two stores say that theirs are the
same, and that their crc32c is the manifest's. To read them here would send every byte through this
process, twice. Read ``copy`` first.
"""

from collections.abc import Generator
from contextlib import closing

from replicator.checkpoint.describe import publish
from replicator.checkpoint.formats import REPLICA_NAME
from replicator.checkpoint.manifest import FileDigest, Replica
from replicator.checkpoint.scan import matches
from replicator.checkpoint.verify import Depth, Health, verify
from replicator.errors import Changed, Conflict
from replicator.hashing import OnChunk, sha256_of, verified
from replicator.stores.port import ContentReader, ContentStore, CopiesByItself, Entry


def copy(
    origin: Replica, source: ContentReader, destination: ContentStore, on_chunk: OnChunk
) -> Replica:
    """Make ``destination`` hold the checkpoint that ``origin`` describes in ``source``.

    ``on_chunk`` hears of every byte copied, or found in place and verified, and raises Cancelled
    to stop. Returns the replica; at once, if it is there already and sound.

    Raises Changed when the source is not, or no longer, what ``origin`` says; Corrupt when its
    bytes are not; Conflict when the destination holds another content under this path, which is
    then left alone; StoreError as the stores do. After any of them the destination is not ready.
    """
    _require_source(origin, source)
    held = verify(destination, origin.path, Depth.QUICK, on_chunk)
    if held.replica is not None:
        if held.replica.manifest.digest != origin.manifest.digest:
            raise Conflict(str(origin.path), "a replica of other content is there")
        if held.health is Health.SOUND:
            return held.replica
    prefix = origin.path.prefix
    if held.health is not Health.ABSENT:
        # What it vouched for does not hold: nobody may rely on it while it is repaired.
        destination.delete(prefix + REPLICA_NAME)
    marker = origin.manifest.marker
    marker_there = _there(origin, marker, source, destination, on_chunk)
    is_unknown = held.replica is None and marker_there is None
    if is_unknown and destination.stat(prefix + marker.name) is not None:
        raise Conflict(str(origin.path), "the marker of another checkpoint is there")
    generations = _copy_data(origin, source, destination, on_chunk)
    if marker_there is None or destination.stat(prefix + marker.name) is None:
        marker_there = _copy_file(origin, marker, source, destination, on_chunk)
    generations[marker.name] = marker_there.generation
    replica = Replica(
        path=origin.path,
        manifest=origin.manifest,
        generations=generations,
        sources=origin.generations,
    )
    _require_source(origin, source)
    _require_as_left(replica, destination)
    publish(destination, replica)
    return replica


def _copy_data(
    origin: Replica, source: ContentReader, destination: ContentStore, on_chunk: OnChunk
) -> dict[str, str]:
    """Take up what is there and verified, copy the rest; return the generations by name."""
    generations: dict[str, str] = {}
    missing = []
    for file in origin.manifest.data:
        there = _there(origin, file, source, destination, on_chunk)
        if there is None:
            missing.append(file)
        else:
            generations[file.name] = there.generation
    if missing:
        # A marker over data that is not whole (a damaged disk) would call half a copy complete.
        destination.delete(origin.path.prefix + origin.manifest.marker.name)
    for file in missing:
        generations[file.name] = _copy_file(origin, file, source, destination, on_chunk).generation
    return generations


def _there(
    origin: Replica,
    file: FileDigest,
    source: ContentReader,
    destination: ContentStore,
    on_chunk: OnChunk,
) -> Entry | None:
    """Return the file as it lies in the destination, if it is that of the manifest."""
    name = origin.path.prefix + file.name
    if isinstance(destination, CopiesByItself) and destination.can_copy_from(source):
        on_chunk(0)
        return destination.find_copy(source, name, origin.generations[file.name])
    entry = destination.stat(name)
    if entry is None or not file.can_be(entry):
        return None
    return entry if sha256_of(destination, entry, on_chunk) == file.sha256 else None


def _copy_file(
    origin: Replica,
    file: FileDigest,
    source: ContentReader,
    destination: ContentStore,
    on_chunk: OnChunk,
) -> Entry:
    """Copy one file. What lies in its place was found not to be it, so it is replaced."""
    name, generation = origin.path.prefix + file.name, origin.generations[file.name]
    if isinstance(destination, CopiesByItself) and destination.can_copy_from(source):
        return destination.copy_from(source, name, generation, on_chunk)
    chunks: Generator[bytes, None, None] = source.read(name, generation)
    with (
        closing(chunks),
        closing(verified(name, chunks, file.size_bytes, file.sha256, on_chunk)) as checked,
    ):
        return destination.put(name, checked)


def _require_source(origin: Replica, source: ContentReader) -> None:
    prefix = origin.path.prefix
    listing = source.list(prefix)
    entries = {entry.name.removeprefix(prefix): entry for entry in listing.entries}
    if not matches(origin, entries):
        raise Changed(str(origin.path), "the source is not what its manifest describes")


def _require_as_left(replica: Replica, destination: ContentReader) -> None:
    prefix = replica.path.prefix
    listing = destination.list(prefix)
    entries = {entry.name.removeprefix(prefix): entry for entry in listing.entries}
    if not matches(replica, entries):
        raise Changed(str(replica.path), "somebody else wrote to the destination meanwhile")
