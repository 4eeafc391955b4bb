"""An image as it runs: by its digest, whatever its tag means later; and where it is pulled from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionRegistry:
    """The registry that a region pulls from, in the words of the configuration.

    ``pull_bytes_per_s`` is how fast a new machine takes an image from it.
    """

    prefix: str
    login: str
    upload: str
    pull_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOnItsWay:
    """An image that is being copied to a region's registry, by its name there.

    ``size_bytes`` is what a machine will pull of it: where it is built for several platforms, more
    is copied.
    """

    name: str
    done_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedImage:
    """What a run's image was found to be, once.

    ``name`` is REGISTRY/PATH@sha256:DIGEST, where it was found; other regions have the same digest
    under names of their own. ``size_bytes`` is what a machine that has nothing of it pulls.
    """

    name: str
    size_bytes: int
