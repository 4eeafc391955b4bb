"""Where regions' stores are: directories of this machine, and folders of buckets.

The rule: what a bucket needs is imported when a configuration names one. A place is made a store
when the log meets its region for the first time, and never again: an empty one in the place of
one that is away is no store in which nothing was started. Read ``Place`` first.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from broker.config import Buckets
from broker.options import StartError
from regions.launcher.store import GS, MARKER, DirectoryStore, Store, location_of
from replicator import stores
from replicator.stores.port import ContentStore

if TYPE_CHECKING:
    from broker.fleet.buckets import Doors


COPIES = "copies"
"""The folder of brokerd's data in which it is noted what is under way to buckets."""


class Place(Protocol):
    """Where one region's store is, as brokerd reaches it. Two that are equal in ``location`` are
    one store."""

    @property
    def location(self) -> str:
        """An absolute path, or ``gs://bucket/folder``."""
        ...

    @property
    def folder(self) -> Path | None:
        """The directory, None for a bucket."""
        ...

    def control(self) -> Store:
        """Return the store for the start protocol's records. Raises StartError."""
        ...

    def content(self) -> ContentStore:
        """Return the store for checkpoints and bundles. Raises StartError."""
        ...

    def mark(self, region: str) -> None:
        """Make it the store of a region that is new. Raises StartError where it cannot be."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryPlace:
    """A directory, as it was written down."""

    path: Path

    @property
    def location(self) -> str:
        """Where it leads: two links to one directory are one store."""
        return str(self.path.resolve())

    @property
    def folder(self) -> Path | None:
        """The directory."""
        return self.path

    def control(self) -> Store:
        """Return the launcher's kind of store."""
        return DirectoryStore(str(self.path))

    def content(self) -> ContentStore:
        """Return the replicator's kind of store."""
        return stores.DirectoryStore(self.path)

    def mark(self, region: str) -> None:
        """Mark it. An absent one is not made: a disk may have to be mounted."""
        if not self.path.is_dir():
            raise StartError(
                f"the store of {region}, {self.path}, is no directory: mount or make it, so that"
                " the pods of its clusters reach it too"
            )
        if (self.path / MARKER).exists():
            return
        try:
            DirectoryStore.create(str(self.path))
        except OSError as error:
            raise StartError(
                f"the store of {region}, {self.path}, cannot be written: {error.strerror}"
            ) from error


class Places:
    """Finds places by what a configuration calls them."""

    def __init__(self, settings: Buckets, data: Path) -> None:
        """Make them; ``data`` is brokerd's own directory."""
        self._settings = settings
        self._data = data
        self._doors: Doors | None = None

    def at(self, text: str) -> Place:
        """Return the place of an absolute path, or of ``gs://bucket/folder``.

        Raises InvalidKey, and StartError without Google's libraries.
        """
        if not text.startswith(GS):
            return DirectoryPlace(path=Path(text))
        try:
            from broker.fleet.buckets import BucketPlace, Doors
        except ImportError as error:
            raise StartError(
                f"{text}: Google's libraries are not installed here ({error.name}): pip install"
                " 'capacity-broker[gcp]' brings them"
            ) from error
        self._doors = self._doors or Doors(self._settings, self._data / COPIES)
        return BucketPlace(location=location_of(text), doors=self._doors)

    def close(self) -> None:
        """Let go of what was opened."""
        if self._doors is not None:
            self._doors.close()
