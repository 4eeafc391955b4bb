"""Whether the clusters of a region have what the broker needs, asked because a person asked.

The rule: it changes nothing that anybody reads, and decides nothing; what does not answer in time
is a check that is not well. Read ``Examiner.check`` first.
"""

import asyncio
import re
from collections.abc import Iterator
from typing import Protocol

from broker.loops.content import Content
from broker.loops.images import Images
from broker.loops.outposts import Outpost, Outposts
from broker.loops.sight import ClusterSight
from broker.model.check import ClusterCheck
from regions.examined import Examined
from replicator.stores.checkup import Standing, Trial

WITHIN_S = 12.0
"""Less than a client waits for an answer."""
_GOOGLES = re.compile(r"[a-z]+-[a-z]+[0-9]+")
"""What Google calls its regions."""


class Looks(Protocol):
    """What was seen of clusters."""

    def cluster(self, cluster: str) -> ClusterSight:
        """Return a cluster as last seen."""
        ...


class Examiner:
    """Asks the clusters."""

    def __init__(
        self, outposts: Outposts, sight: Looks, content: Content, images: Images | None
    ) -> None:
        """Make it; ``images`` None: no registry is configured."""
        self._outposts = outposts
        self._sight = sight
        self._content = content
        self._images = images

    async def check(self, region: str) -> tuple[ClusterCheck, ...]:
        """Return what there is to say of each cluster of a region, its store and its registry."""
        there = self._outposts.of_region(region)
        clusters = map(self._check, there)
        # Clusters of a region share its store: it is tried once.
        tried = map(self._tried, there[:1])
        found = await asyncio.gather(*clusters, *tried, self._registries(region))
        return tuple(check for checks in found for check in checks)

    async def _registries(self, region: str) -> tuple[ClusterCheck, ...]:
        if self._images is None or not self._images.book.is_pulled_in(region):
            return ()
        return await self._images.registries.examine(region)

    async def _check(self, outpost: Outpost) -> tuple[ClusterCheck, ...]:
        return (*await _asked(outpost), *self._store(outpost))

    async def _tried(self, outpost: Outpost) -> tuple[ClusterCheck, ...]:
        region = outpost.region
        if region not in self._content.stores:
            return ()
        try:
            async with asyncio.timeout(WITHIN_S):
                trial = await self._content.try_out(region)
        except TimeoutError:
            trial = Trial(fault=f"it did not answer within {WITHIN_S:g} s")
        return tuple(_of_trial(outpost.cluster, region, trial))

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


def _of_trial(cluster: str, region: str, trial: Trial) -> Iterator[ClusterCheck]:
    yield ClusterCheck(
        cluster=cluster,
        subject="store access",
        is_well=not trial.fault,
        message=trial.fault or "what is written there is listed, read and removed",
        remedy="give the broker, and gangs, the right to list, read, write and remove there"
        if trial.fault
        else "",
    )
    if trial.unknown:
        yield ClusterCheck(
            cluster=cluster,
            subject="store location",
            is_well=True,
            message=f"cannot be seen, so nothing is said of it: {trial.unknown}",
        )
    if trial.standing is not None:
        yield _of_standing(cluster, region, trial.standing)


def _of_standing(cluster: str, region: str, standing: Standing) -> ClusterCheck:
    """Compare where a store stands with its region, if that is called as Google calls its own."""
    where = standing.location
    is_far = standing.is_one_place and where != region and _GOOGLES.fullmatch(region) is not None
    shared = "" if standing.is_one_place else ", which several regions share"
    return ClusterCheck(
        cluster=cluster,
        subject="store location",
        is_well=not is_far,
        message=f"the bucket stands in {where}{shared}" + f", and not in {region}" * is_far,
        remedy="take a bucket of the region: from another one each read takes longer and is charged"
        if is_far
        else "",
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
