"""Registries of images as the agents ask for them, in memory: what they hold and say is scripted.

The rule: nothing is there that was not put there or brought, and a copy counts once it is whole.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from broker.loops.image_book import ImageBook, Shelf, digest_of
from broker.model.check import ClusterCheck
from broker.model.image import PinnedImage
from replicator.errors import ImageMissing, RegistryUnreachable, ReplicatorError
from replicator.oci.prefix import parse_prefix

DIGEST = f"sha256:{'a' * 64}"


def make_book(*regions: str, pulling: frozenset[str] = frozenset()) -> ImageBook:
    """Return a book with a registry for each of some regions, and one that is of no region."""
    shelves = [
        Shelf(
            prefix=parse_prefix(f"{region or 'source'}.example/team"),
            region=region,
            pull_bytes_per_s=1e8,
            login="none",
            upload="whole",
        )
        for region in ("", *regions)
    ]
    return ImageBook(shelves, pulling=pulling)


SOURCE = "source.example/team"
"""What lies in the registry of no region."""


@dataclass(slots=True)
class FakeRegistries:
    """``known`` is what each name means, or the error that it brings; ``there`` is what each region
    has, by digest. ``troubles`` are what the next copies meet, in order."""

    known: dict[str, PinnedImage | ReplicatorError] = field(default_factory=dict)
    there: dict[str, set[str]] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    troubles: list[ReplicatorError] = field(default_factory=list)
    heard: list[tuple[str, ...]] = field(default_factory=list)
    sent_bytes: int = 1_000

    async def resolve(self, image: str) -> PinnedImage:
        self.heard.append(("resolve", image))
        found = self.known.get(image) or ImageMissing(image, "the registry has no such thing")
        if isinstance(found, ReplicatorError):
            raise found
        return found

    async def is_there(self, image: str, region: str) -> bool:
        self.heard.append(("is_there", region))
        if region in self.silent:
            raise RegistryUnreachable(image, "the registry fell silent")
        return digest_of(image) in self.there.get(region, ())

    async def bring(
        self, image: str, origin: str, region: str, on_done: Callable[[int], None]
    ) -> int:
        self.heard.append(("bring", origin, region))
        if self.troubles:
            raise self.troubles.pop(0)
        on_done(self.sent_bytes)
        self.there.setdefault(region, set()).add(digest_of(image))
        return self.sent_bytes

    async def examine(self, region: str) -> tuple[ClusterCheck, ...]:
        subject = f"registry {region}.example/team"
        return (ClusterCheck(cluster="", subject=subject, is_well=True, message="answers"),)
