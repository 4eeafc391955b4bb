"""Everything that is watched of one cluster, as one thing.

The rule: what a cluster serves is asked first, and again from time to time, for Kueue is upgraded
under running brokers; each kind is followed as widely as our rights go. Nothing is asked of the
cluster to answer ``snapshot``. Read ``FOLLOWED``, then ``Sight.run``.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from regions.kueue import accelerators
from regions.kueue.access import Api
from regions.kueue.cache import Health
from regions.kueue.clock import Clock
from regions.kueue.discovery import Served, discover
from regions.kueue.errors import ClusterError
from regions.kueue.node_hearing import says_of_capacity
from regions.kueue.objects import kinds
from regions.kueue.objects.kinds import Kind
from regions.kueue.objects.pod import Pod
from regions.kueue.snapshot import Seen, Snapshot, absent, seen
from regions.kueue.source import ApiSource
from regions.kueue.watching import Informer

T = TypeVar("T")

REDISCOVER_S = 600.0
"""How often a cluster is asked what it serves: a new version of Kueue is seen by then."""
LACKS_S = 60.0
"""How often one that lacks what no cluster can do without: it may be about to be installed."""
RETRY_S = 15.0
"""How soon a cluster that did not tell what it serves is asked again, half to one and a half of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """One thing that is followed.

    ``is_everywhere``: in all namespaces if we may, else in ours; otherwise in ours only.
    ``namespace`` is another one than ours. ``keeps`` None: all of them.
    """

    name: str
    kind: Kind[Any]
    is_everywhere: bool = True
    namespace: str = ""
    selectors: Mapping[str, str] | None = None
    keeps: Callable[[Any, str], bool] | None = None

    def scopes(self, ours: str) -> tuple[str, ...]:
        """Return the namespaces to try, the widest first; empty is all of them."""
        if not self.kind.is_namespaced:
            return ("",)
        if self.namespace:
            return (self.namespace,)
        return ("", ours) if self.is_everywhere else (ours,)


def holds_accelerators(pod: Pod, ours: str) -> bool:
    """Whether a pod is ours, or takes accelerators of a node: others change nothing for us."""
    if pod.meta.namespace == ours:
        return True
    return bool(pod.node) and not pod.is_over and accelerators.count(pod.requests) > 0


FOLLOWED = (
    Followed(name="cluster queues", kind=kinds.CLUSTER_QUEUES),
    Followed(name="local queues", kind=kinds.LOCAL_QUEUES),
    Followed(name="cohorts", kind=kinds.COHORTS),
    Followed(name="flavors", kind=kinds.RESOURCE_FLAVORS),
    Followed(name="topologies", kind=kinds.TOPOLOGIES),
    Followed(name="checks", kind=kinds.ADMISSION_CHECKS),
    Followed(name="provisioning", kind=kinds.PROVISIONING_CONFIGS),
    Followed(name="workloads", kind=kinds.WORKLOADS),
    Followed(name="priority classes", kind=kinds.PRIORITY_CLASSES),
    Followed(name="job sets", kind=kinds.JOB_SETS, is_everywhere=False),
    Followed(name="requests", kind=kinds.PROVISIONING_REQUESTS, is_everywhere=False),
    Followed(name="pods", kind=kinds.PODS, keeps=holds_accelerators),
    Followed(name="nodes", kind=kinds.NODES),
    Followed(name="events", kind=kinds.EVENTS, is_everywhere=False),
    Followed(
        name="node events",
        kind=kinds.EVENTS,
        namespace="default",  # where Kubernetes keeps what is told of things without a namespace
        selectors={"fieldSelector": "involvedObject.kind=Node"},
        keeps=says_of_capacity,
    ),
)
_BY_NAME = {each.name: each for each in FOLLOWED}


