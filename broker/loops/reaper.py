"""The reaper: what is over is given back, what is unknown is shown, what is old leaves.

The rule: nothing is removed on a guess (law 10). An object goes when the log knows it and says
that it is over. One that the log does not know is a stranger: shown to people, and left, but where
it carries the log's own mark and a person said to remove it. Before a restored broker has read a
region whole it removes nothing there (R3). Read ``Reaper.tick``.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from broker.history.commands import BeginRetirement, RecordOrphan, RecordOrphanGone
from broker.loops import orders
from broker.loops.answers import Strangers
from broker.loops.content import Content, ContentError
from broker.loops.converger import is_surveyed
from broker.loops.desk import Clock, Desk
from broker.loops.holding import held
from broker.loops.outposts import Outpost, Outposts
from broker.loops.roster import Roster
from broker.loops.sight import ClusterSight, Sight
from broker.model.actor import Actor, ActorKind
from broker.model.moment import Moment
from broker.model.run import CloseRule, Placement, Run
from broker.model.sightings import Orphan
from broker.store.listing import RunPage, RunQuery
from regions.cluster import Action, PlacementSeen, Stage

LEFTOVER_S = 30.0  # what a cluster still shows of an ended placement is mostly on its way out
ASK_AGAIN_S = 30.0
ACT_WITHIN_S = 30.0
ORPHAN_S = 60.0  # a stranger that stands for longer is written down
RETIRE_EVERY_S = 600.0
LEAVE_PER_TICK = 100  # each is a line in the log and some listings
BUNDLES_EVERY_S = 86_400.0
BUNDLE_AGE_S = 86_400.0  # a bundle comes before the submit that names it
DAY_S = 86_400.0
PAGE = 500
_REAPER = Actor(kind=ActorKind.BROKER, name="reaper")

_log = logging.getLogger(__name__)


class Archive(Protocol):
    """What the reaper needs of the ledger beside the usual."""

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Return one page of run names."""
        ...

    async def old_runs(self, before_s: float, skip: int = 0) -> tuple[str, ...]:
        """Return runs that settled before a point of broker time, oldest first, some at a time.

        ``skip`` passes over so many of the oldest.
        """
        ...

    async def retire(self, names: Sequence[str], actor: Actor) -> tuple[str, ...]:
        """Remove settled runs from the log; return which they were."""
        ...

    async def give_back(self) -> None:
        """Give free pages back to the file system."""
        ...


