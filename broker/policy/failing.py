"""A gang that started and does not do well: who is told to save, and who to stop.

The rule: silence of a cluster or a store is no evidence against a gang; it trains on, and nothing
here speaks of it. What is judged is what was seen: a rank that ended while others go on, a start
that not every rank reported (B6), a drain whose time is over, training without a step, a save or a
word.
"""

from broker.history.commands import RequestDrain, RunCommand, StopEpoch, WarnRun
from broker.history.exits import by_exits, is_bad
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Epoch, Run
from broker.placement.view import View
from broker.placement.words import duration
from broker.policy.facts import EpochFacts
from broker.policy.verdict import (
    explained_by,
    has_failed_before_its_drain,
    has_failed_first,
    own_failure,
    sentence,
    verdict_at_s,
)

MUTE_S = 30.0
"""A rank that reports every few seconds, and is not heard for so long, is gone or cut off."""
OVERDUE_INTERVALS = 3  # of saving, that may pass without a checkpoint before it is said


def judge_gang(
    view: View, run: Run, facts: EpochFacts | None, now: Moment
) -> tuple[RunCommand, ...]:
    """Return what is to be told to the open epoch's gang."""
    epoch = run.open_epoch
    if epoch is None or epoch.stop is not None:
        return ()
    drain = epoch.drain
    if drain is not None and (drain.is_acked or now.elapsed_s >= drain.deadline_s):
        # Every rank said what it saved and stands by, or the time is over: nothing is gained by
        # holding the machines longer (law 8).
        # The log says it loudly when nobody acknowledged (law 9).
        if facts is not None and has_failed_before_its_drain(epoch, facts):
            # That the others left as they were asked makes its failure nobody else's (law 5).
            reason, message = own_failure(facts)
            return (StopEpoch(reason=reason, message=message),)
        return (StopEpoch(reason=drain.reason, message=drain.message),)
    if facts is not None and facts.epoch == epoch.id and facts.closed is None:
        told = (
            _broken(view, epoch, facts, now)
            or _noticed(epoch, facts, now)
            or _bereft(epoch, facts, now)
        )
        if told:
            return told
    if not is_heard(view, epoch):
        return ()
    heard = () if facts is None or facts.epoch != epoch.id else facts.heard
    return (
        _unreported(view, epoch, now)
        or _hanging(run, epoch, now)
        or _unsaved(run, epoch, now)
        or _unheard(view, run, epoch, heard, now)
    )


def is_heard(view: View, epoch: Epoch) -> bool:
    """Return whether both the cluster and the store of an epoch answer."""
    cluster = view.clusters.get(epoch.cluster)
    return cluster is not None and cluster.is_reachable and cluster.is_store_reachable


def start_report_at_s(view: View, epoch: Epoch) -> float | None:
    """Return by when every rank of a started gang must have reported running (B6)."""
    if epoch.started_s is None or epoch.running_s is not None:
        return None
    return epoch.started_s + view.region(epoch.region).policy.patience.start_report_s


def progress_at_s(run: Run, epoch: Epoch) -> float | None:
    """Return by when the next step must be reported, None when it is never judged."""
    timeout_s = run.intent.workload.progress.timeout_s
    if timeout_s is None or epoch.running_s is None:
        return None
    last = run.progress
    is_of_epoch = last is not None and last.epoch == epoch.id.number
    since_s = max(last.at_s, epoch.running_s) if last and is_of_epoch else epoch.running_s
    return since_s + timeout_s


def _broken(view: View, epoch: Epoch, facts: EpochFacts, now: Moment) -> tuple[RunCommand, ...]:
    """A gang is all or nothing: when a rank is lost the others wait for it for ever."""
    if not any(is_bad(end) for end in facts.ends) or epoch.drain is not None:
        # One that was asked to save has until its deadline, the ranks that are left as well.
        return ()
    cause = explained_by(epoch, facts)
    until_s = verdict_at_s(view, epoch, facts)
    if cause is None and until_s is not None and now.elapsed_s < until_s:
        return ()
    if cause is not None:
        return (StopEpoch(reason=cause, message=facts.message or sentence(epoch, cause)),)
    if has_failed_first(epoch, facts):
        reason, message = own_failure(facts)
    else:
        reason, message = by_exits(facts.ends)
    return (StopEpoch(reason=reason, message=f"{message} while others went on"),)


