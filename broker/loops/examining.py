"""Whether the clusters of a region have what the broker needs, asked because a person asked.

The rule: it changes nothing and decides nothing; what does not answer in time is a check that is
not well. Read ``Examiner.check`` first.
"""

import asyncio
from collections.abc import Iterator
from typing import Protocol

from broker.loops.images import Images
from broker.loops.outposts import Outpost, Outposts
from broker.loops.sight import ClusterSight
from broker.model.check import ClusterCheck
from regions.examined import Examined

WITHIN_S = 12.0
"""Less than a client waits for an answer."""


class Looks(Protocol):
    """What was seen of clusters."""

    def cluster(self, cluster: str) -> ClusterSight:
        """Return a cluster as last seen."""
        ...


class Examiner:
    """Asks the clusters."""

    def __init__(self, outposts: Outposts, sight: Looks, images: Images | None) -> None:
        """Make it; ``images`` None: no registry is configured."""
        self._outposts = outposts
        self._sight = sight
        self._images = images

    async def check(self, region: str) -> tuple[ClusterCheck, ...]:
        """Return what there is to say of each cluster of a region, its store and its registry."""
        clusters = map(self._check, self._outposts.of_region(region))
        found = await asyncio.gather(*clusters, self._registries(region))
        return tuple(check for checks in found for check in checks)

    async def _registries(self, region: str) -> tuple[ClusterCheck, ...]:
        if self._images is None or not self._images.book.is_pulled_in(region):
            return ()
        return await self._images.registries.examine(region)

    async def _check(self, outpost: Outpost) -> tuple[ClusterCheck, ...]:
        return (*await _asked(outpost), *self._store(outpost))

    def _store(self, outpost: Outpost) -> Iterator[ClusterCheck]:
        seen = self._sight.cluster(outpost.cluster)
        facts, observation = seen.facts, seen.observation
        claims = observation.claims if observation is not None else None
        is_well = facts.is_store_reachable and facts.doubt is None
        remedy = ""
        if facts.doubt is not None:
            message, remedy = facts.doubt[1], "see `broker regions accept-store --help`"
        elif not is_well:
            message = "does not answer, so nothing is started or concluded there"
            remedy = "see whether its disk or bucket is there for the broker"
        elif claims is None or not claims.identity:
            message = "answers, and has no name yet"
        else:
            message = f"answers, and is called {claims.identity}"
        yield ClusterCheck(
            cluster=outpost.cluster,
            subject="store",
            is_well=is_well,
            message=message,
            remedy=remedy,
        )


async def _asked(outpost: Outpost) -> tuple[ClusterCheck, ...]:
    port = outpost.port
    if not isinstance(port, Examined):
        return ()
    try:
        async with asyncio.timeout(WITHIN_S):
            findings = await port.examine()
    except TimeoutError:
        return (
            ClusterCheck(
                cluster=outpost.cluster,
                subject="cluster",
                is_well=False,
                message=f"did not tell within {WITHIN_S:g} s what it serves and allows",
                remedy="try again, and see how busy its API server is",
            ),
        )
    return tuple(
        ClusterCheck(
            cluster=outpost.cluster,
            subject=each.what,
            is_well=each.is_well,
            message=each.said,
            remedy=each.mend,
        )
        for each in findings
    )
