"""A store that is a prefix of a bucket.

The rule: an absence is believed only when the store's marker was seen after it, as a bucket that is
not there answers like an object that is not there. Objects whose names end in a slash, which
mounts and consoles leave as folders, are no content. Read ``GcsStore`` first.
"""

from collections.abc import Callable, Generator, Iterable

from replicator.errors import Changed, NotFound, StoreUnreachable
from replicator.stores.checkup import Standing
from replicator.stores.gcs.access import Access
from replicator.stores.gcs.calls import Caller, Missing, Patience
from replicator.stores.gcs.listing import Folder, listed
from replicator.stores.gcs.location import Location
from replicator.stores.gcs.notes import Notes
from replicator.stores.gcs.objects import Objects, Seen, generation_of
from replicator.stores.gcs.rewriting import copy_over
from replicator.stores.gcs.uploading import Uploading
from replicator.stores.names import (
    STORE_MARKER,
    checked,
    checked_content,
    checked_prefix,
    refusal,
)
from replicator.stores.port import ContentReader, Entry, Listing, Refused


class GcsStore:
    """A ContentStore over ``location``, which also copies from others of its kind by itself."""

    def __init__(
        self, access: Access, location: Location, patience: Patience, notes: Notes
    ) -> None:
        self._location = location
        self._objects = Objects(access=access, location=location, caller=Caller(patience=patience))
        self._notes = notes
        self._uploading = Uploading(objects=self._objects, notes=notes)
        self._is_marked = False

    def __repr__(self) -> str:
        return f"GcsStore({str(self._location)!r})"

    def create(self) -> None:
        """Make the prefix a store, if it is none yet. Only who sets up a region calls this."""
        self._uploading.write(STORE_MARKER, [b""], replaces=False)
        self._require_marker()

    def list(self, prefix: str) -> Listing:
        """List the objects under ``prefix``, page by page."""
        entries: list[Entry] = []
        refused: list[Refused] = []
        for entry in listed(self._objects, checked_prefix(prefix)):
            if isinstance(entry, Folder):
                continue
            why = refusal(entry.name)
            if why is None:
                entries.append(entry)
            else:
                refused.append(Refused(name=ascii(entry.name)[1:-1], why=why))
        if not entries:
            self._require_marker()
        entries.sort(key=lambda entry: entry.name)
        refused.sort(key=lambda one: one.name)
        return Listing(entries=tuple(entries), refused=tuple(refused))

    def stat(self, name: str) -> Entry | None:
        """Look at the object."""
        seen = self._see(checked(name))
        return seen.entry if seen else None

    def read(self, name: str, generation: str) -> Generator[bytes, None, None]:
        """Yield the bytes of the generation, range by range."""
        seen = self._pinned(checked(name), generation)
        try:
            yield from self._objects.pieces(seen)
        except Missing:
            raise self._moved(name) from None
        # Ranges that came before it was replaced are whole, and yet it is no more what was asked
        # for.
        now = self._see(name)
        if now is None or now.entry != seen.entry:
            raise Changed(name, "it was replaced while it was read")

    def write_if_absent(self, name: str, chunks: Iterable[bytes]) -> Entry | None:
        """Write while there is none: generation 0."""
        return self._write(name, chunks, replaces=False)

    def put(self, name: str, chunks: Iterable[bytes]) -> Entry:
        """Write over the generation that is there."""
        written = self._write(name, chunks, replaces=True)
        assert written is not None, "a write that replaces takes the place of whatever is there"
        return written

    def delete(self, name: str) -> bool:
        """Remove the generation that is there now; one that comes after it stays."""
        seen = self._see(checked_content(name))
        if seen is None:
            return False
        # Not there any more: an answer of ours was lost, or somebody else was faster. Both are
        # what was wanted of that generation.
        self._objects.remove(name, seen.generation)
        return True

    def tidy(self, prefix: str) -> None:
        """Remove what stands for folders at and below ``prefix``, where they are empty."""
        there = tuple(listed(self._objects, checked_prefix(prefix)))
        names = [one.name for one in there if isinstance(one, Entry)]
        for folder in there:
            is_empty = not any(name.startswith(folder.name) for name in names)
            if isinstance(folder, Folder) and is_empty:
                self._objects.remove(folder.name, folder.generation)

    def standing(self) -> Standing:
        """Ask the bucket where it stands."""
        objects = self._objects
        bucket = objects.access.client.bucket(self._location.bucket)
        timeout = objects.caller.patience.timeout
        objects.caller.ask(str(self._location), lambda: bucket.reload(timeout=timeout, retry=None))
        return Standing(
            location=str(bucket.location).lower(), is_one_place=bucket.location_type == "region"
        )

    # ---- From others of its kind ------------------------------------------------------------

    def can_copy_from(self, source: ContentReader) -> bool:
        """Whether the other store is Google's too."""
        return isinstance(source, GcsStore)

    def find_copy(self, source: ContentReader, name: str, generation: str) -> Entry | None:
        """Compare what the two buckets say of the object: size, crc32c, and md5 if both know it."""
        here = self._see(checked(name))
        if here is None:
            return None
        origin = _of_google(source)._pinned(name, generation)
        return here.entry if here.has_bytes_of(origin) else None

    def copy_from(
        self,
        source: ContentReader,
        name: str,
        generation: str,
        on_chunk: Callable[[int], None],
    ) -> Entry:
        """Rewrite it, bucket to bucket."""
        self._require_marked_once()
        other = _of_google(source)
        origin = other._pinned(checked_content(name), generation)
        try:
            return copy_over(other._objects, origin, self._objects, self._notes, on_chunk).entry
        except Missing:
            self._require_marker()
            raise other._moved(name) from None

    # ---- What is there ----------------------------------------------------------------------

    def _see(self, name: str) -> Seen | None:
        seen = self._objects.see(name, None)
        if seen is None:
            self._require_marker()
        return seen

    def _pinned(self, name: str, generation: str) -> Seen:
        """Look at one generation. Raises NotFound, and Changed when another one is there."""
        seen = self._objects.see(name, generation_of(name, generation))
        if seen is None:
            raise self._moved(name)
        return seen

    def _moved(self, name: str) -> Changed | NotFound:
        """Return why a generation was not found. Raises StoreUnreachable when nobody knows."""
        if self._see(name) is None:
            return NotFound(name, "no such object")
        return Changed(name, "it is not the generation that was asked for")

    def _write(self, name: str, chunks: Iterable[bytes], *, replaces: bool) -> Entry | None:
        checked_content(name)
        self._require_marked_once()
        written = self._uploading.write(name, chunks, replaces=replaces)
        return written.entry if written else None

    def _require_marked_once(self) -> None:
        """Before the first write. Later ones are to a store that was one; absences look anew."""
        if not self._is_marked:
            self._require_marker()

    def _require_marker(self) -> None:
        if self._objects.see(STORE_MARKER, None) is None:
            raise StoreUnreachable(str(self._location), f"not a store, it has no {STORE_MARKER}")
        self._is_marked = True


def _of_google(source: ContentReader) -> GcsStore:
    if not isinstance(source, GcsStore):
        raise TypeError(f"can_copy_from says no to {source!r}")
    return source
