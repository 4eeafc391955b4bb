"""What is known of the open epochs beside the log: when ends were first seen, what a scan found.

The rule: all of it can be lost: it only decides how long something is waited for, and a broker
that starts anew waits anew. Read ``EpochBook.facts`` first.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from broker.history.causes import OWN_ENDS
from broker.history.exits import is_own_failure
from broker.loops.closing import (
    RULES,
    Explained,
    explain,
    failed_unasked,
    is_removed,
    rank_ends,
    weigh,
)
from broker.loops.content import Content, ContentError, Finding
from broker.loops.finder import completed, refusals
from broker.loops.sight import ClusterSight, Sight
from broker.loops.telling import wrong_word_of
from broker.loops.translate import gone_from, machines_of
from broker.model.checkpoint import EpochId
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import CloseRule, Epoch, Run
from broker.placement.view import View
from broker.policy.facts import EpochFacts
from broker.policy.regions import may_go_on_without
from regions.cluster import EpochSeen, PlacementSeen, Stage
from regions.launcher import rules

SCAN_WITHIN_S = 600.0  # a close waits so long for its checkpoints to be described, then goes on
LOST_AFTER_S = 60.0  # a launcher that lives looks at its control every few seconds


@dataclass(slots=True, kw_only=True)
class _Notes:
    """One epoch's times, in broker seconds, and what the last look at its store found."""

    epoch: EpochId
    first_end_s: float | None = None
    failed_s: float | None = None
    has_failed_unasked: bool = False
    absent_since_s: float | None = None
    notice_until_s: float | None = None
    closed_since_s: float | None = None
    finding: Finding | None = None
    beats: dict[str, tuple[int, float]] = field(default_factory=dict)  # by nonce: count, since when


