"""The regions' registries of images: slow, silent at times, cleaned by themselves, and broken into.

The rule: an image is there when all of it came, whichever life of the broker brought it, and a tag
is moved to another image now and then. What anybody is told to run is held against what really lay
there. Read ``Shelves.queued`` and ``SimRegistries.bring`` first.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from broker.loops.image_book import digest_of
from broker.model.check import ClusterCheck
from broker.model.image import PinnedImage
from regions.cluster import Queue
from replicator.errors import Corrupt, RegistryUnreachable
from tests.fakes.images import SOURCE
from tests.simulation.port import Crossing
from tests.simulation.witness import Witness

TAG = f"{SOURCE}/llm:v1"
MOVES_S = 90.0  # a tag is another image after so long
SIZE_BYTES = 400_000_000
PIECES = 5


@dataclass(slots=True, kw_only=True)
class Shelves:
    """What lies in the registries, and what is wrong with them; ``""`` is where images come from.

    ``were`` is all that was there whole at any time, by region and digest.
    """

    loop: asyncio.AbstractEventLoop
    chance: random.Random
    witness: Witness
    there: dict[str, set[str]] = field(default_factory=dict)
    were: set[tuple[str, str]] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    told: dict[str, str] = field(default_factory=dict)

    async def work(self, until_s: float) -> None:
        """Let one registry after the other fall silent, or lose what it has."""
        regions = ["", *sorted(self.there)]
        while self.loop.time() < until_s:
            await asyncio.sleep(self.chance.uniform(20.0, 90.0))
            region = self.chance.choice(regions)
            if self.chance.random() < 0.5:
                self.silent.add(region)
                self.loop.call_later(self.chance.uniform(5.0, 60.0), self.silent.discard, region)
            else:
                self.there.get(region, set()).clear()
        self.silent.clear()

    def meaning(self, tag: str) -> str:
        """Return the digest of what a tag names now."""
        turn = int(self.loop.time() / MOVES_S)
        return f"sha256:{hashlib.sha256(f'{tag} {turn}'.encode()).hexdigest()}"

    def put(self, region: str, digest: str) -> None:
        """Have an image whole."""
        self.there.setdefault(region, set()).add(digest)
        self.were.add((region, digest))
        self.witness.counts["images brought"] += 1

    def queued(self, region: str, order: Queue) -> None:
        """Hold the image that a cluster is told to run against what lay there."""
        if order.image:
            found = law_4_an_image_is_whole_and_the_same(region, order, self.were, self.told)
            self.witness.breach("law 4", order.run_key, found)
            self.told.setdefault(order.run_key, digest_of(order.image))


def law_4_an_image_is_whole_and_the_same(
    region: str, order: Queue, were: set[tuple[str, str]], told: Mapping[str, str]
) -> Iterator[str]:
    """A gang runs what was whole in its own region, and what its run ran before."""
    digest = digest_of(order.image)
    if order.image != f"{region}.example/team/llm@{digest}":
        yield f"{order.placement} in {region} is to run {order.image}, which is not pulled there"
    if (region, digest) not in were:
        yield f"{order.placement} in {region} is to run {digest}, which was never whole there"
    if told.get(order.run_key, digest) != digest:
        yield f"{order.placement} is to run {digest}, and its run ran {told[order.run_key]} before"


class SimRegistries:
    """The registries as one life of brokerd asks them."""

    def __init__(self, shelves: Shelves, life: Crossing, chance: random.Random) -> None:
        self._shelves = shelves
        self._life = life
        self._chance = chance

    async def resolve(self, image: str) -> PinnedImage:
        """Look up a tag."""
        await self._ask("", image)
        name, _, _ = image.rpartition(":")
        return PinnedImage(name=f"{name}@{self._shelves.meaning(image)}", size_bytes=SIZE_BYTES)

    async def is_there(self, image: str, region: str) -> bool:
        """Whether a region's registry has an image."""
        await self._ask(region, image)
        return digest_of(image) in self._shelves.there.get(region, set())

    async def bring(
        self, image: str, origin: str, region: str, on_done: Callable[[int], None]
    ) -> int:
        """Copy piece by piece; the broker can die, or the copy fail, between any two of them."""
        fails_at = self._chance.randrange(3 * PIECES)
        for piece in range(PIECES):
            await self._ask(origin, image)
            await self._ask(region, image)
            await asyncio.sleep(self._chance.uniform(0.5, 4.0))
            self._life.cross(f"in the copy of an image to {region}")
            if piece == fails_at:
                raise self._chance.choice(
                    (RegistryUnreachable(image, "cut off"), Corrupt(image, "its digest is another"))
                )
            on_done(SIZE_BYTES * (piece + 1) // PIECES)
        self._shelves.put(region, digest_of(image))
        self._life.cross(f"after the copy of an image to {region}")
        if self._chance.random() < 0.1:
            raise RegistryUnreachable(image, "the answer was lost")
        return SIZE_BYTES

    async def examine(self, region: str) -> tuple[ClusterCheck, ...]:
        """Say nothing: no person asks here."""
        return ()

    async def _ask(self, region: str, image: str) -> None:
        await asyncio.sleep(self._chance.uniform(0.0, 0.4))
        self._life.cross(f"before a registry of {region or 'nobody'} answers")
        if region in self._shelves.silent:
            raise RegistryUnreachable(image, "the registry fell silent")
