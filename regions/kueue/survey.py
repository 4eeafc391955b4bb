"""All that is known of a cluster, gathered from its informers when something changed.

The rule: to look asks nothing of the cluster; what was gathered is looked at again while nothing
changed, for a while, because what is not heard of grows old by itself. Read ``Survey.scene``.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from regions.capacity import KnownSeen, QueueSeen
from regions.kueue import drift, held_in_vain
from regions.kueue import snapshot as snapshots
from regions.kueue.clock import Clock
from regions.kueue.node_hearing import Notices
from regions.kueue.objects.priority_class import PriorityClass
from regions.kueue.queue_view import QueuesSeen, queues_seen
from regions.kueue.scene import Scene
from regions.kueue.scout import Report, dressed
from regions.kueue.sight import Sight, snapshot_of
from regions.kueue.sites import KueueSettings
from regions.kueue.snapshot import Seen, Snapshot

SCENE_S = 30.0
"""How long what was gathered is looked at again while nothing changed."""
SHARE = 20
"""What concerns the whole of a cluster is worked out anew when so many times as long has passed as
it takes: with ten thousand Workloads that is a part of a second, and any of them changes it."""
NEWS = ("job sets", "pods", "requests", "local queues")
"""What changes for us: others' workloads and all nodes' heartbeats are no news."""
MUST_BE_SEEN = ("local queues", "workloads", "job sets", "pods")
"""Without these nothing can be said of our gangs: ``snapshot.ESSENTIAL``, as they are followed."""
NEEDED_TO_ORDER = ("priority classes",)
"""Without these nothing is sent. The first look waits until they came or failed, so that the first
order of a broker that just came is not put off for seconds."""


class Survey:
    """What is known of one cluster. ``doubts`` are sentences for ops: what cannot be offered, what
    contradicts itself, quota that nobody holds and nobody can have."""

    def __init__(
        self,
        sight: Sight,
        settings: KueueSettings,
        clock: Clock,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.doubts: tuple[str, ...] = ()
        self._sight = sight
        self._settings = settings
        self._clock = clock
        self._wall_s = wall_s
        self._scene: Scene | None = None
        self._scene_mark: object = None
        self._scene_s = 0.0
        self._reckoned_until_s = 0.0
        self._is_owed = False
        self._queues = QueuesSeen(queues=(), doubts=())
        self._drift: dict[drift.Drift, float] = {}
        self._notices = Notices(clock.monotonic_s())

    @property
    def queues(self) -> tuple[QueueSeen, ...]:
        """The queues, as of the last scene."""
        return self._queues.queues

    @property
    def known(self) -> tuple[KnownSeen, ...]:
        """Where prices are from, as of the last scene."""
        return self._queues.known

    @property
    def priority_classes(self) -> Seen[PriorityClass]:
        """The cluster's classes of priority."""
        return self._sight.seen("priority classes")

    def scene(self) -> Scene:
        """Return all that is known, gathered anew only when something changed or time passed."""
        mark, now_s = self._sight.generations(), self._clock.monotonic_s()
        is_same = mark == self._scene_mark and now_s - self._scene_s < SCENE_S
        is_owed = self._is_owed and now_s >= self._reckoned_until_s
        if self._scene is not None and is_same and not is_owed:
            return self._scene
        # A cache is read while it changes: what was gathered is to stay as it was.
        known = {name: _kept(each) for name, (_, each) in self._sight.known().items()}
        snapshot = snapshot_of(known)
        self._is_owed = now_s < self._reckoned_until_s
        if not self._is_owed:
            self._reckon(snapshot, now_s)
            ended_s = self._clock.monotonic_s()
            self._reckoned_until_s = ended_s + min(SHARE * (ended_s - now_s), SCENE_S)
        self._scene = Scene(
            namespace=self._settings.namespace,
            snapshot=snapshot,
            job_sets=known["job sets"],
            requests=known["requests"],
            events=known["events"],
            places=self._queues.places,
        )
        self._scene_mark, self._scene_s = mark, now_s
        self._notices.take_in(
            known["node events"],
            snapshot,
            self._queues.queues,
            now_s=self._wall_s(),
            monotonic_s=now_s,
        )
        return self._scene

    def told(self) -> Report:
        """Return what the machines' own events tell of capacity, as of the last scene."""
        return self._notices.report(self._wall_s())

    def _reckon(self, snapshot: Snapshot, now_s: float) -> None:
        """Work out what concerns the whole of the cluster."""
        wall_s = self._wall_s()
        laid = self._settings.profiles
        found = queues_seen(
            snapshot, self._settings.queues, wall_s, lambda flavor: laid.of(flavor).topology_level
        )
        self._queues = replace(found, queues=dressed(found.queues, laid))
        self.doubts = (
            *self._queues.doubts,
            *self._lost(snapshot, now_s),
            *held_in_vain.sentences(snapshot.workloads.objects.values(), wall_s),
        )

    def _lost(self, snapshot: Snapshot, now_s: float) -> Iterable[str]:
        """Say which quota nobody holds and nobody can have; unless all Workloads are seen, none."""
        workloads, found = snapshot.workloads, frozenset[drift.Drift]()
        if workloads.is_whole:
            queues = snapshot.cluster_queues.objects.values()
            found = drift.differences(queues, drift.held(workloads.objects.values()))
        self._drift = drift.lasting(self._drift, found, now_s)
        return [each.sentence() for each in drift.settled(self._drift, now_s)]

    def partial(self, scene: Scene) -> tuple[str, ...]:
        """Say what has to be seen and is not: what is missing is then unknown, not absent."""
        known = self._sight.known().values()
        lacks = self._sight.served.blind if self._sight.served is not None else ()
        hidden = [one.reason for one in scene.job_sets.unreadable.values()]
        return (*snapshots.blind(known), *lacks, *hidden[: snapshots.SAID])

    def narrow(self) -> tuple[str, ...]:
        """Say what else is not seen, which leaves figures open."""
        return snapshots.narrow(self._sight.known().values())

    def is_in_doubt(self) -> bool:
        """Whether something stands in the way of what has to be seen, just now."""
        return any(
            each is not None and bool(each.health.trouble) and not each.health.is_denied
            for each in map(self._sight.informer, MUST_BE_SEEN)
        )

    def never_seen(self) -> str:
        """What has to be seen and was not looked at yet; empty: each was, or may not be."""
        if self._sight.served is None:
            return self._sight.trouble
        for name in (*MUST_BE_SEEN, *NEEDED_TO_ORDER):
            informer = self._sight.informer(name)
            health = informer.health if informer is not None else None
            if health is None or health.heard_s is not None or health.is_denied:
                continue
            if name in MUST_BE_SEEN or not health.trouble:
                return health.trouble or f"{name} have not been seen yet"
        return ""

    def mark(self, followed: Iterable[str] = NEWS) -> tuple[object, ...]:
        """Return a mark that is another one whenever one of these changed."""
        informers = [self._sight.informer(name) for name in followed]
        return tuple(
            None if each is None else (each.version, each.cache.generation) for each in informers
        )


def _kept(seen: Seen[Any]) -> Seen[Any]:
    return replace(seen, objects=dict(seen.objects), unreadable=dict(seen.unreadable))