@dataclass(slots=True)
class EpochBook:
    """Notes by run; of one epoch each, for a run has at most one that is open."""

    sight: Sight
    view: View
    content: Content
    _notes: dict[str, _Notes] = field(default_factory=dict)

    def verdict(self, run: Run, epoch: Epoch, now: Moment) -> rules.Verdict:
        """Return how an open or owing epoch stands by the start protocol.

        Whoever acts on it asks this first, so that a failure is noted before a drain is written.
        """
        sight = self.sight.cluster(epoch.cluster)
        if epoch.is_open:
            self._note_failure(run, epoch, sight, now)
        who = None if epoch.is_owed else may_go_on_without(self.view, epoch, now)
        is_lost = epoch.is_open and self._is_lost(run, epoch, sight, now)
        return weigh(run, epoch, sight, is_lost=is_lost, go_on_by=who)

    async def facts(self, run: Run, now: Moment) -> EpochFacts | None:
        """Return the facts of the run's open epoch, as policy reads them.

        None: it has none, or it is over and its checkpoints are still being looked through.
        """
        epoch = run.open_epoch
        if epoch is None:
            self._notes.pop(run.name, None)
            return None
        notes = self._of(run, epoch)
        sight = self.sight.cluster(epoch.cluster)
        seen, placement = sight.epoch(run, epoch), sight.placement(epoch.placement)
        verdict = self.verdict(run, epoch, now)
        closed = RULES[verdict.how] if isinstance(verdict, rules.Closed) else None
        finding = Finding(found=())
        unread_until_s = None
        if closed is None:
            notes.closed_since_s = notes.finding = None  # what it saves from now on counts as well
        elif closed is not CloseRule.NEVER_STARTED:
            until_s = self._unread_until(epoch, notes, now)
            if sight.is_store_readable:
                if not await self._has_looked(run, epoch, notes, now):
                    return None
            elif closed is not CloseRule.UNREACHABLE and now.elapsed_s < until_s:
                # Rule (d) has waited for it already.
                unread_until_s = until_s
            finding = notes.finding or finding
        is_all_over = closed in (CloseRule.SEEN_ENDED, CloseRule.FENCE_HEARD)
        ends = rank_ends(epoch, seen, placement, is_all_over=is_all_over)
        if ends and notes.first_end_s is None:
            notes.first_end_s = now.elapsed_s
        if notes.failed_s is None and any(map(is_own_failure, ends)):
            notes.failed_s = now.elapsed_s
        nodes = (
            ()
            if placement is None
            else machines_of(run.placements[epoch.placement], placement, sight.seen_s)
        )
        explained = explain(epoch, seen, placement)
        if closed is CloseRule.NEVER_STARTED and is_removed(run, epoch, sight):
            explained = Explained(cause=Reason.GANG_NOT_WHOLE, message=gone_from(epoch.region))
        over = {end.rank for end in ends}
        return EpochFacts(
            epoch=epoch.id,
            ends=ends,
            first_end_s=notes.first_end_s,
            failed_s=notes.failed_s,
            has_failed_unasked=notes.has_failed_unasked,
            closed=closed,
            found=completed(epoch, finding),
            refused=refusals(epoch, finding.troubled),
            cause=explained.cause,
            message=explained.message,
            unread_until_s=unread_until_s,
            notice_until_s=self._notice(notes, placement, explained.cause, now),
            nodes=nodes,
            heard=tuple((r, at_s) for r, at_s in _heard(notes, seen, sight, now) if r not in over),
            word=wrong_word_of(placement),
        )

    def forget(self, name: str) -> None:
        """Drop the notes of a run that has ended."""
        self._notes.pop(name, None)

    def _of(self, run: Run, epoch: Epoch) -> _Notes:
        notes = self._notes.get(run.name)
        if notes is None or notes.epoch != epoch.id:
            notes = self._notes[run.name] = _Notes(epoch=epoch.id)
        return notes

    def _note_failure(self, run: Run, epoch: Epoch, sight: ClusterSight, now: Moment) -> None:
        """Note that the command ended by itself, and whether anybody could have told it to."""
        seen, placement = sight.epoch(run, epoch), sight.placement(epoch.placement)
        ends = rank_ends(epoch, seen, placement, is_all_over=False)
        is_said = explain(epoch, seen, placement).cause in OWN_ENDS
        if not is_said and not any(map(is_own_failure, ends)):
            return
        notes = self._of(run, epoch)
        if notes.failed_s is None:
            notes.failed_s = now.elapsed_s
        if sight.is_store_readable and seen is not None and failed_unasked(seen, placement):
            notes.has_failed_unasked = True

    def _is_lost(self, run: Run, epoch: Epoch, sight: ClusterSight, now: Moment) -> bool:
        """Whether its object is gone from its cluster for longer than a fence needs to be heard.

        An object that somebody deleted leaves nobody to see its processes end. Absent from whole
        looks for so long, with the fence in place, it is believed to be gone: who could hear has
        heard.
        """
        notes = self._of(run, epoch)
        if sight.placement(epoch.placement) is not None:
            notes.absent_since_s = None
            return False
        if not sight.is_whole or not run.placements[epoch.placement].was_queued:
            return False
        seen = sight.epoch(run, epoch)
        if seen is None or not seen.is_fence_written:
            return False
        if notes.absent_since_s is None:
            notes.absent_since_s = now.elapsed_s
        return now.since(notes.absent_since_s) >= LOST_AFTER_S

    def _notice(
        self, notes: _Notes, placement: PlacementSeen | None, cause: Reason | None, now: Moment
    ) -> float | None:
        is_noticed = (
            placement is not None
            and cause is Reason.NODE_PREEMPTED
            and placement.stage is not Stage.ENDED
        )
        if is_noticed and placement is not None and notes.notice_until_s is None:
            notes.notice_until_s = now.elapsed_s + (placement.eta_s or 0.0)
        return notes.notice_until_s

    def _unread_until(self, epoch: Epoch, notes: _Notes, now: Moment) -> float:
        """Return until when a close waits for a store that cannot be read.

        A gang saves on while the broker cannot read its store: sealed at once, all of that is lost.
        """
        if notes.closed_since_s is None:
            notes.closed_since_s = now.elapsed_s
        patience = self.view.region(epoch.region).policy.patience
        return notes.closed_since_s + patience.cluster_silent_s

    async def _has_looked(self, run: Run, epoch: Epoch, notes: _Notes, now: Moment) -> bool:
        """Look through the epoch's store before its close; True when that is done or given up."""
        until_s = self._unread_until(epoch, notes, now)
        closed_since_s = now.elapsed_s if notes.closed_since_s is None else notes.closed_since_s
        if notes.finding is not None or now.since(closed_since_s) >= SCAN_WITHIN_S:
            return True
        kind = run.intent.workload.checkpoint.format
        try:
            finding = await self.content.find(
                epoch.region, run.uid, epoch.id, kind, now.elapsed_s, ended_s=closed_since_s
            )
            # What still has to settle is waited for as a store is that is slow.
            notes.finding = None if finding is not None and finding.settling else finding
        except ContentError as error:
            if error.can_retry and now.elapsed_s < until_s:
                return False
            # What the log knows of it by now counts; the rest is not to be had.
            notes.finding = Finding(found=())
        return notes.finding is not None


def _heard(
    notes: _Notes, seen: EpochSeen | None, sight: ClusterSight, now: Moment
) -> Iterator[tuple[int, float]]:
    """Yield when each rank's count was first seen as it is now; none behind a silence."""
    if seen is None or sight.is_silent:
        # Who could not be read is waited for anew.
        notes.beats.clear()
        return
    for report in seen.reports:
        count, at_s = notes.beats.get(report.nonce, (None, now.elapsed_s))
        at_s = at_s if count == report.beat else now.elapsed_s
        notes.beats[report.nonce] = report.beat, at_s
        yield report.rank, at_s