def _noticed(epoch: Epoch, facts: EpochFacts, now: Moment) -> tuple[RunCommand, ...]:
    """A machine will be taken: what is left of its time is for saving."""
    if facts.notice_until_s is None or epoch.drain is not None:
        return ()
    grace_s = max(0.0, facts.notice_until_s - now.elapsed_s)
    reason = facts.cause or Reason.NODE_PREEMPTED
    message = facts.message or f"a machine in {epoch.region} will be taken back"
    return (RequestDrain(reason=reason, message=message, grace_s=grace_s),)


def _bereft(epoch: Epoch, facts: EpochFacts, now: Moment) -> tuple[RunCommand, ...]:
    """A machine is lost, and nobody sees its process end: its peers wait for it for ever.

    A cluster that could not hear its machines for a while calls them all lost, and they train on:
    while each rank reports to its store, none of them is.
    """
    if facts.cause is not Reason.NODE_LOST or epoch.drain is not None:
        return ()
    if all(now.since(at_s) < MUTE_S for _, at_s in facts.heard):
        return ()
    message = facts.message or sentence(epoch, Reason.NODE_LOST)
    return (StopEpoch(reason=Reason.NODE_LOST, message=message),)


def _unreported(view: View, epoch: Epoch, now: Moment) -> tuple[RunCommand, ...]:
    at_s = start_report_at_s(view, epoch)
    if at_s is None or now.elapsed_s < at_s:
        return ()
    message = f"not every rank reported running within {duration(at_s - (epoch.started_s or 0.0))}"
    return (
        WarnRun(reason=Reason.START_NOT_REPORTED, message=message),
        StopEpoch(reason=Reason.START_NOT_REPORTED, message=message),
    )


def _hanging(run: Run, epoch: Epoch, now: Moment) -> tuple[RunCommand, ...]:
    at_s = progress_at_s(run, epoch)
    if at_s is None or now.elapsed_s < at_s or epoch.drain is not None:
        return ()
    timeout_s = run.intent.workload.progress.timeout_s or 0.0
    message = f"no step was reported for {duration(timeout_s)}"
    return (StopEpoch(reason=Reason.NO_PROGRESS, message=message),)


def _unheard(
    view: View, run: Run, epoch: Epoch, heard: tuple[tuple[int, float], ...], now: Moment
) -> tuple[RunCommand, ...]:
    """A rank is silent whose store is not: nobody but a person can say whether it hangs.

    Said once for each silence. A launcher that cannot reach its store trains on, so nothing else
    is done (L5).
    """
    if epoch.running_s is None:
        return ()
    bound_s = view.region(epoch.region).policy.patience.start_report_s
    quiet = {rank: at_s for rank, at_s in heard if now.since(at_s) >= bound_s}
    if not quiet or _was_said(run, Reason.RANK_UNHEARD, min(quiet.values())):
        return ()
    who = f"rank {min(quiet)}" if len(quiet) == 1 else f"{len(quiet)} ranks, {min(quiet)} first,"
    have = "has" if len(quiet) == 1 else "have"
    message = f"{who} {have} not reported for {duration(now.since(min(quiet.values())))}"
    return (WarnRun(reason=Reason.RANK_UNHEARD, message=message),)


def _was_said(run: Run, reason: Reason, since_s: float) -> bool:
    return any(said.reason is reason and said.since_s > since_s for said in run.warnings)


def _unsaved(run: Run, epoch: Epoch, now: Moment) -> tuple[RunCommand, ...]:
    """Training goes on, and what it would be resumed from grows old: said once for each."""
    interval_s = run.intent.workload.checkpoint.interval_s
    if interval_s is None or epoch.running_s is None or epoch.drain is not None:
        return ()
    own = [c.written_wall_s for c in run.checkpoints if c.ref.epoch == epoch.id]
    age_s = now.since(epoch.running_s)
    if own:
        age_s = min(age_s, now.wall_s - max(own))
    since_s = now.elapsed_s - age_s
    if age_s < OVERDUE_INTERVALS * interval_s:
        return ()
    if _was_said(run, Reason.CHECKPOINT_OVERDUE, since_s):
        return ()
    message = (
        f"no complete checkpoint was seen for {duration(age_s)},"
        f" though it saves every {duration(interval_s)}"
    )
    return (WarnRun(reason=Reason.CHECKPOINT_OVERDUE, message=message),)
