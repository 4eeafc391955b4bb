"""The port to a store of content, and the values that cross it.

The rule every store keeps: an object is visible whole or not at all, a failed answer is an error
and never an empty one, and a generation names one content of one object. Names are those of
``names``. Read ``ContentStore`` first.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from replicator.errors import TooLarge

# One chunk in memory per transfer: large enough for sequential disks, small enough for many copies.
CHUNK_BYTES = 1024 * 1024
# A listing is held in memory; a run of a year with 10,000 checkpoints of 64 files stays below.
MAX_LISTED = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One object as it is now.

    ``generation`` is opaque and changes whenever the object is written again; it is comparable
    only within one store. ``modified_s`` is the store's wall clock, in seconds since 1970.
    ``crc32c`` is what the store itself says of the bytes, in base64; None where it says nothing, as
    a directory does not.
    """

    name: str
    size_bytes: int
    generation: str
    modified_s: float
    crc32c: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Something under a prefix that cannot be content: a link, a device, an unsafe name."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All that lies under a prefix, sorted by name. What was refused is said, never left out."""

    entries: tuple[Entry, ...]
    refused: tuple[Refused, ...]


class ContentReader(Protocol):
    """What a copy needs of its source."""

    def list(self, prefix: str) -> Listing:
        """List every object under ``prefix`` (ends in a slash). Raises StoreUnreachable."""
        ...

    def stat(self, name: str) -> Entry | None:
        """Return the object as it is now, None when there is none. Raises StoreUnreachable."""
        ...

    def read(self, name: str, generation: str) -> Generator[bytes, None, None]:
        """Yield the bytes of exactly this generation in chunks of at most CHUNK_BYTES.

        Raises NotFound when the object is gone, and Changed, at the latest after the last chunk,
        when it is or becomes another generation. Close the generator to let go of the object.
        """
        ...


class ContentWriter(Protocol):
    """What a copy needs of its destination."""

    def write_if_absent(self, name: str, chunks: Iterable[bytes]) -> Entry | None:
        """Create the object durably, or return None when one of that name is there.

        When ``chunks`` raises, nothing becomes visible and the error passes through. An object
        that is there already may be found out before or after ``chunks`` was consumed.
        """
        ...

    def put(self, name: str, chunks: Iterable[bytes]) -> Entry:
        """Create or replace the object durably and at once. As ``write_if_absent`` otherwise."""
        ...

    def delete(self, name: str) -> bool:
        """Remove the object durably; False when there was none."""
        ...

    def tidy(self, prefix: str) -> None:
        """Drop what a store keeps for an empty ``prefix``: its empty folders. Removes no object."""
        ...


@runtime_checkable
class CopiesByItself(Protocol):
    """What some destinations can do besides: copy from a source of their kind without us.

    No byte passes through this process. Whether the bytes are the same is judged by what the two
    stores say of them, their sizes and checksums; a generation names one content, so that what was
    verified of the source's holds for its copy.
    """

    def can_copy_from(self, source: ContentReader) -> bool:
        """Whether ``source`` is of that kind. If not, the other two are not to be called."""
        ...

    def find_copy(self, source: ContentReader, name: str, generation: str) -> Entry | None:
        """Return the object of that name here, if it has the bytes of that generation there.

        Whoever copied it. Raises NotFound and Changed as ``read`` of the source does.
        """
        ...

    def copy_from(
        self, source: ContentReader, name: str, generation: str, on_chunk: Callable[[int], None]
    ) -> Entry:
        """Create or replace the object with exactly that generation of the source's, durably.

        ``on_chunk`` hears of the bytes as they are copied, and raises Cancelled to stop. Raises
        NotFound and Changed as ``read`` of the source does; then nothing became visible.
        """
        ...


class ContentStore(ContentReader, ContentWriter, Protocol):
    """A region's store, both ways."""


def read_small(store: ContentReader, entry: Entry, limit_bytes: int) -> bytes:
    """Return the whole of a small object. Raises TooLarge, NotFound, Changed."""
    if entry.size_bytes > limit_bytes:
        raise TooLarge(entry.name, f"{entry.size_bytes} bytes where {limit_bytes} are allowed")
    with closing(store.read(entry.name, entry.generation)) as chunks:
        return b"".join(chunks)
