"""All clusters of a broker as one thing: what is done for each of them is done at once."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from broker.config import Buckets
from broker.fleet.fleet import Links, Work
from broker.fleet.places import Places
from broker.loops.outposts import Outpost

TOGETHER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A way to a cluster that only comes back together with the others."""

    all_there: asyncio.Barrier
    works: tuple[tuple[str, Work], ...] = ()
    is_embedded: bool = True
    mended: list[str] = field(default_factory=list)

    @property
    def outpost(self) -> Outpost:
        raise AssertionError("nobody looks at it")

    async def start(self, lifeline: int | None, *, is_known: bool) -> None:
        raise AssertionError("it was started before")

    async def mend(self, lifeline: int | None) -> None:
        await self.all_there.wait()
        self.mended.append("mended")

    async def close(self) -> None:
        """Nothing is held of it."""


async def test_clusters_that_were_lost_together_are_brought_back_together() -> None:
    barrier = asyncio.Barrier(TOGETHER)
    links = tuple(Waiting(all_there=barrier) for _ in range(TOGETHER))
    made = Links(
        links=links,
        regions=("here",) * TOGETHER,
        shared=(),
        troubles=tuple,
        places=Places(Buckets(), Path("/nowhere")),
    )
    async with asyncio.timeout(10):
        await made.mend(None)
    assert [each.mended for each in links] == [["mended"]] * TOGETHER
