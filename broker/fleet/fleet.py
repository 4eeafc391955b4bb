"""All clusters of one broker, as one thing.

The rule: a cluster that was joined before and does not answer is an outage of its region, and the
others go on; one that never was joined and cannot be is a mistake, and said. Read ``Fleet`` first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

from broker.fleet.places import Place, Places
from broker.loops.outposts import Outpost
from broker.loops.running import Keeper

Work = Callable[[], Awaitable[None]]
Troubles = Callable[[], tuple[str, ...]]


class Link(Protocol):
    """The way to one cluster, while a broker runs. Made within a running loop."""

    @property
    def outpost(self) -> Outpost:
        """The cluster behind its port."""
        ...

    @property
    def works(self) -> tuple[tuple[str, Work], ...]:
        """What has to go on beside it, each by a name for operators."""
        ...

    @property
    def is_embedded(self) -> bool:
        """Whether it is a process of this machine that the broker started."""
        ...

    async def start(self, lifeline: int | None, *, is_known: bool) -> None:
        """Make it ready, and its store if it is new. ``is_known``: the log has met its store."""
        ...

    async def mend(self, lifeline: int | None) -> None:
        """Bring back what was lost of it."""
        ...

    async def close(self) -> None:
        """Let go of it; what runs there runs on."""
        ...


class Member(Protocol):
    """One cluster that a configuration names."""

    @property
    def cluster(self) -> str:
        """Its name."""
        ...

    @property
    def region(self) -> str:
        """Where it stands."""
        ...

    @property
    def store(self) -> Place:
        """Its region's store."""
        ...

    @property
    def needs_image(self) -> bool:
        """Whether it runs images only."""
        ...

    def connect(self) -> Link:
        """Return the way to it; nothing is asked of it yet."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The clusters that a configuration names.

    ``works`` is what goes on for several of them, ``troubles`` what it cannot do, in sentences.
    ``places`` are where their stores are.
    """

    members: tuple[Member, ...]
    places: Places
    works: tuple[tuple[str, Work], ...] = ()
    troubles: Troubles = tuple

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions, sorted."""
        return tuple(sorted({each.region for each in self.members}))

    @property
    def stores(self) -> Mapping[str, Place]:
        """Each region's store."""
        return {each.region: each.store for each in self.members}

    @property
    def locations(self) -> Mapping[str, str]:
        """Where each region's store is, as it was written down."""
        stores = self.stores.items()
        return {region: str(place.folder or place.location) for region, place in stores}

    @property
    def regions_needing_image(self) -> frozenset[str]:
        """The regions with a cluster that runs images only."""
        return frozenset(each.region for each in self.members if each.needs_image)

    def connect(self) -> "Links":
        """Return the way to each cluster."""
        return Links(
            links=tuple(each.connect() for each in self.members),
            regions=tuple(each.region for each in self.members),
            shared=self.works,
            troubles=self.troubles,
            places=self.places,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The ways to all clusters, in the order of ``regions``."""

    links: tuple[Link, ...]
    regions: tuple[str, ...]
    shared: tuple[tuple[str, Work], ...]
    troubles: Troubles
    places: Places

    @property
    def outposts(self) -> tuple[Outpost, ...]:
        """Each cluster behind its port."""
        return tuple(each.outpost for each in self.links)

    @property
    def has_embedded(self) -> bool:
        """Whether one of them is embedded."""
        return any(each.is_embedded for each in self.links)

    async def start(self, lifeline: int | None, *, known: Iterable[str] = ()) -> None:
        """Make all ready at once; ``known`` are the regions whose store the log has met.

        Raises what keeps one that never was joined from it.
        """
        met = frozenset(known)
        async with asyncio.TaskGroup() as group:
            for link, region in zip(self.links, self.regions, strict=True):
                group.create_task(link.start(lifeline, is_known=region in met))

    async def mend(self, lifeline: int | None) -> None:
        """Bring back what was lost of each, all at once: one that is slow keeps no other away."""
        async with asyncio.TaskGroup() as group:
            for link in self.links:
                group.create_task(link.mend(lifeline))

    def keep(self, keeper: Keeper) -> None:
        """Hand what goes on beside them to a keeper."""
        for name, work in (*self.shared, *(one for link in self.links for one in link.works)):
            keeper.keep(name, work)

    async def close(self) -> None:
        """Let go of all."""
        async with AsyncExitStack() as stack:
            stack.callback(self.places.close)
            for link in self.links:
                stack.push_async_callback(link.close)
