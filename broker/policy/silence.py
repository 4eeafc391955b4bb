"""What a run is told of a start that nobody hears: that it is so, what comes next, and when.

The rule: law 6 holds for a start as well. A time that passed unheard is followed by another one,
with what keeps it; once its cluster answers again the run reads what is true then. Read
``say_silence`` first.
"""

from broker.history.commands import ExplainWait, RunCommand
from broker.history.prospects import LOOK_AGAIN_S, STOP_HEARD_S, starting, stopping, training
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Epoch, Run, Why
from broker.placement.view import View
from broker.placement.words import duration, listed
from broker.policy.facts import EpochFacts
from broker.policy.failing import start_report_at_s
from broker.policy.regions import goes_on_at_s, may_go_on_without, silent_since_s

RANKS_SHOWN = 5
_SILENT = frozenset({Reason.CLUSTER_SILENT, Reason.CLUSTER_UNREACHABLE})


def say_silence(
    view: View, run: Run, facts: EpochFacts | None, now: Moment
) -> tuple[RunCommand, ...]:
    """Return the sentence that is due about the run's start, if one is."""
    epoch = run.open_epoch
    if epoch is None or (epoch.started_s is None and epoch.stop is None):
        return ()
    since_s = silent_since_s(view, epoch.cluster)
    patience_s = view.region(epoch.region).policy.patience.cluster_silent_s
    if since_s is not None and now.since(since_s) >= patience_s:
        if _is_due(run.why, now):
            return (_explain(_silent(view, epoch, since_s, now)),)
        return ()
    return _heard(view, run, epoch, facts, now)


def say_unread(run: Run, until_s: float) -> tuple[RunCommand, ...]:
    """Return the sentence about a start that is over, and whose store cannot be read."""
    epoch = run.open_epoch
    if epoch is None:
        return ()
    return (
        ExplainWait(
            reason=Reason.STORE_UNREACHABLE,
            message=(
                f"its gang is over, and the store of {epoch.region} does not answer: "
                "what it saved last is waited for"
            ),
            next_action="the run goes on from what is known, or sooner when the store answers",
            next_at_s=until_s,
        ),
    )


def _is_due(why: Why, now: Moment) -> bool:
    return why.reason not in _SILENT or (why.next_at_s or 0.0) <= now.elapsed_s


def _heard(
    view: View, run: Run, epoch: Epoch, facts: EpochFacts | None, now: Moment
) -> tuple[RunCommand, ...]:
    """Say how a start stands whose cluster answers, when the last word is no longer so."""
    was_silent, why = run.why.reason in _SILENT, run.why
    is_late = why.next_at_s is not None and now.since(why.next_at_s) >= STOP_HEARD_S
    if epoch.stop is not None:
        if not was_silent and not is_late:
            return ()
        told = stopping(epoch, f"{epoch.stop.message.rstrip('.')}{_unseen(epoch, facts)}", now)
        # Rarer and rarer: what has lasted long will last as long again.
        wait_s = max(STOP_HEARD_S, now.since(epoch.stop.since_s))
        return (_explain(told, now.elapsed_s + wait_s),)
    if epoch.running_s is not None:
        return (_explain(training(epoch.region, now)),) if was_silent else ()
    report_at_s = start_report_at_s(view, epoch)
    is_same = report_at_s is None or why.next_at_s == report_at_s
    if epoch.drain is not None or (is_same and not was_silent):
        return ()
    return (_explain(starting(epoch.region, report_at_s, now)),)


def _unseen(epoch: Epoch, facts: EpochFacts | None) -> str:
    """Say which ranks were not seen to stop: on a machine that is lost they may run on."""
    if facts is None or facts.epoch != epoch.id or not epoch.nonces:
        return ""
    ended = {end.rank for end in facts.ends}
    ranks = [str(rank) for rank in range(len(epoch.nonces)) if rank not in ended]
    if not ranks:
        return ""
    more = [f"{len(ranks) - RANKS_SHOWN} more"] if len(ranks) > RANKS_SHOWN else []
    several = f"ranks {listed([*ranks[:RANKS_SHOWN], *more])} were"
    who = f"rank {ranks[0]} was" if len(ranks) == 1 else several
    return f"; {who} not seen to stop, and may run on until the machine is gone for good"


def _silent(view: View, epoch: Epoch, since_s: float, now: Moment) -> Why:
    facts = view.clusters[epoch.cluster]
    silent_s = now.since(since_s)
    lost = f"{epoch.cluster} has not answered for {duration(silent_s)}"
    if not facts.is_configured:
        lost = f"{epoch.cluster} is not among the configured clusters, so nobody looks there"
    stands = "its gang is believed to train on"
    if epoch.stop is not None:
        stands = "nobody can say that its gang has stopped"
    action, at_s = _next(view, epoch, facts.is_configured, silent_s, now)
    return Why(
        reason=Reason.CLUSTER_SILENT if facts.is_configured else Reason.CLUSTER_UNREACHABLE,
        message=f"{lost}; {stands}",
        since_s=since_s,
        next_action=action,
        next_at_s=at_s,
    )


def _next(
    view: View, epoch: Epoch, is_configured: bool, silent_s: float, now: Moment
) -> tuple[str, float]:
    who, at_s = may_go_on_without(view, epoch, now), goes_on_at_s(view, epoch)
    if who is not None:
        return f"the run goes on without it, says {who}", now.elapsed_s + STOP_HEARD_S
    says = f"a person says broker replace --epoch {epoch.id.number}"
    if at_s is not None and at_s > now.elapsed_s:
        return f"the run goes on without it, or sooner when {says}", at_s
    back = "it answers" if is_configured else "it is configured again"
    # Rarer and rarer: what has lasted long will last as long again.
    return f"nothing until {back}, or {says}", now.elapsed_s + max(LOOK_AGAIN_S, silent_s)


def _explain(why: Why, at_s: float | None = None) -> ExplainWait:
    return ExplainWait(
        reason=why.reason,
        message=why.message,
        next_action=why.next_action,
        next_at_s=why.next_at_s if at_s is None else at_s,
    )