class Reaper:
    """Looks after what is over. ``retention_s`` is how long ended runs are kept, broker seconds."""

    def __init__(
        self,
        *,
        desk: Desk,
        archive: Archive,
        roster: Roster,
        sight: Sight,
        outposts: Outposts,
        content: Content,
        strangers: Strangers,
        retention_s: float,
        clock: Clock,
    ) -> None:
        self._desk = desk
        self._archive = archive
        self._roster = roster
        self._sight = sight
        self._outposts = outposts
        self._content = content
        self._strangers = strangers
        self._retention_s = retention_s
        self._clock = clock
        self._asked: dict[str, float] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._retired_s: float | None = None
        self._passed = 0
        self._dropped_s = clock.now().elapsed_s
        self._needed: frozenset[str] | None = None

    async def tick(self) -> None:
        """Look through every cluster, then through the log's oldest."""
        self._roster.refresh()
        for outpost in self._outposts:
            sight = self._sight.cluster(outpost.cluster)
            if sight.is_reachable and is_surveyed(self._desk.log, outpost.region):
                await self._look_through(outpost, sight)
        await self._retire()
        await self._drop_bundles()

    # ---- Clusters -------------------------------------------------------------------------------

    async def _look_through(self, outpost: Outpost, sight: ClusterSight) -> None:
        now = self._clock.now()
        strangers: list[Orphan] = []
        actions: list[Action] = []
        placements = {} if sight.observation is None else sight.observation.placements
        for seen in placements.values():
            if seen.stage is Stage.ENDED:
                continue
            run = self._owner(seen)
            if run is None:
                strangers.append(self._stranger(outpost, seen, now))
                actions += self._as_told(outpost, sight, seen)
            elif self._is_to_go(run, run.placements[seen.placement], now):
                self._asked[seen.placement] = now.elapsed_s
                actions.append(orders.withdraw(run, run.placements[seen.placement], seen.uid))
        self._asked = {
            placement: at_s for placement, at_s in self._asked.items() if now.since(at_s) < DAY_S
        }
        self._strangers.by_cluster[outpost.cluster] = tuple(strangers)
        await self._write_down(outpost, sight, strangers, now)
        here = {orphan.object for orphan in strangers}
        self._since = {
            key: at_s
            for key, at_s in self._since.items()
            if key[0] != outpost.cluster or key[1] in here
        }
        if actions:
            await self._act(outpost, tuple(actions))

    async def _write_down(
        self, outpost: Outpost, sight: ClusterSight, strangers: Sequence[Orphan], now: Moment
    ) -> None:
        """Say in the region's log which orphans stand there, and which are gone."""
        stream = f"regions/{outpost.region}"
        region = self._desk.log.region(outpost.region)
        here = {orphan.object for orphan in strangers}
        for orphan in strangers:
            is_old = now.wall_s - orphan.since_wall_s >= ORPHAN_S
            if is_old and region.orphan(outpost.cluster, orphan.object) is None:
                await self._desk.tell(
                    stream,
                    RecordOrphan(
                        cluster=outpost.cluster,
                        object=orphan.object,
                        message=orphan.message,
                        is_ours=orphan.is_ours,
                    ),
                )
        for known in region.orphans:
            if known.cluster == outpost.cluster and known.object not in here and sight.is_whole:
                await self._desk.tell(
                    stream, RecordOrphanGone(cluster=known.cluster, object=known.object)
                )

    def _as_told(
        self, outpost: Outpost, sight: ClusterSight, seen: PlacementSeen
    ) -> tuple[Action, ...]:
        """Return how to remove an orphan of ours that a person said to remove."""
        known = self._desk.log.region(outpost.region).orphan(outpost.cluster, seen.placement)
        is_to_go = known is not None and known.is_to_go and self._is_marked(seen)
        if not is_to_go or not sight.is_store_readable:
            return ()
        started = [one for one in sight.epochs.values() if one.placement == seen.placement]
        return orders.remove_orphan(seen, started)

    def _is_marked(self, seen: PlacementSeen) -> bool:
        broker = self._desk.log.broker()
        return bool(broker.key) and seen.labels.get(orders.MARK) == broker.mark

    async def _act(self, outpost: Outpost, actions: tuple[Action, ...]) -> None:
        try:
            async with asyncio.timeout(ACT_WITHIN_S):
                outcomes = await outpost.port.apply(actions)
        except TimeoutError:
            return
        for outcome in outcomes:
            if not outcome.is_done:
                _log.info("%s: not withdrawn: %s", outpost.cluster, outcome.message)

    def _owner(self, seen: PlacementSeen) -> Run | None:
        """Return the run that an object belongs to, as the log knows it; None for a stranger."""
        name = self._roster.by_placement(seen.placement) or seen.labels.get("run", "")
        run = self._desk.log.run(name) if name else None
        is_its = run is not None and run.uid == seen.run_key and seen.placement in run.placements
        return run if is_its else None

    def _is_to_go(self, run: Run, placement: Placement, now: Moment) -> bool:
        """Whether a placement is over in the log, its start too, and was not asked to go lately."""
        if placement.is_live or now.since(placement.entered_s) < LEFTOVER_S:
            return False
        asked_s = self._asked.get(placement.id)
        if asked_s is not None and now.since(asked_s) < ASK_AGAIN_S:
            return False
        epoch = None if placement.epoch is None else run.epoch(placement.epoch)
        return epoch is None or (
            not epoch.is_open
            and (epoch.close_rule is not CloseRule.UNREACHABLE or not epoch.is_owed)
        )

    def _stranger(self, outpost: Outpost, seen: PlacementSeen, now: Moment) -> Orphan:
        key = (outpost.cluster, seen.placement)
        since_s = self._since.setdefault(key, now.wall_s)
        whose = seen.labels.get("run") or (seen.run_key and f"run key {seen.run_key}")
        says = (
            f"it says that it is of {whose}, which this broker's log does not know"
            if whose
            else "it bears a gang's labels, and says of no run that it is its"
        )
        return Orphan(
            cluster=outpost.cluster,
            object=seen.placement,
            message=says,
            since_wall_s=since_s,
            is_ours=self._is_marked(seen),
        )

    # ---- The log --------------------------------------------------------------------------------

    async def _retire(self) -> None:
        """Let ended runs go that are older than the retention, their traces in stores first.

        That they go is written down before anything is removed: nobody resumes what is half gone.
        """
        now = self._clock.now()
        if self._retired_s is not None and now.since(self._retired_s) < RETIRE_EVERY_S:
            return
        before_s = now.elapsed_s - self._retention_s
        if before_s < self._restored_s():
            self._retired_s = now.elapsed_s
            return
        names = await self._archive.old_runs(before_s, self._passed) if before_s > 0 else ()
        runs = [run for name in names if (run := self._desk.log.run(name)) is not None]
        old = [run for run in runs if not (_is_kept(run) or held(run, self._desk.log.run, now))]
        leaving = [run for run in old[:LEAVE_PER_TICK] if await self._is_retiring(run)]
        gone = [run.name for run in leaving if await self._is_purged(run)]
        retired = await self._archive.retire(gone, _REAPER) if gone else ()
        if retired:
            await self._archive.give_back()
        if names and not old:
            # All of them are kept; what comes after them may be to go.
            self._passed += len(names)
        elif len(retired) == 0 and not self._content.looks.is_busy:
            self._retired_s, self._passed = now.elapsed_s, 0

    def _restored_s(self) -> float:
        """Return when a backup was restored, 0 for never.

        A run may have been resumed after it, and the log that forgot that harms nothing: it keeps
        what is over as long as if it had ended at the restore.
        """
        broker = self._desk.log.broker()
        return broker.began.elapsed_s if broker.is_restored and broker.began is not None else 0.0

    async def _is_retiring(self, run: Run) -> bool:
        return run.is_retiring or await self._desk.tell(run.name, BeginRetirement())

    async def _is_purged(self, run: Run) -> bool:
        """Remove what a run left in stores; True when nothing is left and its log may go."""
        is_clean = True
        for region in self._content.stores:
            try:
                is_clean = await self._content.purge(region, run.uid) is not None and is_clean
            except ContentError:
                is_clean = False
        return is_clean

    async def _drop_bundles(self) -> None:
        now = self._clock.now()
        if self._needed is None:
            if now.since(self._dropped_s) < BUNDLES_EVERY_S:
                return
            self._needed = await self._bundles_needed()
        try:
            dropped = await self._content.drop_bundles(self._needed, now.wall_s, BUNDLE_AGE_S)
        except ContentError:
            dropped = 0  # a store that does not answer keeps its bundles for another day
        if dropped is not None:
            self._needed, self._dropped_s = None, now.elapsed_s

    async def _bundles_needed(self) -> frozenset[str]:
        """Return the bundles of every run in the log: one that ended may be resumed."""
        needed: set[str] = set()
        query = RunQuery(page_size=PAGE)
        while True:
            page = await self._archive.list_runs(query)
            runs = (self._desk.log.run(name) for name in page.names)
            needed |= {run.intent.workload.bundle_digest for run in runs if run is not None}
            if page.next_after is None:
                return frozenset(needed)
            query = RunQuery(page_size=PAGE, after=page.next_after)


def _is_kept(run: Run) -> bool:
    """Whether a person pinned or named a checkpoint of it: it is kept, and with it its story."""
    return any(c.is_pinned or c.label for c in run.checkpoints)
