"""Bytes and their checksums, while they stream.

Nothing here holds more than one chunk. ``OnChunk`` is how a long piece of work tells its progress
and is stopped. Read ``verified`` first.
"""

import hashlib
from collections.abc import Callable, Generator, Iterable
from contextlib import closing

from replicator.errors import Corrupt
from replicator.stores.port import ContentReader, Entry

# Called with the size in bytes of each chunk that was handled. It raises Cancelled to stop.
OnChunk = Callable[[int], None]


def verified(
    name: str, chunks: Iterable[bytes], size_bytes: int, sha256: str, on_chunk: OnChunk
) -> Generator[bytes, None, None]:
    """Pass the chunks through, and raise Corrupt at their end unless they are what was promised.

    A writer publishes only after the last chunk came without an error, so bytes that fail here
    never become visible. More bytes than promised are refused as soon as they come.
    """
    total_bytes = 0
    checksum = hashlib.sha256()
    for chunk in chunks:
        total_bytes += len(chunk)
        if total_bytes > size_bytes:
            raise Corrupt(name, f"longer than the {size_bytes} bytes promised")
        checksum.update(chunk)
        on_chunk(len(chunk))
        yield chunk
    if total_bytes != size_bytes:
        raise Corrupt(name, f"{total_bytes} bytes where {size_bytes} were promised")
    if checksum.hexdigest() != sha256:
        raise Corrupt(name, f"its sha256 is {checksum.hexdigest()}, not {sha256}")


def sha256_of(store: ContentReader, entry: Entry, on_chunk: OnChunk) -> str:
    """Return the sha256 of exactly this generation. Raises Changed and NotFound."""
    checksum = hashlib.sha256()
    with closing(store.read(entry.name, entry.generation)) as chunks:
        for chunk in chunks:
            checksum.update(chunk)
            on_chunk(len(chunk))
    return checksum.hexdigest()


def is_sha256(text: object) -> bool:
    """Whether ``text`` is a sha256 in lower-case hexadecimal."""
    return isinstance(text, str) and len(text) == 64 and all(c in "0123456789abcdef" for c in text)
