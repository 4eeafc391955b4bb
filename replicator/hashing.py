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


class Check:
    """The bytes of one object as they come, held against what was promised of them."""

    def __init__(self, name: str, size_bytes: int, sha256: str) -> None:
        self._name = name
        self._size_bytes = size_bytes
        self._sha256 = sha256
        self._checksum = hashlib.sha256()
        self.done_bytes = 0

    def update(self, chunk: bytes) -> None:
        """Take the next bytes. Raises Corrupt as soon as they are more than promised."""
        self.done_bytes += len(chunk)
        if self.done_bytes > self._size_bytes:
            raise Corrupt(self._name, f"longer than the {self._size_bytes} bytes promised")
        self._checksum.update(chunk)

    def finish(self) -> None:
        """Raise Corrupt unless all that was promised came."""
        if self.done_bytes != self._size_bytes:
            raise Corrupt(
                self._name, f"{self.done_bytes} bytes where {self._size_bytes} were promised"
            )
        found = self._checksum.hexdigest()
        if found != self._sha256:
            raise Corrupt(self._name, f"its sha256 is {found}, not {self._sha256}")


def verified(
    name: str, chunks: Iterable[bytes], size_bytes: int, sha256: str, on_chunk: OnChunk
) -> Generator[bytes, None, None]:
    """Pass the chunks through, and raise Corrupt at their end unless they are what was promised.

    A writer publishes only after the last chunk came without an error, so bytes that fail here
    never become visible. More bytes than promised are refused as soon as they come.
    """
    check = Check(name, size_bytes, sha256)
    for chunk in chunks:
        check.update(chunk)
        on_chunk(len(chunk))
        yield chunk
    check.finish()


def sha256_of(store: ContentReader, entry: Entry, on_chunk: OnChunk) -> str:
    """Return the sha256 of exactly this generation. Raises Changed and NotFound."""
    return sha256_and_end(store, entry, on_chunk, end_bytes=0)[0]


def sha256_and_end(
    store: ContentReader, entry: Entry, on_chunk: OnChunk, *, end_bytes: int
) -> tuple[str, bytes]:
    """Return the sha256 of exactly this generation, and its last bytes, so many at most."""
    checksum, end = hashlib.sha256(), b""
    with closing(store.read(entry.name, entry.generation)) as chunks:
        for chunk in chunks:
            checksum.update(chunk)
            on_chunk(len(chunk))
            end = (end + chunk[-end_bytes:])[-end_bytes:] if end_bytes else b""
    return checksum.hexdigest(), end


def is_sha256(text: object) -> bool:
    """Whether ``text`` is a sha256 in lower-case hexadecimal."""
    return isinstance(text, str) and len(text) == 64 and all(c in "0123456789abcdef" for c in text)
