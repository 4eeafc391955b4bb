"""From what is wrong with node pools to signals about capacity. Pure.

The rule: a condition has no time of its own, so its age is counted from when it was first seen; it
is told when it comes, and again now and then while it stands, for it is news each time that
machines still do not come. A cluster that was not seen anew says nothing. Read ``hear``, then
``felt``.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from regions.gcp.fleet.clusters import ClusterKey, Fleet, GkeCluster
from regions.gcp.fleet.matching import pools_of
from regions.gcp.fleet.pools import GCE_QUOTA_EXCEEDED, GCE_STOCKOUT, Condition, Pool

STOCKOUT, CLOUD_QUOTA = "STOCKOUT", "CLOUD_QUOTA"
SOURCE = "GKE node pool condition"
AGAIN_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSignal:
    """A pool cannot have machines. ``stands_s`` is for how long at least; ``age_s`` is how long
    ago it was last seen so."""

    cluster: ClusterKey
    pool: str
    machine: str
    capacity_type: str
    zones: tuple[str, ...]
    kind: str
    age_s: float
    stands_s: float
    source: str
    detail: str


_Standing = tuple[ClusterKey, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What stands, by pool and kind: when it was first seen, and when it was last told."""

    since_s: Mapping[_Standing, float] = field(default_factory=dict)
    told_s: Mapping[_Standing, float] = field(default_factory=dict)


def hear(before: Heard, fleet: Fleet, now_s: float) -> tuple[Heard, tuple[PoolSignal, ...]]:
    """Return what stands as of ``now_s`` (monotonic), and what of it is to be told now."""
    stale = {key for key, cluster in fleet.clusters.items() if cluster.is_stale}
    since = {at: when for at, when in before.since_s.items() if at[0] in stale}
    told = {at: when for at, when in before.told_s.items() if at[0] in stale}
    signals = []
    for key, pool, kind, detail in _standing(fleet):
        at = (key, pool.name, kind)
        since[at] = before.since_s.get(at, now_s)
        told[at] = before.told_s.get(at, float("-inf"))
        if now_s - told[at] < AGAIN_S:
            continue
        told[at] = now_s
        signals.append(
            PoolSignal(
                cluster=key,
                pool=pool.name,
                machine=pool.machine,
                capacity_type=pool.capacity_type,
                zones=pool.zones,
                kind=kind,
                age_s=0.0,
                stands_s=now_s - since[at],
                source=SOURCE,
                detail=detail,
            )
        )
    return Heard(since_s=since, told_s=told), tuple(signals)


def troubles_of(pool: Pool) -> Mapping[str, str]:
    """Return which kinds of trouble a pool is in, each with its own words."""
    kinds: dict[str, str] = {}
    for condition in pool.conditions:
        if kind := _kind(condition):
            kinds.setdefault(kind, condition.message or condition.code)
    return kinds


def felt(
    node_labels: Mapping[str, str], cluster: GkeCluster, signals: Iterable[PoolSignal]
) -> tuple[PoolSignal, ...]:
    """Return what a flavor with these labels feels of signals, one of a kind.

    A flavor is out of stock only when all of its pools are: from another it still gets nodes.
    """
    pools = {each.name: each for each in pools_of(node_labels, cluster.pools)}
    troubles = [set(troubles_of(each)) for each in pools.values()]
    everywhere = set.intersection(*troubles) if troubles else set()
    found: dict[str, PoolSignal] = {}
    for signal in signals:
        is_its = signal.cluster == cluster.key and signal.pool in pools
        if is_its and signal.kind in everywhere:
            found.setdefault(signal.kind, signal)
    return tuple(found.values())


def _standing(fleet: Fleet) -> Iterator[tuple[ClusterKey, Pool, str, str]]:
    """Yield each pool with what it cannot have, once a kind."""
    for key, cluster in fleet.clusters.items():
        if cluster.is_stale:
            continue
        for pool in cluster.pools:
            for kind, detail in troubles_of(pool).items():
                yield key, pool, kind, detail


def _kind(condition: Condition) -> str:
    if condition.code == GCE_STOCKOUT:
        return STOCKOUT
    if condition.code == GCE_QUOTA_EXCEEDED:
        return CLOUD_QUOTA
    # The newer code says "exhausted" of quota and of stock alike; the words tell them apart.
    if condition.is_exhausted:
        return CLOUD_QUOTA if "quota" in condition.message.lower() else STOCKOUT
    return ""