class Sight:
    """One cluster, watched from the namespace that is ours in it."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        *,
        clock: Clock,
        chance: random.Random,
    ) -> None:
        self.namespace = namespace
        self.served: Served | None = None
        self.trouble = "it has not been asked yet what it serves"
        self.news = asyncio.Event()
        self._api = api
        self._clock = clock
        self._chance = chance
        self._informers: dict[str, Informer[Any]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Follow the cluster until cancelled. It can be run again after it raised: what was known
        stays, and grows old, until each thing was listed anew."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._look_anew(group)
                    await self._clock.pause(self._pause_s() * (0.5 + self._chance.random()))
        finally:
            self._running.clear()

    def informer(self, name: str) -> Informer[Any] | None:
        """Return who follows something, None while it is not known whether it is served."""
        return self._informers.get(name)

    def generations(self) -> tuple[tuple[str, str, int], ...]:
        """Return a mark that is another one whenever anything changed."""
        return tuple(
            (name, each.version, each.cache.generation) for name, each in self._informers.items()
        )

    def known(self) -> dict[str, tuple[Kind[Any], Seen[Any]]]:
        """Return what is known of each thing that is followed, by its name."""
        return {each.name: (each.kind, self._seen(each)) for each in FOLLOWED}

    def snapshot(self) -> Snapshot:
        """Return what is known now of queues, flavors and machines."""
        return snapshot_of({name: each for name, (_, each) in self.known().items()})

    def seen(self, name: str) -> Seen[Any]:
        """Return what is known of one thing that is followed."""
        return self._seen(_BY_NAME[name])

    def _seen(self, followed: Followed) -> Seen[Any]:
        informer = self._informers.get(followed.name)
        now_s = self._clock.monotonic_s()
        if informer is not None:
            cache = informer.cache
            health = informer.health
            if followed.namespace or not followed.is_everywhere:
                # It is wanted of there only, so that nothing is missing.
                health = replace(health, scope="")
            return seen(followed.kind, cache.objects, cache.unreadable, health, now_s)
        if self.served is None:
            return seen(followed.kind, {}, {}, Health(trouble=self.trouble), now_s)
        return absent()

    async def _look_anew(self, group: asyncio.TaskGroup) -> None:
        """Ask what is served, and follow that: what changed its version, from the beginning."""
        try:
            served = await discover(self._api)
        except ClusterError as error:
            self.trouble = f"it does not tell what it serves: {error}"
            return
        if self.served is not None and served.blind and not self.served.blind:
            # A server that starts, or a proxy that lost its way, says so too: what is followed says
            # by itself what became of it, and nothing of it counts as gone by this alone.
            self.trouble = f"it serves less than it did: {served.blind[0]}"
            return
        self.served, self.trouble = served, ""
        for followed in FOLLOWED:
            version = served.version(followed.kind)
            informer = self._informers.get(followed.name)
            is_followed = followed.name in self._running
            if is_followed and informer is not None and informer.version == version:
                continue
            await self._leave(followed.name)
            if version is not None:
                self._follow(group, followed, version)

    def _pause_s(self) -> float:
        """How long until it is asked again what it serves."""
        if self.trouble or self.served is None:
            return RETRY_S
        return LACKS_S if self.served.blind else REDISCOVER_S

    def _follow(self, group: asyncio.TaskGroup, followed: Followed, version: str) -> None:
        keeps = followed.keeps
        self._informers[followed.name] = informer = Informer(
            followed.kind,
            version,
            ApiSource(self._api, followed.kind, version, followed.selectors),
            clock=self._clock,
            chance=self._chance,
            scopes=followed.scopes(self.namespace),
            keeps=None if keeps is None else lambda each: keeps(each, self.namespace),
            tells=self.news.set,
        )
        self._running[followed.name] = group.create_task(informer.run(), name=followed.name)

    async def _leave(self, name: str) -> None:
        self._informers.pop(name, None)
        task = self._running.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})


def snapshot_of(known: Mapping[str, Seen[Any]]) -> Snapshot:
    """Return the part of what is known that describes queues, flavors and machines."""
    return Snapshot(
        cluster_queues=known["cluster queues"],
        local_queues=known["local queues"],
        cohorts=known["cohorts"],
        flavors=known["flavors"],
        topologies=known["topologies"],
        checks=known["checks"],
        provisioning=known["provisioning"],
        workloads=known["workloads"],
        nodes=known["nodes"],
        pods=known["pods"],
    )
