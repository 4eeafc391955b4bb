"""Single objects of a bucket: what is said of one, a generation of it, its bytes, its end.

The rule: a look that finds nothing says nothing yet; the store judges whether it may be believed.
Read ``Objects.see`` first.
"""

from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import google_crc32c
from google.cloud import storage

from replicator.errors import Changed, StoreError
from replicator.hashing import encoded
from replicator.stores.gcs.access import Access
from replicator.stores.gcs.calls import Caller, Missing, Passing, Unmet
from replicator.stores.gcs.location import Location
from replicator.stores.port import CHUNK_BYTES, Entry

# One request reads so much, of which no more than this is in memory: enough that the way there and
# back does not matter, and little enough that a read can be stopped.
RANGE_BYTES = 8 * CHUNK_BYTES
# How often a call that met another writer looks again, before somebody else may try.
ROUNDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One generation of one object. ``md5`` is None for what was composed of parts.

    ``fields`` are those that a copy carries, as the client names them; ``metadata`` is the custom
    one.
    """

    entry: Entry
    md5: str | None
    metadata: Mapping[str, str]
    fields: Mapping[str, Any]

    @property
    def crc32c(self) -> str | None:
        """What the store says of its bytes."""
        return self.entry.crc32c

    @property
    def generation(self) -> int:
        """The generation as Google counts it."""
        return int(self.entry.generation)

    def has_bytes_of(self, other: "Seen") -> bool:
        """Whether both hold the same bytes, by all that the store knows of them."""
        is_other = None not in (self.md5, other.md5) and self.md5 != other.md5
        return (
            self.entry.size_bytes == other.entry.size_bytes
            and self.crc32c is not None
            and self.crc32c == other.crc32c
            and not is_other
        )


# What the client calls the fields that say how an object is to be read.
CARRIED = (
    *("content_type", "content_encoding", "content_disposition", "content_language"),
    *("cache_control", "custom_time"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """The objects of one store, by their names in it."""

    access: Access
    location: Location
    caller: Caller

    def blob(self, name: str, generation: int | None) -> storage.Blob:
        """Return the client's handle of an object; it asks nothing yet."""
        bucket = self.access.client.bucket(self.location.bucket)
        found: storage.Blob = bucket.blob(self.location.key(name), generation=generation)
        return found

    def see(self, name: str, generation: int | None) -> Seen | None:
        """Look at an object, or at one generation of it; None when there was none, or no bucket."""
        blob = self.blob(name, generation)
        timeout = self.caller.patience.timeout
        try:
            self.caller.ask(name, lambda: blob.reload(timeout=timeout, retry=None))
        except Missing:
            return None
        return seen_of(name, blob)

    def pieces(self, seen: Seen) -> Generator[bytes, None, None]:
        """Yield the bytes of one generation, and hold them against its checksum at their end.

        Raises Missing when it is there no more.
        """
        name, size_bytes = seen.entry.name, seen.entry.size_bytes
        blob = self.blob(name, seen.generation)
        checksum = google_crc32c.Checksum()
        for start in range(0, size_bytes, RANGE_BYTES):
            data = self._range(name, blob, start, min(start + RANGE_BYTES, size_bytes))
            checksum.update(data)
            for at in range(0, len(data), CHUNK_BYTES):
                yield data[at : at + CHUNK_BYTES]
        if encoded(checksum) != seen.crc32c:
            raise StoreError(name, "the bytes that came are not those of its crc32c")

    def remove(self, name: str, generation: int) -> None:
        """Remove one generation of an object. That it is not there, or not any more, is fine."""
        blob = self.blob(name, None)
        timeout = self.caller.patience.timeout
        with suppress(Missing, Unmet):
            self.caller.ask(
                name,
                lambda: blob.delete(if_generation_match=generation, timeout=timeout, retry=None),
            )

    def _range(self, name: str, blob: storage.Blob, start: int, end: int) -> bytes:
        def once() -> bytes:
            data: bytes = blob.download_as_bytes(
                start=start,
                end=end - 1,
                raw_download=True,
                checksum=None,
                timeout=self.caller.patience.timeout,
                retry=None,
            )
            if len(data) != end - start:
                raise Passing(name, f"{len(data)} bytes came where {end - start} were asked for")
            return data

        return self.caller.ask(name, once)


def seen_of(name: str, blob: storage.Blob) -> Seen:
    """Return what the client holds of an object that it has just heard of."""
    return Seen(
        entry=entry_of(name, blob),
        md5=blob.md5_hash,
        metadata=dict(blob.metadata or {}),
        fields={field: getattr(blob, field) for field in CARRIED},
    )


def entry_of(name: str, blob: storage.Blob) -> Entry:
    """Return the least that is said of an object. Raises StoreError when not even that is."""
    if blob.generation is None or blob.size is None or blob.time_created is None:
        raise StoreError(name, "the store's answer has no generation, size or time")
    # When this generation came to be. What was said of it later is no change of its bytes.
    created: datetime = blob.time_created
    return Entry(
        name=name,
        size_bytes=int(blob.size),
        generation=str(blob.generation),
        modified_s=created.timestamp(),
        crc32c=blob.crc32c or None,
    )


def generation_of(name: str, generation: str) -> int:
    """Read a generation. Raises Changed when no object of a bucket ever had it."""
    if not (generation.isascii() and generation.isdigit() and len(generation) < 20):
        raise Changed(name, "it is not the generation that was asked for")
    return int(generation)
