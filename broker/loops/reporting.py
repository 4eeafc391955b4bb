"""What an observation tells the log about one run: facts as commands. Pure.

The rule: only what was positively seen is told, of placements that the log knows and of the
processes that an epoch's owner lists (B4). An absence counts only in a whole observation. A fact
that the log holds already yields nothing there, so telling it again is harmless. Read ``reports``.
"""

from collections.abc import Iterator

from broker.history.charging import last_word
from broker.history.commands import (
    EndPlacement,
    RecordDrainAck,
    RecordProgress,
    RecordRunning,
    RecordStart,
    ReportPlacement,
    RunCommand,
    WarnRun,
)
from broker.history.deciding_placement import is_same_word, knows_times
from broker.history.thinning import progress_every_s
from broker.loops.sight import ClusterSight, furthest
from broker.loops.telling import word_of, wrong_word_of
from broker.loops.translate import SENTENCE_MAX, SaidEnd, end_of, machines_of, report_of, vanished
from broker.model.bill import NodesFrom
from broker.model.capacity_seen import ClusterWord
from broker.model.moment import Moment
from broker.model.policy import RegionPolicy
from broker.model.reasons import FailureClass, Reason
from broker.model.run import Epoch, Placement, Run
from broker.model.states import PlacementState
from broker.placement.patience import is_back, patience_s, row_for
from regions.cluster import EpochSeen, OwnerState, PlacementSeen, Stage
from regions.launcher.words import told

EXITED = "EXITED"
_WITH_ITS_START = "it ends with its start"


def reports(
    run: Run, cluster: str, sight: ClusterSight, policy: RegionPolicy, now: Moment
) -> tuple[RunCommand, ...]:
    """Return what a cluster, as last seen, tells of a run; ``policy`` is its region's."""
    facts: list[RunCommand] = list(_unread(run, cluster, sight))
    epoch = run.open_epoch
    if epoch is not None and epoch.cluster == cluster and sight.is_store_readable:
        seen = sight.epoch(run, epoch)
        if seen is not None:
            facts += _of_epoch(run, epoch, seen, policy, now, nodes=_nodes(run, epoch, sight))
    if not sight.is_reachable:
        return tuple(facts)
    is_starting = any(isinstance(command, RecordStart) for command in facts)
    for placement in run.live_placements:
        if placement.site.key.cluster != cluster:
            continue
        holds = epoch is not None and epoch.placement == placement.id
        if not (holds and is_starting):
            facts += _of_placement(run, placement, sight, policy, holds_epoch=holds)
    return tuple(facts)


def _unread(run: Run, cluster: str, sight: ClusterSight) -> Iterator[RunCommand]:
    """Say aloud that a start waits for a person: what cannot be read is acted on by nobody."""
    epoch, seen = run.open_epoch, sight.observation
    if seen is None or not sight.is_reachable or not sight.is_store_readable:
        return
    why = seen.unread.get(run.uid, "")
    if not why and epoch is not None and epoch.cluster == cluster:
        in_store = sight.epoch(run, epoch)
        is_garbled = in_store is not None and in_store.owner is OwnerState.UNREADABLE
        why = f"the owner record of epoch {epoch.id.number} is none" if is_garbled else ""
    if why:
        message = f"the store of {seen.region} holds what cannot be read: {why}"
        yield WarnRun(reason=Reason.STORE_UNREACHABLE, message=told(message, SENTENCE_MAX))


def _nodes(run: Run, epoch: Epoch, sight: ClusterSight) -> tuple[NodesFrom, ...]:
    """Return since when an epoch's gang has its machines; empty while its cluster is silent."""
    seen = sight.placement(epoch.placement) if sight.is_reachable else None
    if seen is None:
        return ()
    return machines_of(run.placements[epoch.placement], seen, sight.seen_s)


def _of_epoch(
    run: Run,
    epoch: Epoch,
    seen: EpochSeen,
    policy: RegionPolicy,
    now: Moment,
    *,
    nodes: tuple[NodesFrom, ...],
) -> Iterator[RunCommand]:
    if seen.owner is not OwnerState.STARTED:
        return
    if epoch.started_s is None:
        yield RecordStart(
            epoch=epoch.id,
            nonces=seen.nonces,
            report_within_s=policy.patience.start_report_s,
            nodes=nodes,
        )
    if epoch.running_s is None and is_running(seen):
        yield RecordRunning(epoch=epoch.id)
    yield from _progress(run, epoch, seen, now)
    yield from _trouble(run, seen)
    if epoch.drain is not None and not epoch.drain.is_acked:
        yield from _drain_ack(epoch, seen)


def is_running(seen: EpochSeen) -> bool:
    """Return whether every listed rank reported that its command runs, or ran."""
    running = {report.rank for report in seen.reports if report.is_running}
    running |= {end.rank for end in seen.ends if end.kind == EXITED}
    return bool(seen.nonces) and running.issuperset(range(len(seen.nonces)))


