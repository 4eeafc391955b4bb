"""What Google tells of one project, kept up to date, and handed to each of its clusters' ports.

The rule: whoever reports asks nobody; what is asked is asked in ``run``, of a project once for all
of its clusters, and advice only where a gang waits for machines, or did within the last hour. Read
``ProjectWatch.run``, then ``ClusterScout.report``.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from regions.capacity import KnownSeen
from regions.gcp.advice import settled
from regions.gcp.errors import GoogleError
from regions.gcp.fleet.clusters import ClusterKey, GkeCluster
from regions.gcp.fleet.hearing import PoolSignal, felt, troubles_of
from regions.gcp.fleet.matching import most_nodes, pools_of
from regions.gcp.fleet.pools import Pool
from regions.gcp.survey import Survey, Wish
from regions.kueue.scout import Asked, Bounds, News, Report, Spot

LOOK_S = 15.0
"""How often it is looked whether something is due; the survey knows when each thing is."""
AGAIN_S = 60.0
"""How long after a failure to reach Google at all it is tried again."""
WANTED_S = 3600.0
"""How long advice is kept up for machines after the last gang that waited for them."""
ADVISED_AGAIN_S = 3600.0
"""Advice that has not moved is told again after so long: until then it has faded by half."""
ADVISED = "ADVISED"
ADVICE_SOURCE = "Compute Engine's advice"
MAX_PENDING = 1_000


class Clock(Protocol):
    """The time."""

    def monotonic_s(self) -> float:
        """Return seconds that only grow."""
        ...

    async def pause(self, seconds: float) -> None:
        """Wait."""
        ...


Connect = Callable[[], AbstractAsyncContextManager[Survey]]
"""Opens the way to Google for one project. Raises GoogleError."""


class ProjectWatch:
    """One project, watched for the clusters of it that the broker uses."""

    def __init__(self, connect: Connect, clock: Clock) -> None:
        self._connect = connect
        self._clock = clock
        self._scouts: dict[ClusterKey, ClusterScout] = {}

    def scout(self, key: ClusterKey) -> "ClusterScout":
        """Return who tells of one cluster."""
        return self._scouts.setdefault(key, ClusterScout(key, self._clock.monotonic_s))

    async def run(self) -> None:
        """Keep what is known up to date, until cancelled."""
        while True:
            try:
                async with self._connect() as survey:
                    self._tell(survey, "")
                    while True:
                        await self.look(survey)
                        await self._clock.pause(LOOK_S)
            except GoogleError as error:
                self._tell(None, f"Google tells nothing of it: {error}")
            await self._clock.pause(AGAIN_S)

    async def look(self, survey: Survey) -> None:
        """Ask for what is due, for what the scouts were asked last."""
        scouts = tuple(self._scouts.values())
        wishes = {wish for scout in scouts for wish in scout.wishes(survey)}
        news = await survey.look(tuple(sorted(wishes)))
        for scout in scouts:
            scout.hear(news)

    def _tell(self, survey: Survey | None, trouble: str) -> None:
        for scout in self._scouts.values():
            scout.connected(survey, trouble)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The largest gang that waited for a flavor's machines, and when it last did (monotonic)."""

    nodes: int
    at_s: float


