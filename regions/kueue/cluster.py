"""A cluster of Kubernetes with Kueue behind the port, put together.

The rule: looking asks nothing of the cluster but, now and then, whether it answers; all else is
watched, and read in the region's store. The cluster is looked at before the store, so that a
process seen gone has had the time to write its last word. What a look finds to be done (a gang that
was put out is removed, a granted one gets its priority) is done beside it: see ``upkeep``.

Read ``KueueCluster.observe`` first. ``run`` has to run beside it.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace

from regions import observing
from regions.cluster import (
    Action,
    Cause,
    ClusterObservation,
    ClusterUnreachableError,
    Grant,
    Manifest,
    NoSuchLogError,
    Outcome,
    Queue,
    Stage,
)
from regions.examined import Finding
from regions.kueue import names
from regions.kueue.access import Api
from regions.kueue.calm import STIRRED_S, Calm
from regions.kueue.checkup import Member, examine
from regions.kueue.clock import Clock
from regions.kueue.errors import ClusterError, ForbiddenError
from regions.kueue.facts import facts
from regions.kueue.logs import Logs, Printer
from regions.kueue.members import MAX_RANK, Members
from regions.kueue.objects.job_set import JobSet
from regions.kueue.orders import Orders
from regions.kueue.recalling import Recaller
from regions.kueue.scene import Scene
from regions.kueue.scout import Bounds, Scout, Spot, asked_of, bounded
from regions.kueue.sight import Sight
from regions.kueue.signals import Signals
from regions.kueue.site import Site
from regions.kueue.sites import KueueSettings, priority_classes, site_of
from regions.kueue.survey import Survey
from regions.kueue.upkeep import Upkeep
from regions.kueue.views import Placements, Shown
from regions.launcher.pack import pack
from regions.launcher.store import Store
from regions.store_eye import Look, TimedEye
from regions.store_orders import StoreOrders

PING_S = 20.0
"""How often a cluster that says nothing is asked whether it is there: three times a minute."""
FIRST_S = 10.0
"""How long the first look waits for the first lists."""
LOOK_S = 0.05
TOUCHED_S = 60.0
"""How long a run is looked at after something was written for it, whatever the cluster says."""


class KueueCluster:
    """One cluster, with the store of its region. Made within a running loop.

    ``wall_s`` returns Unix seconds by the cluster's clock, as its own times are. ``scout`` tells
    what its cloud knows of its capacity, None where nobody does.
    """

    def __init__(
        self,
        api: Api,
        store: Store,
        settings: KueueSettings,
        *,
        clock: Clock,
        chance: random.Random,
        scout: Scout | None = None,
        store_s: float = 5.0,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.cluster, self.region = settings.cluster, settings.region
        self._api = api
        self._settings = settings
        self._clock = clock
        self._wall_s = wall_s
        self._sight = Sight(api, settings.namespace, clock=clock, chance=chance)
        self._survey = Survey(self._sight, settings, clock, wall_s)
        self._eye = TimedEye(store, store_s)
        self._members = Members()
        self._calm = Calm()
        self._recaller = Recaller(
            api,
            clock,
            self._members,
            cluster=settings.cluster,
            namespace=settings.namespace,
        )
        self._placements = Placements(settings.gate_fresh_s)
        self._signals = Signals(clock.monotonic_s())
        self._scout = scout
        self._bounds: Mapping[Spot, Bounds] = {}
        self._logs = Logs(api, clock, self._printer)
        self._orders = Orders(
            api,
            StoreOrders(store, store_s),
            clock,
            namespace=settings.namespace,
            packed=pack(),
            site_of=self._site_of,
            classes=self._classes,
            is_there=lambda uid: self._gang_of(uid) is not None,
            is_empty=self._is_empty,
        )
        self._upkeep = Upkeep(self._orders, self._recaller, clock)
        self._touched: dict[str, float] = {}
        self._queued: dict[str, float] = {}
        self._answered_s: float | None = None
        self._news_mark: object = None
        self._last: ClusterObservation | None = None

    @property
    def doubts(self) -> tuple[str, ...]:
        """Sentences for ops: see ``Survey``."""
        return self._survey.doubts

    async def run(self) -> None:
        """Follow the cluster until cancelled, then let go of it."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._upkeep.run())
                await self._sight.run()
        finally:
            await self._api.close()

    # ---- the port ----

    async def observe(self) -> ClusterObservation:
        """Look at what is known of the cluster, then at the store. See the port."""
        silence = await self._silence() or await self._first_look()
        self._sight.news.clear()
        self._news_mark = self._survey.mark()
        scene = self._survey.scene()
        self._take_in(scene)
        now_s = self._clock.monotonic_s()
        self._touched = _recent(self._touched, now_s)
        self._queued = _recent(self._queued, now_s)
        open_runs = self._open_runs(scene)
        stirred = _recent(self._touched, now_s, STIRRED_S)
        calm = self._calm.among(scene.gangs, open_runs, self._members, self._last, stirred)
        active = {*open_runs.values(), *self._touched}
        look = await self._eye.look(active, self._members.gone, now_s, calm)
        now_s = self._clock.monotonic_s()
        if silence:
            alone = observing.store_alone(self.cluster, self.region, look, silence, now_s)
            raise ClusterUnreachableError(silence, alone)
        if scene.snapshot.pods.is_known:
            self._recaller.take_in(look)
        wall_s = self._wall_s()
        shown = self._placements.look(
            scene,
            self._members,
            look,
            now_s=wall_s,
            monotonic_s=now_s,
            missing=self._recaller.missing(),
        )
        observation = self._observation(scene, shown.values(), look, now_s, wall_s)
        self._last = replace(observation, changed=None)
        self._upkeep.take_in(scene, shown.values(), wall_s)
        return observation

    async def apply(self, actions: tuple[Action, ...]) -> tuple[Outcome, ...]:
        """Carry out the actions in order; each has an outcome of its own."""
        outcomes = []
        for action in actions:
            outcome = await self._orders.carry_out(action)
            if isinstance(action, Grant) and outcome.is_done:
                outcome = await self._raise(action.placement)
            outcomes.append(outcome)
            if isinstance(action, Queue) and outcome.is_done:
                self._queued[action.placement] = self._clock.monotonic_s()
            epoch = getattr(action, "epoch", None)
            run_key = epoch.run_key if epoch is not None else getattr(action, "run_key", "")
            self._touched[run_key] = self._clock.monotonic_s()
        return tuple(outcomes)

    def manifest(self, order: Queue) -> Manifest:
        """Return what is sent for an order. See the port, and ``manifest``."""
        return self._orders.manifest(order, self._survey.scene().gangs.get(order.placement))

    def logs(
        self, placement: str, rank: int, offset: int, follow: bool
    ) -> AsyncIterator[tuple[int, bytes]]:
        """Yield a rank's output from a position on. See the port, and ``logs``."""
        return self._logs.read(placement, rank, offset, follow)

    async def wait_for_news(self, timeout_s: float) -> bool:
        """Wait until the cluster has something new to show of our gangs. False: nothing came."""
        until_s = self._clock.monotonic_s() + timeout_s
        while self._survey.mark() == self._news_mark:
            left_s = until_s - self._clock.monotonic_s()
            if left_s <= 0:
                return False
            self._sight.news.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._sight.news.wait()
            except TimeoutError:
                return self._survey.mark() != self._news_mark
        return True

    async def ping(self) -> None:
        """Raise ClusterUnreachableError unless the cluster answers."""
        self._answered_s = None
        silence = await self._silence()
        if silence:
            raise ClusterUnreachableError(silence)

    async def examine(self) -> tuple[Finding, ...]:
        """Ask the cluster whether all that a broker needs is there. See ``checkup``."""
        settings = self._settings
        member = Member(
            namespace=settings.namespace,
            queues=settings.queues.queues,
            priority_classes=settings.priority_classes,
        )
        return await examine(self._api, member)

    # ---- looking ----

    async def _silence(self) -> str:
        """Why the cluster does not answer, empty when it does, or just did."""
        now_s = self._clock.monotonic_s()
        is_due = self._answered_s is None or now_s - self._answered_s >= PING_S
        if not (is_due or self._survey.is_in_doubt()):
            return ""
        try:
            await self._api.ask("GET", "/version")
        except ForbiddenError:
            pass  # it is there, and says no more than it must
        except ClusterError as error:
            self._answered_s = None
            return f"{self.cluster} did not answer: {error}"
        self._answered_s = self._clock.monotonic_s()
        return ""

    async def _first_look(self) -> str:
        """Wait for the first lists. Returns why nothing can be said yet, or nothing."""
        until_s = self._clock.monotonic_s() + FIRST_S
        while missing := self._survey.never_seen():
            if self._clock.monotonic_s() >= until_s:
                return f"{self.cluster} is not seen yet: {missing}"
            await self._clock.pause(LOOK_S)
        return ""

    def _take_in(self, scene: Scene) -> None:
        seen = scene.snapshot
        self._members.look(seen.pods, seen.nodes, self._settings.namespace, self._wall_s())

    def _open_runs(self, scene: Scene) -> dict[str, str]:
        """Return the keys of runs that go on, by placement."""
        return {
            placement: run_key
            for placement, gang in scene.gangs.items()
            if (run_key := gang.meta.annotations.get(names.KEYED, ""))
            and not (gang.terminal_state and self._is_empty(gang.meta.uid))
        }

    def _observation(
        self,
        scene: Scene,
        shown: Iterable[Shown],
        look: Look,
        now_s: float,
        wall_s: float,
    ) -> ClusterObservation:
        found = list(shown)
        told = [(each.seen, each.evidence) for each in found]
        self._orders.refusals.forget(each.seen.uid for each in found if self._is_raised(each))
        placements = self._orders.refusals.shown(each.seen for each in found)
        partial, queues = [*self._survey.partial(scene)], self._survey.queues
        report = self._survey.told()
        if self._scout is not None:
            asked = asked_of(queues, scene.snapshot.flavors.objects, placements.values())
            report = report.and_(self._scout.report(asked))
            self._bounds = report.bounds
        if look.trouble:
            partial.append(f"store: {look.trouble}")
        return ClusterObservation(
            cluster=self.cluster,
            region=self.region,
            seen_at_s=now_s,
            is_whole=not partial,
            is_store_readable=not look.trouble,
            blind=(*partial, *self._survey.narrow()),
            queues=bounded(queues, report.bounds),
            placements=placements,
            epochs=look.epochs,
            signals=self._signals.look(found, wall_s, now_s, report.news),
            changed=observing.changed(self._last, placements, look),
            keeps_secrets=True,
            claims=look.claims,
            unread=look.unread,
            known=(*facts(told, wall_s), *self._survey.known, *report.known),
            notes=(*self._survey.doubts, *self._api.time.doubts(), *report.notes),
        )

    def _is_raised(self, shown: Shown) -> bool:
        """Whether a gang is seen to have the priority of its grant."""
        if shown.evidence is None or not self._survey.priority_classes.is_known:
            return False
        return not self._orders.is_low(shown.evidence.job_set)

    # ---- acting ----

    async def _raise(self, placement: str) -> Outcome:
        """Give a gang that was just granted its priority. The grant stands whatever comes of it."""
        shown = self._placements.shown.get(placement)
        gang = self._gang_of(shown.seen.uid) if shown is not None else None
        if gang is None:
            return Outcome(is_done=True)
        outcome = await self._orders.raise_priority(gang)
        if outcome.is_done:
            return Outcome(is_done=True)
        why = f"it is granted, and runs with the priority that it waited with: {outcome.message}"
        return Outcome(is_done=True, cause=Cause.REFUSED, message=why)

    # ---- what orders and logs ask ----

    def _site_of(self, queue: Queue) -> Site:
        classes = self._survey.priority_classes
        site = site_of(queue, self._sight.snapshot(), classes, self._settings)
        told = self._bounds.get(Spot(queue=queue.queue, flavor=queue.flavor))
        return replace(site, window_s=told.window_s) if told is not None else site

    def _classes(self) -> dict[str, int]:
        return dict(priority_classes(self._survey.priority_classes, self._settings))

    def _gang_of(self, uid: str) -> JobSet | None:
        informer = self._sight.informer("job sets")
        gangs: Iterable[JobSet] = informer.cache.objects.values() if informer is not None else ()
        return next((each for each in gangs if each.meta.uid == uid), None)

    def _is_empty(self, uid: str) -> bool:
        """Whether no process of a gang is known to run."""
        return not any(one.is_alive for one in self._members.of(uid))

    def _printer(self, placement: str, rank: int) -> Printer:
        scene = self._survey.scene()
        self._take_in(scene)
        gang, shown = scene.gangs.get(placement), self._placements.shown.get(placement)
        if gang is None and shown is None and placement in self._queued:
            return Printer(member=None, is_over=False)  # it is on its way into what is seen
        uid = shown.seen.uid if shown is not None else gang.meta.uid if gang is not None else ""
        wanted = gang.members if gang is not None else MAX_RANK
        if not uid or not 0 <= rank < wanted:
            raise NoSuchLogError(f"{self.cluster} holds nothing of rank {rank} of {placement}")
        own = [one for one in self._members.of(uid) if one.rank == rank and one.key]
        is_over = shown is not None and shown.seen.stage is Stage.ENDED
        return Printer(member=own[-1] if own else None, is_over=is_over)


def _recent(all_s: dict[str, float], now_s: float, within_s: float = TOUCHED_S) -> dict[str, float]:
    return {name: at_s for name, at_s in all_s.items() if now_s - at_s < within_s}
