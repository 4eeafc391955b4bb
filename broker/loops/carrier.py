"""The carrier: brings bundles and checkpoints to where starts want them, once they are found.

The rule: a copy counts when it was verified, and is written down then. What a waiting leg needs
goes before what is copied ahead; what is in flight is finished. A copy that fails is loud, and
tried again later. Read ``Carrier.tick`` first.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from broker.history.commands import RecordCopy, RecordLostCopy, WarnRun
from broker.loops.carrying import holders, in_turn, kept_apart, wanted, what_it_holds
from broker.loops.content import Content, ContentError, path_of
from broker.loops.desk import Clock, Desk, putting_back
from broker.loops.doubting import Doubter
from broker.loops.egress import NO_BUDGET_BYTES, Booking, Egress
from broker.loops.finder import Finder
from broker.loops.holdups import Holdups
from broker.loops.later import Later
from broker.loops.pacing import Pacer
from broker.loops.purse import Purse
from broker.loops.roster import Roster
from broker.loops.sight import Sight
from broker.model.checkpoint import Checkpoint, CheckpointRef
from broker.model.copying import CopyKind
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Placement, Run
from broker.model.states import RUN_ENDED, PlacementState
from broker.placement.line import Agenda
from broker.placement.view import View
from broker.store.feed import Changes
from broker.store.listing import RunPage, RunQuery
from replicator.checkpoint.paths import CheckpointPath
from replicator.checkpoint.plan import Budget, Copy, InFlight, Wanted, plan
from replicator.transfers import TransferKey

COPIES_AT_ONCE = 4
OVER_AT_ONCE = 2  # of them for runs that are over: a large one must not hold up who waits
AFTER_END_S = 86_400.0  # how long the last checkpoint of an ended run is tried to be copied
ENDED_AT_START = 1_000  # the newest runs that are looked through for such a copy at a start
ENDED_PER_TICK = 8  # of them: each is read from the log's disk
OVER_PER_TICK = 32  # of those whose copy is still to be made: each may be read from there, too
WISHES_LAST_S = 60.0  # where the next start is likely changes with prices and stockouts
OVER_LASTS_S = 600.0  # of a run that is over: only a region that was closed changes it


class Archive(Protocol):
    """What the carrier needs of the ledger beside the usual."""

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Return one page of run names."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moving:
    """A copy under way, for a run."""

    run: str
    ref: CheckpointRef
    copy: Copy
    booking: Booking


class Carrier:
    """Moves content for all runs."""

    def __init__(
        self,
        *,
        desk: Desk,
        archive: Archive,
        roster: Roster,
        sight: Sight,
        view: View,
        content: Content,
        doubter: Doubter,
        egress: Egress,
        wake: Changes,
        clock: Clock,
    ) -> None:
        """Make a carrier. ``wake`` are the placer's changes: it is told when content has come."""
        self._desk = desk
        self._archive = archive
        self._roster = roster
        self._sight = sight
        self._view = view
        self._content = content
        self._doubter = doubter
        self._egress = egress
        self._wake = wake
        self._clock = clock
        self._pacer = Pacer(desk, view, clock)
        self._moving: dict[TransferKey, _Moving] = {}
        self._later: Later[tuple[str, str]] = Later(clock)
        self._finder = Finder(desk=desk, sight=sight, content=content, clock=clock)
        self._wishes: dict[str, Wanted] = {}
        self._over: dict[str, None] = {}  # of them, the runs that are over, next to look at first
        self._held: dict[str, object] = {}
        self._holdups = Holdups(Purse(egress, view), view, self._later)
        self._wish_again = Agenda()
        self._ended: deque[str] | None = None  # None: not asked for yet
        self.changes = desk.log.feed.subscribe()
        self.changes.add(set(roster.names()))
        sight.subscribe(self.changes)

    async def tick(self) -> None:
        """Collect what has arrived, find new checkpoints, start what is wanted."""
        self._roster.refresh()
        now = self._clock.now()
        left = await self._left_by_former_life()  # before any change is taken: it may fail
        changed = self.changes.take() | self._finder.take_again() | left
        with putting_back(self.changes, changed):
            await self._desk.for_each(sorted(self._roster.preparing), self._bring_bundles)
            await self._finder.look(sorted(changed & self._roster.with_content))
            await self._collect()
            await self._settle_doubts()
            self._wish(changed, now)
        await self._start()

    async def _left_by_former_life(self) -> set[str]:
        """Return some ended runs whose last checkpoint nobody may have copied before the start."""
        if self._ended is None:
            query = RunQuery(states=tuple(sorted(RUN_ENDED)), page_size=ENDED_AT_START)
            self._ended = deque((await self._archive.list_runs(query)).names)
        return {self._ended.popleft() for _ in range(min(ENDED_PER_TICK, len(self._ended)))}

    @property
    def copying(self) -> frozenset[CheckpointPath]:
        """The checkpoints that are being copied: nobody may remove them now."""
        return frozenset(m.copy.candidate.path for m in self._moving.values())

    @property
    def is_busy(self) -> bool:
        """Whether work is under way whose outcome the next tick should collect soon."""
        return bool(self._moving) or self._content.looks.is_busy or self._content.copies.is_busy

    def held_up(self, run: str) -> Mapping[str, str]:
        """Return, by region, why a copy that a run wants there is not made now."""
        return self._holdups.of(run)

    # ---- Bundles --------------------------------------------------------------------------------

    async def _bring_bundles(self, name: str) -> None:
        run = self._desk.log.run(name)
        digest = "" if run is None else run.intent.workload.bundle_digest
        if run is None or not digest:
            return
        for placement in run.live_placements:
            if placement.state is PlacementState.PREPARING and placement.withdraw is None:
                await self._bring_bundle(run, placement, digest)

    async def _bring_bundle(self, run: Run, placement: Placement, digest: str) -> None:
        region = placement.site.region
        here = self._view.bundle_regions.get(digest, frozenset())
        if region in here or region not in self._content.stores:
            return
        if self._later.is_too_soon((region, digest)):
            return
        try:
            is_there = await self._content.bundle_in(region, digest)
        except ContentError as error:
            await self._desk.tell(run.name, *self._later.failed((region, digest), region, error))
            return
        if is_there:
            self._view.apply_bundle(digest, here | {region})
            self._wake.add({run.name})

    # ---- Copies ---------------------------------------------------------------------------------

    async def _collect(self) -> None:
        for key, moving in tuple(self._moving.items()):

            async def ask(_: str, key: TransferKey = key, moving: _Moving = moving) -> None:
                await self._ask(key, moving)

            failed = await self._desk.for_each((moving.run,), ask)
            if failed:
                self._moving.pop(key, None)

    async def _ask(self, key: TransferKey, moving: _Moving) -> None:
        run, copy = self._desk.log.run(moving.run), moving.copy
        path = copy.candidate.path
        if run is None:
            del self._moving[key]
            return
        kind = run.intent.workload.checkpoint.format
        done_bytes = self._content.copied_bytes(copy.destination, path) or 0
        try:
            digest = await self._content.copy(copy.source, copy.destination, path, kind)
        except ContentError as error:
            del self._moving[key]
            # Most that fail send nothing, and are tried again: the next is to have its share.
            moving.booking.sent_bytes = done_bytes
            moving.booking.usd = self._price(copy, done_bytes)
            failed = (copy.destination, str(path))
            await self._desk.tell(run.name, *self._later.failed(failed, copy.destination, error))
            if not error.can_retry:
                # It may be its source that is no longer sound.
                self._doubter.doubt(run, moving.ref, copy.source)
            return
        if digest is None:
            return
        del self._moving[key]
        if digest == moving.ref.digest:
            await self._desk.tell(run.name, self._copied(moving))
            await self._pacer.measured(
                CopyKind.CHECKPOINT,
                copy.source,
                copy.destination,
                sent_bytes=copy.candidate.size_bytes,
                began_s=moving.booking.began_s,
            )
            return
        # The source holds other bytes than those that were sealed: no copy of it is one.
        message = f"step {path.step} in {copy.source} is not what was sealed"
        await self._desk.tell(
            run.name,
            RecordLostCopy(ref=moving.ref, region=copy.source, message=message),
            WarnRun(reason=Reason.COPY_NOT_VERIFIED, message=message),
        )

    def _copied(self, moving: _Moving) -> RecordCopy:
        copy = moving.copy
        return RecordCopy(
            ref=moving.ref,
            region=copy.destination,
            source=copy.source,
            sent_bytes=copy.candidate.size_bytes,
            usd=self._price(copy, copy.candidate.size_bytes),
        )

    def _price(self, copy: Copy, size_bytes: int) -> Decimal:
        return self._view.egress_price(copy.source, copy.destination).of(size_bytes)

    async def _settle_doubts(self) -> None:
        """Say which sources are gone; what was put off on their account is tried from another."""
        lost = {str(path) for path in await self._doubter.look()}
        self._later.forget({key for key in self._later.waiting if key[1] in lost})

    def _wish(self, changed: frozenset[str], now: Moment) -> None:
        due = self._wish_again.due(now.elapsed_s, 256)
        ended = {name for name in changed if name in self._wishes or self._has_ended(name)}
        for name in sorted({*(changed & self._roster.with_content), *ended, *due}):
            run = self._desk.log.run(name)
            holding = None if run is None else what_it_holds(run)
            if name not in due and holding == self._held.get(name):
                continue
            self._held[name] = holding
            wish = None if run is None else self._wish_of(run, now)
            if run is None or wish is None:
                self._wishes.pop(name, None)
                self._over.pop(name, None)
                self._held.pop(name, None)
                self._holdups.forget(name)
                self._wish_again.drop(name)
                continue
            self._wishes[name] = wish
            if run.is_ended:
                self._over.setdefault(name)
            else:
                self._over.pop(name, None)
            lasts_s = OVER_LASTS_S if run.is_ended else WISHES_LAST_S
            self._wish_again.set(name, now.elapsed_s + lasts_s)

    def _has_ended(self, name: str) -> bool:
        run = self._desk.log.run(name) if "/runs/" in name else None
        return run is not None and run.is_ended and bool(run.checkpoints)

    def _wish_of(self, run: Run, now: Moment) -> Wanted | None:
        if run.ended is None:
            return wanted(self._view, run, now)
        # What did not get there in so long does not fit, or nobody can reach it: it stays behind.
        is_late = now.since(run.ended.elapsed_s) >= AFTER_END_S
        return None if is_late else kept_apart(self._view, run, now)

    async def _start(self) -> None:
        """Start the copies that the plan of each source region's budget allows."""
        if not self._wishes:
            return
        reachable = self._readable()
        names = [*self._wishes.keys() - self._over.keys(), *in_turn(self._over, OVER_PER_TICK)]
        runs = [run for name in names if (run := self._desk.log.run(name)) is not None]
        runs.sort(key=lambda run: (-run.terms.priority, run.created.elapsed_s, run.name))
        by_source: dict[str, list[Run]] = {}
        present: dict[CheckpointPath, tuple[str, ...]] = {}
        for run in runs:
            held = holders(run, reachable)
            present.update(held)
            by_source.setdefault(_source_of(self._wishes[run.name], held), []).append(run)
        for source, some in by_source.items():
            if source:
                await self._start_from(source, some, present, reachable)

    async def _start_from(
        self,
        source: str,
        runs: list[Run],
        present: Mapping[CheckpointPath, tuple[str, ...]],
        reachable: frozenset[str],
    ) -> None:
        moving = [m for m in self._moving.values() if m.copy.source == source]
        in_flight = [
            InFlight(
                copy=m.copy,
                remaining_bytes=m.copy.candidate.size_bytes
                - (self._content.copied_bytes(m.copy.destination, m.copy.candidate.path) or 0),
            )
            for m in moving
        ]
        allowed = {run.name: self._allowed(run, source, present, reachable) for run in runs}
        made = plan(
            [allowed[run.name] for run in runs if not run.is_ended],
            present,
            in_flight,
            self._budget(source),
            # Nobody waits for what is over.
            idle=[allowed[run.name] for run in runs if run.is_ended],
            idle_slots=OVER_AT_ONCE - sum(map(self._is_over, self._moving.values())),
        )
        self._holdups.put_off(runs, made.deferred, source)
        if not made.start:
            return
        refs = {path_of(r.uid, c.ref): (r, c) for r in runs for c in r.checkpoints}
        for copy in made.start:
            owner, checkpoint = refs[copy.candidate.path]
            await self._begin(owner, checkpoint, copy)

    async def _begin(self, run: Run, checkpoint: Checkpoint, copy: Copy) -> None:
        usd = self._price(copy, copy.candidate.size_bytes)
        run = self._desk.log.run(run.name) or run  # a copy of the same plan may be over by now
        if not self._holdups.is_paid(run, copy, usd, self._coming(run)):
            return
        key = TransferKey(store=copy.destination, path=str(copy.candidate.path))
        booking = self._egress.book(copy.source, copy.candidate.size_bytes)
        self._egress.charge(booking, run.intent.team, usd)
        moving = _Moving(run=run.name, ref=checkpoint.ref, copy=copy, booking=booking)
        self._moving[key] = moving
        await self._ask(key, moving)

    def _is_over(self, moving: _Moving) -> bool:
        run = self._desk.log.run(moving.run)
        return run is None or run.is_ended

    def _coming(self, run: Run) -> dict[str, Decimal]:
        """Return what the copies of a run cost that are on their way, by where they go."""
        mine = (m for m in self._moving.values() if m.run == run.name)
        return {m.copy.destination: m.booking.usd for m in mine}

    def _allowed(
        self,
        run: Run,
        source: str,
        present: Mapping[CheckpointPath, tuple[str, ...]],
        reachable: frozenset[str],
    ) -> Wanted:
        wish = self._wishes[run.name]
        return self._holdups.allowed(
            run,
            wish,
            source,
            reachable=reachable,
            has_newest=present.get(wish.candidates[0].path, ()),
            coming=self._coming(run),
        )

    def _budget(self, source: str) -> Budget:
        period = self._view.region(source).policy.egress_budget_bytes_per_hour
        period_bytes = NO_BUDGET_BYTES if period is None else period
        in_flight = sum(
            m.copy.candidate.size_bytes for m in self._moving.values() if m.copy.source == source
        )
        # What is in flight was booked when it began, and is counted by the plan once more.
        left = self._egress.left_bytes(source, period) + in_flight
        others = sum(1 for m in self._moving.values() if m.copy.source != source)
        return Budget(
            egress_bytes=max(0, left),
            period_bytes=period_bytes,
            max_parallel=max(0, COPIES_AT_ONCE - others),
        )

    def _readable(self) -> frozenset[str]:
        return frozenset(
            sight.facts.region
            for sight in self._sight.clusters()
            if sight.is_store_readable and sight.facts.region in self._content.stores
        )


def _source_of(wish: Wanted, present: Mapping[CheckpointPath, tuple[str, ...]]) -> str:
    """Return the region that a run's newest readable checkpoint is read from, empty for none."""
    for candidate in wish.candidates:
        regions = present.get(candidate.path, ())
        if regions:
            return regions[0]
    return ""