class ClusterScout:
    """Tells what Google knows of one cluster's capacity."""

    def __init__(self, key: ClusterKey, now: Callable[[], float]) -> None:
        self._key = key
        self._now = now
        self._survey: Survey | None = None
        self._trouble = "Google was not asked yet"
        self._asked: tuple[Asked, ...] = ()
        self._wanted: dict[Spot, _Wanted] = {}
        self._pending: list[PoolSignal] = []
        self._advised: dict[Spot, tuple[float, float]] = {}

    def connected(self, survey: Survey | None, trouble: str) -> None:
        """Hear who knows, None when nobody can be asked, and why."""
        self._survey = survey or self._survey
        self._trouble = trouble

    def hear(self, signals: Iterable[PoolSignal]) -> None:
        """Keep what is news of pools until the next report."""
        own = [each for each in signals if each.cluster == self._key]
        self._pending = [*self._pending, *own][-MAX_PENDING:]

    def wishes(self, survey: Survey) -> tuple[Wish, ...]:
        """Return the machines on which advice is wanted."""
        cluster = self._cluster(survey)
        found = (self._wish(each, cluster) for each in self._asked) if cluster else ()
        return tuple(each for each in found if each is not None)

    def report(self, asked: tuple[Asked, ...]) -> Report:
        """Return what is known of flavors; asks nobody."""
        self._asked = asked
        self._remember(asked)
        survey, now_s = self._survey, self._now()
        if survey is None:
            return Report(notes=(self._trouble,))
        notes = [each for each in (self._trouble, *survey.troubles) if each]
        cluster = self._cluster(survey)
        if cluster is None:
            if survey.fleet is not None:
                notes.append(f"Google lists no cluster {self._key.name} in {self._key.location}")
            return Report(notes=tuple(notes))
        if cluster.is_stale:
            notes.append("the zones that tell of its node pools have not answered")
        pending, self._pending = self._pending, []
        return Report(
            news=(*_felt(asked, cluster, pending), *self._advice(survey, cluster, now_s)),
            known=tuple(one for each in asked for one in self._known(each, survey, cluster)),
            bounds={each.spot: _bounds(each, survey, cluster) for each in asked},
            notes=(*notes, *cluster.doubts),
        )

    def _remember(self, asked: Iterable[Asked]) -> None:
        now_s = self._now()
        kept = {s: one for s, one in self._wanted.items() if now_s - one.at_s < WANTED_S}
        for each in asked:
            if each.nodes:
                kept[each.spot] = _Wanted(nodes=each.nodes, at_s=now_s)
        self._wanted = kept

    def _cluster(self, survey: Survey) -> GkeCluster | None:
        return survey.fleet.clusters.get(self._key) if survey.fleet is not None else None

    def _wish(self, asked: Asked, cluster: GkeCluster) -> Wish | None:
        """Return for which machines advice is wanted: those of the flavor's first pool."""
        wanted, pools = self._wanted.get(asked.spot), pools_of(asked.node_labels, cluster.pools)
        if wanted is None or not pools:
            return None
        return Wish(
            region=cluster.region,
            machine=pools[0].machine,
            capacity_type=asked.capacity_type,
            nodes=wanted.nodes,
        )

    def _advice(self, survey: Survey, cluster: GkeCluster, now_s: float) -> Iterable[News]:
        """Yield advice that moved, or was told long ago: the best zone's, for a gang takes one."""
        for each in self._asked:
            wish = self._wish(each, cluster)
            told = survey.advice(wish) if wish is not None else None
            if told is None or not told[1]:
                continue
            age_s, zones = told
            best = max(zones, key=lambda one: one.obtainability)
            before = self._advised.get(each.spot)
            chance = settled(before[1] if before is not None else None, best.obtainability)
            is_same = before is not None and before[1] == chance
            if before is not None and is_same and now_s - before[0] < ADVISED_AGAIN_S:
                continue
            self._advised[each.spot] = (now_s, chance)
            words = f"{chance:.2f} for {best.count} of {best.machine} in {best.zone}"
            yield News(
                spot=each.spot,
                kind=ADVISED,
                age_s=age_s,
                source=ADVICE_SOURCE,
                detail=words,
                chance=chance,
            )

    def _known(self, asked: Asked, survey: Survey, cluster: GkeCluster) -> Iterable[KnownSeen]:
        wish = self._wish(asked, cluster) or Wish(
            region=cluster.region, machine="", capacity_type=asked.capacity_type, nodes=0
        )
        for each in survey.known(asked.accelerator, wish):
            yield KnownSeen(
                queue=asked.spot.queue,
                flavor=asked.spot.flavor,
                what=each.what,
                words=each.words,
                source=each.source,
                age_s=each.age_s,
            )
        for pool in pools_of(asked.node_labels, cluster.pools):
            yield KnownSeen(
                queue=asked.spot.queue,
                flavor=asked.spot.flavor,
                what=f"node pool {pool.name}",
                words=_state(pool),
                source="GKE",
                age_s=survey.fleet_age_s or 0.0,
            )


def _felt(
    asked: Iterable[Asked], cluster: GkeCluster, pending: Iterable[PoolSignal]
) -> Iterable[News]:
    """Yield what the flavors feel of what is news of pools."""
    heard = tuple(pending)
    for each in asked:
        for signal in felt(each.node_labels, cluster, heard):
            yield News(
                spot=each.spot,
                kind=signal.kind,
                age_s=signal.age_s,
                source=signal.source,
                detail=f"{signal.pool}: {signal.detail}",
            )


def _bounds(asked: Asked, survey: Survey, cluster: GkeCluster) -> Bounds:
    pools = pools_of(asked.node_labels, cluster.pools)
    windows = [pool.window_s for pool in pools if pool.window_s is not None]
    stays = [pool.max_run_s for pool in pools if pool.max_run_s is not None]
    return Bounds(
        max_nodes=most_nodes(asked.node_labels, cluster.pools),
        max_run_s=min(stays, default=None),
        window_s=min(windows, default=None),
        gpus=survey.most_gpus(cluster.region, asked.accelerator, asked.capacity_type),
    )


def _state(pool: Pool) -> str:
    """Say how a pool is and how many machines it may have."""
    said = [pool.status.lower().replace("_", " ")]
    if pool.most_nodes is not None:
        zones = "" if pool.most_per_zone == pool.most_nodes else f", {pool.most_per_zone} in a zone"
        said.append(f"{pool.most_nodes} machines at most{zones}")
    said.extend(f"{kind}: {words}" for kind, words in troubles_of(pool).items())
    known = set(troubles_of(pool).values())
    said.extend(f"{one.code}: {one.message}" for one in pool.conditions if one.message not in known)
    return "; ".join(said)
