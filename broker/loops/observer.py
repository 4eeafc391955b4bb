"""The observer: looks at one cluster, keeps what it saw, and tells the log the facts.

The rule: a look that failed says nothing but that it failed, and since when. Only what changed is
looked through. Read ``Observer.tick`` first.
"""

import asyncio
from dataclasses import dataclass, replace

from broker.history.regional import RegionState, StoreDoubt
from broker.loops.believing import believed, without_impostors, without_store
from broker.loops.desk import Clock, Desk, NewerIncarnationError, putting_back
from broker.loops.outposts import Outpost
from broker.loops.reporting import reports
from broker.loops.roster import Roster
from broker.loops.sight import Sight
from broker.loops.trust import Sound, Superseded, Trust, Unclaimed
from broker.store.streams import BROKER_STREAM
from regions.cluster import ClusterObservation, ClusterUnreachableError
from regions.launcher.words import told

LOOK_WITHIN_S = 20.0  # the port has a deadline of its own; this one is for a port that hangs
SAID_MAX = 300  # characters of why a cluster does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Silence:
    """The cluster did not answer, and why; ``store`` is what its region's store alone still
    tells."""

    store: ClusterObservation | None
    why: str


class Observer:
    """Looks at one cluster."""

    def __init__(
        self,
        *,
        outpost: Outpost,
        desk: Desk,
        roster: Roster,
        sight: Sight,
        trust: Trust,
        clock: Clock,
    ) -> None:
        self._outpost = outpost
        self._desk = desk
        self._roster = roster
        self._sight = sight
        self._trust = trust
        self._clock = clock
        self.changes = desk.log.feed.subscribe()

    async def tick(self) -> None:
        """Look once. Raises NewerIncarnationError when a newer life of the broker was there."""
        known, began_s = self._trust.known(self._outpost.region), self._clock.now().elapsed_s
        look, doubt = self._believed(await self._look(), known)
        # What the log changed meanwhile is looked through too: it may explain what was seen.
        self._roster.refresh()
        if isinstance(look, ClusterObservation):
            look = without_impostors(look, self._roster.owner_of)
        here = self._roster.on_cluster(self._outpost.cluster)
        news = self.changes.take()
        # After a survey all is told again: the end of a placement was refused until then.
        news = here if BROKER_STREAM in news else news
        names = (here & news) | (here & self._changed(look))
        with putting_back(self.changes, names):
            self._take_in(look, names, doubt, began_s)
            failed = await self._desk.for_each(sorted(names), self._tell)
        # What failed is tried again at the next look.
        self.changes.add(set(failed))

    async def _look(self) -> ClusterObservation | _Silence:
        try:
            async with asyncio.timeout(LOOK_WITHIN_S):
                return believed(await self._outpost.port.observe())
        except ClusterUnreachableError as error:
            store = error.observation
            why = told(str(error), SAID_MAX)
            return _Silence(store=None if store is None else believed(store), why=why)
        except TimeoutError:
            return _Silence(store=None, why=f"no answer within {LOOK_WITHIN_S:.0f} s")

    def _changed(self, look: ClusterObservation | _Silence) -> frozenset[str]:
        """Return the runs that a look shows changed; every one here when it cannot say."""
        everything = self._roster.on_cluster(self._outpost.cluster)
        before = self._sight.cluster(self._outpost.cluster)
        if isinstance(look, ClusterObservation):
            is_back = not before.is_reachable or not before.is_store_readable
            if look.changed is None or is_back:
                return everything
            return frozenset(self._roster.concerned(look.changed))
        if before.is_reachable:
            return everything
        store = look.store
        if store is None or not store.is_store_readable:
            return everything if before.is_store_readable else frozenset()
        keys = {
            key.run_key
            for key in store.epochs.keys() | before.epochs.keys()
            if store.epochs.get(key) != before.epochs.get(key)
        }
        return frozenset(self._roster.concerned(keys))

    def _believed(
        self, look: ClusterObservation | _Silence, known: RegionState
    ) -> tuple[ClusterObservation | _Silence, StoreDoubt | None]:
        """Return a look without what a store says that is not the one which the log knows."""
        seen = look if isinstance(look, ClusterObservation) else look.store
        if seen is None or seen.claims is None:
            return look, None
        match self._trust.judge(known, seen.claims):
            case Superseded() as other:
                raise NewerIncarnationError(other.message)
            case StoreDoubt() as doubt:
                doubted = without_store(seen, doubt.message)
                if isinstance(look, _Silence):
                    return replace(look, store=doubted), doubt
                return doubted, doubt
            case Sound() | Unclaimed():
                return look, None

    def _take_in(
        self,
        look: ClusterObservation | _Silence,
        names: frozenset[str],
        doubt: StoreDoubt | None,
        began_s: float,
    ) -> None:
        now = self._clock.now()
        if isinstance(look, ClusterObservation):
            self._sight.saw(look, now, names, doubt, began_s=began_s)
        else:
            cluster = self._outpost.cluster
            self._sight.heard_nothing(
                cluster, look.store, now, names, doubt, began_s=began_s, why=look.why
            )

    async def _tell(self, name: str) -> None:
        run = self._desk.log.run(name)
        if run is None:
            return
        cluster = self._outpost.cluster
        policy = self._desk.log.region(self._outpost.region).policy
        told = reports(run, cluster, self._sight.cluster(cluster), policy, self._clock.now())
        for command in told:
            await self._desk.tell(name, command)
