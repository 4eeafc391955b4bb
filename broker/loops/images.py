"""Images in the regions' registries, as the agents ask for them.

The rule: what is asked for is under way (None), done (a value), or has failed (a ReplicatorError,
as ``ContentError``). Where a registry does not answer nothing is concluded. Read ``Images`` first.
"""

from typing import Protocol

from broker.loops.image_book import ImageBook
from broker.loops.journeys import Journeys, OnDone
from broker.model.check import ClusterCheck
from broker.model.image import PinnedImage


class Registries(Protocol):
    """The registries that a configuration names. Each call is bounded in time.

    Each raises ReplicatorError. Images are pinned but where it is said.
    """

    async def resolve(self, image: str) -> PinnedImage:
        """Look up an image by its own name, tag or digest, and check that our machines run it."""
        ...

    async def is_there(self, image: str, region: str) -> bool:
        """Whether an image answers by its digest where the region pulls from."""
        ...

    async def bring(self, image: str, origin: str, region: str, on_done: OnDone) -> int:
        """Copy an image to a region's registry, verified; return the bytes that were sent.

        ``origin`` is the region from whose registry it comes, empty for where its name says.
        """
        ...

    async def examine(self, region: str) -> tuple[ClusterCheck, ...]:
        """Return what there is to say of a region's registry, and of those images come from."""
        ...


class Images:
    """Asks registries for the agents. ``asks`` are short, ``copies`` take as long as they take."""

    def __init__(
        self, book: ImageBook, registries: Registries, *, asks: Journeys, copies: Journeys
    ) -> None:
        self.book = book
        self.registries = registries
        self.asks = asks
        self.copies = copies

    def is_there(self, image: str, region: str) -> bool | None:
        """Return whether an image answers where a region pulls from. Raises ReplicatorError."""
        return self.asks.ask(
            ("there", image, region), lambda _: self.registries.is_there(image, region)
        )

    def bring(self, image: str, origin: str, region: str) -> int | None:
        """Copy an image to a region's registry; return the bytes sent. Raises ReplicatorError."""
        return self.copies.ask(
            (image, region), lambda told: self.registries.bring(image, origin, region, told)
        )

    def brought_bytes(self, image: str, region: str) -> int | None:
        """Return how far a copy is, or came; None once its outcome was told."""
        return self.copies.done_bytes((image, region))

    def resolve(self, run: str, image: str) -> PinnedImage | None:
        """Return what a run's image means, by its tag or digest. Raises ReplicatorError."""
        return self.asks.ask(("resolve", run, image), lambda _: self.registries.resolve(image))