def _progress(run: Run, epoch: Epoch, seen: EpochSeen, now: Moment) -> Iterator[RunCommand]:
    report = furthest(seen.reports)
    if report is None or report.step is None:
        return
    last, is_last = run.progress, len(seen.ends) == len(seen.nonces)
    if last is not None and last.epoch == epoch.id.number:
        if report.step <= last.step:
            return
        if now.since(last.at_s) < progress_every_s(run, now) and not is_last:
            return
    yield RecordProgress(epoch=epoch.id, step=report.step, loss=report.loss, is_last=is_last)


def _trouble(run: Run, seen: EpochSeen) -> Iterator[RunCommand]:
    """Say what the training itself says that it cannot save: once, whichever ranks say it."""
    troubled = [report for report in seen.reports if report.trouble]
    if not troubled:
        return
    first = min(troubled, key=lambda report: report.rank)
    reason, trouble = Reason.CHECKPOINT_NOT_SAVED, told(first.trouble, SENTENCE_MAX)
    if not any(w.reason is reason and w.message.startswith(trouble) for w in run.warnings):
        yield WarnRun(reason=reason, message=f"{trouble} (rank {first.rank})")


def _drain_ack(epoch: Epoch, seen: EpochSeen) -> Iterator[RunCommand]:
    """A gang has answered when each rank that still runs has; the least that they saved counts."""
    over = {end.rank for end in seen.ends} | seen.gone
    acked = {report.rank: report for report in seen.reports if report.is_drain_acked}
    if acked and all(rank in acked or rank in over for rank in range(len(seen.nonces))):
        steps = [report.drain_step for report in acked.values() if report.drain_step is not None]
        yield RecordDrainAck(epoch=epoch.id, step=min(steps, default=None))


def _of_placement(
    run: Run, placement: Placement, sight: ClusterSight, policy: RegionPolicy, *, holds_epoch: bool
) -> Iterator[RunCommand]:
    seen = sight.placement(placement.id)
    if seen is None:
        # What was never seen may be a queueing on its way; that it is not here says nothing yet.
        if sight.is_whole and placement.was_queued and not holds_epoch:
            yield _ended(placement, vanished(placement), (), None)
        return
    if seen.stage is Stage.ENDED:
        # With an open epoch it is the start protocol that says when it is over.
        if not holds_epoch:
            nodes = machines_of(placement, seen, sight.seen_s)
            yield _ended(placement, end_of(placement, seen), nodes, wrong_word_of(seen))
        return
    if seen.warning:
        message = told(f"{placement.site.region}: {seen.warning}", SENTENCE_MAX)
        if not any(said.message == message for said in run.warnings):
            yield WarnRun(reason=Reason.REFUSED_BY_CLUSTER, message=message)
    report = _report(run, placement, seen, sight, policy)
    if not _is_known(placement, report):
        yield report


def _is_known(placement: Placement, report: ReportPlacement) -> bool:
    """Whether the log says just that already, so that it need not be asked."""
    is_same = placement.was_queued and placement.state is report.state
    if not is_same or not knows_times(placement, report):
        return False
    if not is_same_word(placement.word, report.word):
        return False
    return (
        placement.why.reason,
        placement.why.message,
        placement.arrival,
        placement.cluster_uid,
    ) == (report.reason, report.message, report.arrival, report.cluster_uid)


def _report(
    run: Run, placement: Placement, seen: PlacementSeen, sight: ClusterSight, policy: RegionPolicy
) -> ReportPlacement:
    said, is_again = report_of(placement, seen), is_back(run, placement)
    flavors = (f for f in sight.facts.flavors if f.key == placement.site.key)
    is_running = placement.state is PlacementState.RUNNING
    return ReportPlacement(
        placement=placement.id,
        state=said.state,
        reason=said.reason,
        message=said.message,
        arrival=said.arrival,
        cluster_uid=seen.uid,
        next_action=_WITH_ITS_START if is_running else row_for(said.reason).next_action,
        patience_s=patience_s(said.reason, policy, next(flavors, None), is_back=is_again),
        nodes=machines_of(placement, seen, sight.seen_s),
        expected_s=_at_s(seen.eta_s, sight) if said.reason is Reason.WAITING_FOR_FLEX else None,
        machines_end_s=_at_s(seen.ends_s, sight),
        word=last_word(run, placement, None if is_running else _for_the_user(seen)),
    )


def _for_the_user(seen: PlacementSeen) -> ClusterWord | None:
    """Return the word for what keeps a gang from its start and only its user can mend."""
    word = word_of(seen)
    return word if word is not None and word.failure is FailureClass.USER else None


def _at_s(in_s: float | None, sight: ClusterSight) -> float | None:
    """Return a time to come on the broker's axis."""
    return None if in_s is None or sight.seen_s is None else sight.seen_s + in_s


def _ended(
    placement: Placement, said: SaidEnd, nodes: tuple[NodesFrom, ...], word: ClusterWord | None
) -> EndPlacement:
    return EndPlacement(
        placement=placement.id,
        end=said.end,
        reason=said.reason,
        message=said.message,
        nodes=nodes,
        word=word,
    )
