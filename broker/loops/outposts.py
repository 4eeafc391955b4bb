"""The clusters that the broker was told of: each in its region, behind its port."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from regions.cluster import Cluster


class News(Protocol):
    """Tells of a cluster's changes as they come, where a cluster can."""

    async def wait_for_news(self, timeout_s: float) -> bool:
        """Wait until there is something new to see. False: nothing came, or nobody answers."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outpost:
    """One cluster, the region it stands in, and the port to it. ``news`` None: it only answers."""

    cluster: str
    region: str
    port: Cluster
    news: News | None = None


class Outposts:
    """All clusters by name; the list never changes while a broker lives."""

    def __init__(self, outposts: Iterable[Outpost]) -> None:
        self._by_cluster = {outpost.cluster: outpost for outpost in outposts}

    def __iter__(self) -> Iterator[Outpost]:
        return iter(self._by_cluster.values())

    def get(self, cluster: str) -> Outpost | None:
        """Return a cluster by its name, or None when the broker was not told of it."""
        return self._by_cluster.get(cluster)

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions that have a cluster, sorted."""
        return tuple(sorted({outpost.region for outpost in self._by_cluster.values()}))

    def of_region(self, region: str) -> tuple[Outpost, ...]:
        """Return the clusters of a region."""
        return tuple(o for o in self._by_cluster.values() if o.region == region)
