"""The pruner: lets go of checkpoints that retention does not keep, and of what was half made.

The rule: the log forgets a checkpoint first, so that nothing resumes from it, and then it is
removed. What a crash leaves in between is found by the sweep: nothing of an epoch that is sealed
counts but what its seal names (B3). Read ``Pruner.tick`` first.
"""

from collections import deque

from broker.history.commands import RecordPruned
from broker.loops.carrier import Carrier
from broker.loops.carrying import to_prune
from broker.loops.content import Content, ContentError, path_of
from broker.loops.desk import Clock, Desk, putting_back
from broker.loops.holding import held
from broker.loops.roster import Roster
from broker.model.run import Run
from replicator.checkpoint.paths import CheckpointPath
from replicator.checkpoint.retention import leftovers
from replicator.checkpoint.scan import FoundCheckpoint, Stage

SWEEP_EVERY_S = 3600.0
GIVEN_UP_S = 3600.0  # a save or copy that nobody wrote to for so long is given up
REMOVALS_KEPT = 10_000


class Pruner:
    """Removes what need not be kept."""

    def __init__(
        self, *, desk: Desk, roster: Roster, content: Content, carrier: Carrier, clock: Clock
    ) -> None:
        self._desk = desk
        self._roster = roster
        self._content = content
        self._carrier = carrier
        self._clock = clock
        self._removals: deque[tuple[str, CheckpointPath]] = deque(maxlen=REMOVALS_KEPT)
        self._to_sweep: deque[tuple[str, str, str]] = deque()
        self._swept_s = clock.now().elapsed_s
        self.changes = desk.log.feed.subscribe()
        self.changes.add(set(roster.names()))

    async def tick(self) -> None:
        """Decide what goes, then remove what was decided."""
        self._roster.refresh()
        changed = self.changes.take()
        names = (changed | self._parents(changed)) & self._roster.with_content
        with putting_back(self.changes, names):
            await self._desk.for_each(sorted(names), self._prune)
        await self._remove()
        await self._sweep()

    @property
    def is_busy(self) -> bool:
        """Whether something is still to be removed or looked through."""
        return bool(self._removals or self._to_sweep)

    def _parents(self, changed: frozenset[str]) -> set[str]:
        """Return the runs that these were forked from: one may need its beginning no longer."""
        runs = (self._desk.log.run(name) for name in changed if "/runs/" in name)
        return {run.forked_from for run in runs if run is not None and run.forked_from}

    async def _prune(self, name: str) -> None:
        run = self._desk.log.run(name)
        if run is None:
            return
        kept = held(run, self._desk.log.run, self._clock.now())
        for ref in to_prune(run, self._carrier.copying, kept):
            regions = next(c.regions for c in run.checkpoints if c.ref == ref)
            if await self._desk.tell(name, RecordPruned(ref=ref)):
                path = path_of(run.uid, ref)
                self._removals.extend((region, path) for region in sorted(regions))

    async def _remove(self) -> None:
        for _ in range(len(self._removals)):
            region, path = self._removals.popleft()
            if region not in self._content.stores or path in self._carrier.copying:
                continue
            try:
                freed_bytes = await self._content.remove(region, path)
            except ContentError:
                continue  # the sweep finds it again
            if freed_bytes is None:
                self._removals.append((region, path))

    async def _sweep(self) -> None:
        """Look through the live runs' epochs now and then, one look a tick."""
        now = self._clock.now()
        if not self._to_sweep and now.since(self._swept_s) >= SWEEP_EVERY_S:
            self._swept_s = now.elapsed_s
            self._to_sweep.extend(self._everything())
        if not self._to_sweep:
            return
        name, region, folder = self._to_sweep.popleft()
        run = self._desk.log.run(name)
        if run is None or region not in self._content.stores:
            return
        kind = run.intent.workload.checkpoint.format
        try:
            found = await self._content.scan(region, run.uid, folder, kind)
        except ContentError:
            return
        if found is None:
            self._to_sweep.appendleft((name, region, folder))
            return
        for path in self._left(run, found):
            self._removals.append((region, path))

    def _everything(self) -> list[tuple[str, str, str]]:
        runs = [self._desk.log.run(name) for name in sorted(self._roster.with_content)]
        return [
            (run.name, region, epoch.id.folder)
            for run in runs
            if run is not None
            for epoch in run.epochs
            if epoch.started_s is not None
            for region in sorted(self._content.stores)
        ]

    def _left(self, run: Run, found: tuple[FoundCheckpoint, ...]) -> list[CheckpointPath]:
        epoch = run.open_epoch
        wall_s = self._clock.now().wall_s
        half = leftovers(
            found,
            in_flight=self._carrier.copying,
            open_epochs=frozenset() if epoch is None else frozenset({epoch.id.folder}),
            now_s=wall_s,
            older_than_s=GIVEN_UP_S,
        )
        counting = {path_of(run.uid, c.ref) for c in run.checkpoints}
        uncounted = [
            one.path
            for one in found
            if one.stage is not Stage.PARTIAL
            and one.path not in counting
            and one.path not in self._carrier.copying
            and (epoch is None or one.path.epoch != epoch.id.folder)
            and wall_s - one.modified_s > GIVEN_UP_S
        ]
        return [*half, *uncounted]
