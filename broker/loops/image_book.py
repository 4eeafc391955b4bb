"""Which registry an image lies in, and what each region calls it. Pure.

The rule: every region's registry has an image under the same name below its own prefix, by the
same digest; so the name there follows from the name anywhere. What lies in no registry that is
configured is left alone: it is run by the name that it has. Read ``ImageBook.name_in`` first.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from replicator.errors import NameRefused
from replicator.oci.prefix import Prefix
from replicator.oci.reference import Reference, parse

PULL_BYTES_PER_S = 100e6  # where a region has no registry of its own that says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """One registry that is configured. ``region`` empty: no region pulls from it.

    ``pull_bytes_per_s`` is how fast a new machine takes an image from it. ``login`` and ``upload``
    are the words of the configuration.
    """

    prefix: Prefix
    region: str
    pull_bytes_per_s: float
    login: str
    upload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A repository on a shelf: ``path`` is how its registry is asked for it."""

    shelf: Shelf
    path: str

    def name_of(self, digest: str) -> str:
        """Return the name by which an image of this digest is pulled from here."""
        return f"{self.shelf.prefix.registry}/{self.path}@{digest}"


class ImageBook:
    """The registries of one configuration."""

    def __init__(self, shelves: Iterable[Shelf], *, pulling: frozenset[str]) -> None:
        """Make it; ``pulling`` are the regions with clusters that run images only."""
        # The longest prefix of several is the one that is meant.
        self.shelves = tuple(
            sorted(shelves, key=lambda one: (-len(one.prefix.path), one.prefix, one.region))
        )
        self._of_region = {one.region: one for one in self.shelves if one.region}
        self._pulling = pulling | self._of_region.keys()

    def shelf_of(self, region: str) -> Shelf | None:
        """Return the registry that a region pulls from, None where it has none of its own."""
        return self._of_region.get(region)

    def pull_bytes_per_s(self, region: str) -> float:
        """Return how fast a new machine of a region pulls, in bytes per second."""
        own = self._of_region.get(region)
        return PULL_BYTES_PER_S if own is None else own.pull_bytes_per_s

    def is_pulled_in(self, region: str) -> bool:
        """Whether a start in the region takes an image out of a registry."""
        return region in self._pulling

    def source(self, image: str) -> Spot | None:
        """Return where an image lies by its own name, None where nobody here may be asked."""
        found = _read(image)
        if found is None:
            return None
        for shelf in self.shelves:
            if shelf.prefix.rest_of(found.repository) is not None:
                return Spot(shelf=shelf, path=found.repository.path)
        return None

    def spot_in(self, image: str, region: str) -> Spot | None:
        """Return from where a region pulls an image; None: not from a registry that is known."""
        source, shelf = self.source(image), self._of_region.get(region)
        if source is None or shelf is None:
            return source
        found = _read(image)
        assert found is not None, "an image with a source can be read"
        rest = source.shelf.prefix.rest_of(found.repository)
        assert rest is not None, "a source holds what lies there"
        return Spot(shelf=shelf, path=shelf.prefix.repository(rest))

    def name_in(self, image: str, region: str) -> str:
        """Return what a region's clusters are told to pull for a pinned image."""
        spot, found = self.spot_in(image, region), _read(image)
        if spot is None or found is None or found.digest is None:
            return image
        return spot.name_of(found.digest)


def digest_of(image: str) -> str:
    """Return the digest in a pinned image's name."""
    return image.rpartition("@")[2]


def _read(image: str) -> Reference | None:
    try:
        return parse(image)
    except NameRefused:
        return None
