"""A copy as who asks for it sees it: from where to where, how far it is, what it did."""

from dataclasses import dataclass
from enum import Enum

from replicator.oci.flights import OnDone
from replicator.oci.manifest import Descriptor
from replicator.oci.registry import Registry


class How(Enum):
    """How a blob came to be at its destination."""

    FOUND = "it was there, or another copy brought it meanwhile"
    MOUNTED = "its registry had it in another repository"
    SENT = "its bytes went over the line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A repository of a registry that can be asked."""

    registry: Registry
    repository: str

    def name_of(self, wanted: str) -> str:
        """Return what errors call a thing that lies here."""
        return self.registry.name_of(self.repository, wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a copy did. ``found`` blobs were there, or brought by another copy meanwhile."""

    digest: str
    sent: int
    sent_bytes: int
    mounted: int
    found: int


class Progress:
    """How far a copy is, in bytes of blobs; ``total_bytes`` is None until it is known.

    ``told`` hears of it whenever it moves.
    """

    def __init__(self, told: OnDone | None = None) -> None:
        self.total_bytes: int | None = None
        self._told = told
        self._done: dict[str, int] = {}

    @property
    def done_bytes(self) -> int:
        """What was sent, or found to be there. A blob that is sent again is counted once."""
        return sum(self._done.values())

    def of(self, blob: Descriptor) -> OnDone:
        """Return what hears how far one blob is."""

        def done(done_bytes: int) -> None:
            self._done[blob.digest] = done_bytes
            if self._told is not None:
                self._told(self.done_bytes)

        return done
