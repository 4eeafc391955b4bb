"""Bytes and their checksums, while they stream.

Nothing here holds more than one chunk. ``OnChunk`` is how a long piece of work tells its progress
and is stopped. Read ``verified`` first.
"""

import base64
import hashlib
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass

import google_crc32c

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksums:
    """What was computed of an object's bytes; ``end`` are its last ones, as many as were wanted."""

    sha256: str
    crc32c: str
    end: bytes


def sha256_of(store: ContentReader, entry: Entry, on_chunk: OnChunk) -> str:
    """Return the sha256 of exactly this generation. Raises Changed and NotFound."""
    return checksums_of(store, entry, on_chunk, end_bytes=0).sha256


def checksums_of(
    store: ContentReader, entry: Entry, on_chunk: OnChunk, *, end_bytes: int
) -> Checksums:
    """Return the checksums of exactly this generation, and its last bytes, so many at most."""
    sha256, crc32c, end = hashlib.sha256(), google_crc32c.Checksum(), b""
    with closing(store.read(entry.name, entry.generation)) as chunks:
        for chunk in chunks:
            sha256.update(chunk)
            crc32c.update(chunk)
            on_chunk(len(chunk))
            end = (end + chunk[-end_bytes:])[-end_bytes:] if end_bytes else b""
    return Checksums(sha256=sha256.hexdigest(), crc32c=encoded(crc32c), end=end)


def is_sha256(text: object) -> bool:
    """Whether ``text`` is a sha256 in lower-case hexadecimal."""
    return isinstance(text, str) and len(text) == 64 and all(c in "0123456789abcdef" for c in text)


def crc32c_of(data: bytes) -> str:
    """Return the crc32c of some bytes, as ``encoded`` does."""
    return encoded(google_crc32c.Checksum(data))


def encoded(checksum: google_crc32c.Checksum) -> str:
    """Return a crc32c as Google's stores write it: base64 of its four bytes, the highest first."""
    digest: bytes = checksum.digest()
    return base64.b64encode(digest).decode("ascii")


def is_crc32c(text: object) -> bool:
    """Whether ``text`` is a crc32c as ``encoded`` writes it."""
    if not (isinstance(text, str) and len(text) == 8 and text.isascii()):
        return False
    try:
        digest = base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return base64.b64encode(digest).decode("ascii") == text and len(digest) == 4
