"""Bundles: working directories, packed and named by their content, ``bundles/<sha256>.tar.gz``.

A store publishes a bundle only after its bytes had the checksum of its name, so that being there
is being right. Read ``copy_bundle`` first.
"""

from collections.abc import Iterable
from contextlib import closing

from replicator.errors import Corrupt, NameRefused, NotFound
from replicator.hashing import OnChunk, is_sha256, sha256_of, verified
from replicator.stores.port import (
    ContentReader,
    ContentStore,
    ContentWriter,
    CopiesByItself,
    Entry,
)


def bundle_name(sha256: str) -> str:
    """Return the object name of a bundle. Raises NameRefused unless it is a sha256 in hex."""
    if not is_sha256(sha256):
        raise NameRefused(repr(sha256[:80]), "it is not a sha256 in lower-case hexadecimal")
    return f"bundles/{sha256}.tar.gz"


def has_bundle(store: ContentReader, sha256: str) -> bool:
    """Whether the store holds the bundle. Raises StoreError when it cannot say."""
    return store.stat(bundle_name(sha256)) is not None


def store_bundle(
    store: ContentWriter, sha256: str, chunks: Iterable[bytes], size_bytes: int
) -> None:
    """Store a bundle, such as a user's upload. Raises Corrupt unless the bytes are those promised.

    Stored once it stays as it is; storing it again is done at once.
    """
    name = bundle_name(sha256)
    with closing(verified(name, chunks, size_bytes, sha256, lambda size: None)) as checked:
        store.write_if_absent(name, checked)


def copy_bundle(
    source: ContentReader, destination: ContentStore, sha256: str, on_chunk: OnChunk
) -> int:
    """Make ``destination`` hold the bundle; return its size in bytes.

    Raises NotFound when the source has none, and Corrupt when what it has is something else.
    """
    name = bundle_name(sha256)
    there = destination.stat(name)
    if there is not None:
        return there.size_bytes
    entry = _entry(source, name)
    if isinstance(destination, CopiesByItself) and destination.can_copy_from(source):
        destination.copy_from(source, name, entry.generation, on_chunk)
        return entry.size_bytes
    with (
        closing(source.read(name, entry.generation)) as chunks,
        closing(verified(name, chunks, entry.size_bytes, sha256, on_chunk)) as checked,
    ):
        destination.write_if_absent(name, checked)
    return entry.size_bytes


def check_bundle(store: ContentReader, sha256: str, on_chunk: OnChunk) -> None:
    """Read the bundle whole. Raises NotFound, and Corrupt when a disk has damaged it."""
    entry = _entry(store, bundle_name(sha256))
    if sha256_of(store, entry, on_chunk) != sha256:
        raise Corrupt(entry.name, "its bytes are not those of its name")


def remove_bundle(store: ContentStore, sha256: str) -> None:
    """Remove the bundle; one that is not there is no error. Raises StoreError."""
    store.delete(bundle_name(sha256))


def _entry(store: ContentReader, name: str) -> Entry:
    entry = store.stat(name)
    if entry is None:
        raise NotFound(name, "no such bundle")
    return entry
