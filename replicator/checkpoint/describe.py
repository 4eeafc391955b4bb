"""From a complete checkpoint to its manifest, with every object pinned to one generation.

The list is taken before the files are read and again after; anything that moved in between is
Changed. Read ``describe`` first; ``attest`` is what an origin's checkpoints get.
"""

from replicator.checkpoint.formats import (
    MARKERS,
    MAX_ZIP_END_BYTES,
    REPLICA_NAME,
    Format,
    is_whole_zip,
)
from replicator.checkpoint.manifest import FileDigest, Manifest, Replica, encode_replica
from replicator.checkpoint.paths import CheckpointPath
from replicator.checkpoint.scan import Pinned, pin
from replicator.checkpoint.verify import Depth, Health, read_replica, verify
from replicator.errors import Changed, Conflict, Corrupt, Incomplete, NotFound
from replicator.hashing import Checksums, OnChunk, checksums_of
from replicator.stores.port import ContentReader, ContentStore, Entry


def describe(
    store: ContentReader,
    path: CheckpointPath,
    checkpoint_format: Format,
    on_chunk: OnChunk,
) -> Replica:
    """Read a complete checkpoint whole and return its manifest as it stands in this store.

    Raises Incomplete when it is not complete or a file of it ends too early, Changed when it moved
    while it was read, and Corrupt when a file is not what the marker claims.
    """
    pinned = pin(store, path, checkpoint_format)
    files = []
    for name, entry in pinned.complete.content.items():
        found = _checksums(store, entry, name, checkpoint_format, on_chunk)
        claim = pinned.complete.claims.get(name)
        if claim is not None and claim.sha256 != found.sha256:
            raise Corrupt(entry.name, "it is not the file that the marker claims")
        files.append(
            FileDigest(
                name=name, size_bytes=entry.size_bytes, sha256=found.sha256, crc32c=found.crc32c
            )
        )
    _require_unmoved(store, pinned, checkpoint_format)
    return Replica(
        path=path,
        manifest=Manifest(
            epoch=path.epoch,
            step=path.step,
            format=checkpoint_format,
            files=tuple(sorted(files)),
        ),
        generations={name: entry.generation for name, entry in pinned.complete.content.items()},
        sources={},
    )


def _checksums(
    store: ContentReader, entry: Entry, name: str, checkpoint_format: Format, on_chunk: OnChunk
) -> Checksums:
    is_zip = checkpoint_format is Format.LIGHTNING and name == MARKERS[Format.LIGHTNING]
    found = checksums_of(store, entry, on_chunk, end_bytes=MAX_ZIP_END_BYTES if is_zip else 0)
    if is_zip and not is_whole_zip(found.end):
        raise Incomplete(entry.name, "it does not end as the zip file does that it should be")
    return found


def attest(
    store: ContentStore,
    path: CheckpointPath,
    checkpoint_format: Format,
    on_chunk: OnChunk,
) -> Replica:
    """Return the checkpoint's manifest in this store, and write it first if it is not there.

    A manifest whose objects were written again with the same bytes (a restored disk) is renewed.
    Raises what ``describe`` raises, and Conflict when the content is no longer what its manifest
    says: that manifest stays, does not match, and nothing resumes from there.
    """
    held = verify(store, path, Depth.QUICK, on_chunk)
    if held.health is Health.SOUND and held.replica is not None:
        return held.replica
    replica = describe(store, path, checkpoint_format, on_chunk)
    if held.replica is not None:
        if held.replica.manifest.digest != replica.manifest.digest:
            raise Conflict(str(path), "its content is no longer what its manifest says")
        store.put(path.prefix + REPLICA_NAME, [encode_replica(replica)])
        return replica
    publish(store, replica)
    return replica


def renew(
    store: ContentStore,
    path: CheckpointPath,
    digest: str,
    checkpoint_format: Format,
    on_chunk: OnChunk,
) -> bool:
    """Read a copy whole and return whether it is the checkpoint of that digest.

    If it is, its manifest is written anew where that was damaged, or spoke of files as they were
    before they were moved to another disk: a copy whose every byte is there is not lost for that.
    Raises StoreError, and Changed when it moved while it was read.
    """
    try:
        replica = describe(store, path, checkpoint_format, on_chunk)
    except (Corrupt, Incomplete, NotFound):
        return False
    if replica.manifest.digest != digest:
        return False
    try:
        publish(store, replica)
    except Conflict:
        return False
    return True


def publish(store: ContentStore, replica: Replica) -> None:
    """Write ``_REPLICA.json``, create-if-absent. Raises Conflict when another content has one.

    What cannot be read as a manifest vouches for nothing, so it is replaced.
    """
    name = replica.path.prefix + REPLICA_NAME
    encoded = encode_replica(replica)
    if store.write_if_absent(name, [encoded]) is not None:
        return
    try:
        there = read_replica(store, replica.path)
    except Incomplete:
        there = None
    if there is not None and there.manifest.digest != replica.manifest.digest:
        raise Conflict(str(replica.path), "a manifest of other content is there")
    if there != replica:
        store.put(name, [encoded])


def _require_unmoved(store: ContentReader, pinned: Pinned, checkpoint_format: Format) -> None:
    try:
        after = pin(store, pinned.path, checkpoint_format)
    except Incomplete as error:
        raise Changed(str(pinned.path), f"while it was read: {error.sentence}") from error
    if after.complete.content != pinned.complete.content:
        raise Changed(str(pinned.path), "it was written to while it was read")
