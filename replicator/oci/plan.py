"""What is to be copied of an image, and in which order: decided before a byte of it is fetched.

Blobs first, then manifests from the leaves up, the one that was asked for last: a registry takes
no manifest before all that it names is there, and who can read the last one has the whole. Read
``plan`` first.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from replicator.errors import ImageRefused, PlatformMissing
from replicator.oci.manifest import Descriptor, Image, Index, Manifest, Platform

MAX_DEPTH = 4  # an index of indexes of images is the most that was seen
MAX_MANIFESTS = 500
MAX_TREE_BYTES = 4 << 20  # manifests are the one thing that is held in memory
MAX_BLOBS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """``blobs`` each once, in the order in which they are named; ``manifests`` children first."""

    blobs: tuple[Descriptor, ...]
    manifests: tuple[Manifest, ...]

    @property
    def root(self) -> Manifest:
        """The manifest that was asked for."""
        return self.manifests[-1]

    @property
    def size_bytes(self) -> int:
        """All blobs together: what a copy to an empty registry sends, manifests aside."""
        return sum(blob.size_bytes for blob in self.blobs)


def plan(name: str, root: str, manifests: Mapping[str, Manifest]) -> CopyPlan:
    """Order what is under ``root``. Raises ImageRefused when that is no tree within the limits."""
    blobs: dict[str, Descriptor] = {}
    ordered = tuple(_children_first(name, root, manifests, (), {}).values())
    for manifest in ordered:
        for blob in _blobs(manifest.content):
            if blobs.setdefault(blob.digest, blob).size_bytes != blob.size_bytes:
                raise ImageRefused(name, f"{blob.digest} is said to be of two sizes")
    if len(blobs) > MAX_BLOBS:
        raise ImageRefused(name, f"it is made of {len(blobs)} blobs, more than {MAX_BLOBS}")
    return CopyPlan(blobs=tuple(blobs.values()), manifests=ordered)


def unread(name: str, manifests: Mapping[str, Manifest]) -> tuple[Descriptor, ...]:
    """Return the manifests that are named and were not fetched; none when all are there.

    Raises ImageRefused when there are too many of them, or too much in them, by what is said of
    them before they are fetched.
    """
    named = {
        child.digest: child for each in manifests.values() for child in _children(each.content)
    }
    if len(manifests.keys() | named.keys()) > MAX_MANIFESTS:
        raise ImageRefused(name, f"it has more than {MAX_MANIFESTS} manifests")
    if sum(child.size_bytes for child in named.values()) > MAX_TREE_BYTES:
        raise ImageRefused(name, f"its manifests have more than {MAX_TREE_BYTES >> 20} MiB")
    return tuple(child for digest, child in named.items() if digest not in manifests)


def choose(name: str, index: Index, wanted: Platform) -> Descriptor:
    """Return the child for a platform. Raises PlatformMissing, which says what there is.

    A variant that is not asked for is left to the index: its first image of that architecture
    that says none, or else its first.
    """
    alike = [
        (child.platform.variant, child)
        for child in index.children
        if child.platform is not None
        and (child.platform.os, child.platform.architecture) == (wanted.os, wanted.architecture)
    ]
    exact = [child for variant, child in alike if variant == wanted.variant]
    if exact:
        return exact[0]
    if alike and not wanted.variant:
        return alike[0][1]
    raise missing(name, wanted, {child.platform for child in index.children if child.platform})


def require_platform(name: str, wanted: Platform, found: Platform) -> None:
    """Raise PlatformMissing when an image of one platform is not of the wanted one."""
    is_alike = (found.os, found.architecture) == (wanted.os, wanted.architecture)
    if not is_alike or wanted.variant not in ("", found.variant):
        raise missing(name, wanted, {found})


def missing(name: str, wanted: Platform, there: Collection[Platform]) -> PlatformMissing:
    """Say that an image is not for a platform, and for which it is."""
    # What builders attach to an image is listed beside it, as of a platform that nothing has.
    shown = sorted({ascii(str(each))[1:-1] for each in there if each.os != "unknown"})
    known = ", ".join(shown[:10]) if shown else "none that it names"
    return PlatformMissing(name, f"it is not for {wanted}; it is for {known}")


def _children_first(
    name: str,
    digest: str,
    manifests: Mapping[str, Manifest],
    above: tuple[str, ...],
    ordered: dict[str, Manifest],
) -> dict[str, Manifest]:
    """Add the manifests under one to ``ordered``, each once, every one after all that it names."""
    if digest in above:
        raise ImageRefused(name, "its index contains itself")
    if len(above) >= MAX_DEPTH:
        raise ImageRefused(name, f"its indexes are nested more than {MAX_DEPTH} deep")
    for child in _children(manifests[digest].content):
        if len(manifests[child.digest].body) != child.size_bytes:
            raise ImageRefused(name, f"{child.digest} is not of the size that its index says")
        if child.digest not in ordered:
            _children_first(name, child.digest, manifests, (*above, digest), ordered)
    ordered[digest] = manifests[digest]
    return ordered


def _children(content: Image | Index) -> tuple[Descriptor, ...]:
    return content.children if isinstance(content, Index) else ()


def _blobs(content: Image | Index) -> tuple[Descriptor, ...]:
    if isinstance(content, Index):
        return ()
    return tuple(each for each in (content.config, *content.layers) if not each.is_foreign)
