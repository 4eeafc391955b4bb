"""Regions that ops close or that fall silent: who leaves, who is replaced, who is warned.

The rule: a cordon takes no gang from its work; a drain asks each to save and leave. A silent
region's gang trains on, and is replaced only when the policy or a person says so by name (rule d).
"""

from broker.history.commands import (
    RequestDrain,
    RunCommand,
    StopEpoch,
    WarnRun,
    WithdrawPlacement,
)
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Epoch, Placement, Run
from broker.placement.standing import RegionStanding
from broker.placement.view import View
from broker.placement.words import duration

_UNHEARD = frozenset({Reason.CLUSTER_SILENT, Reason.CLUSTER_UNREACHABLE})


def judge_regions(view: View, run: Run, now: Moment) -> tuple[RunCommand, ...]:
    """Return what the regions' standing and silence ask of a run."""
    told: list[RunCommand] = []
    for leg in run.waiting_placements:
        closed = _closed(view.region(leg.site.region)) or _abandoned(view, leg)
        if closed is not None:
            told.append(WithdrawPlacement(placement=leg.id, reason=closed[0], message=closed[1]))
    epoch = run.open_epoch
    if epoch is not None:
        told += _drained(view, epoch) if epoch.stop is None else ()
        told += _silent(view, run, epoch, now)
    return tuple(told)


def may_go_on_without(view: View, epoch: Epoch, now: Moment) -> str | None:
    """Return who says to go on without an unreachable region, by name; None while nobody does.

    A person's word, too, holds only for a region that is silent, and for longer than a moment: one
    that answers can tell its gang to stop, and no zombie is risked.
    """
    at_s = goes_on_at_s(view, epoch)
    if at_s is None or now.elapsed_s < at_s:
        return None
    after_s = view.region(epoch.region).policy.replace_unreachable_after_s
    if epoch.go_on_by or after_s is None:
        return epoch.go_on_by
    return f"the policy of {epoch.region}: replace after {duration(after_s)}"


def goes_on_at_s(view: View, epoch: Epoch) -> float | None:
    """Return when the run goes on without an epoch's region, if it stays silent (broker seconds).

    None: it is not silent, or nobody says so.
    """
    since_s = silent_since_s(view, epoch.cluster)
    if since_s is None:
        return None
    policy = view.region(epoch.region).policy
    by_word_s = policy.patience.cluster_silent_s if epoch.go_on_by else None
    said = [s for s in (by_word_s, policy.replace_unreachable_after_s) if s is not None]
    return since_s + min(said) if said else None


def silent_since_s(view: View, cluster: str) -> float | None:
    """Return since when a cluster or its store does not answer (broker seconds), or None."""
    facts = view.clusters.get(cluster)
    if facts is None or (facts.is_reachable and facts.is_store_reachable):
        return None
    return facts.silent_since_elapsed_s


def _closed(standing: RegionStanding) -> tuple[Reason, str] | None:
    if standing.is_draining:
        return Reason.REGION_DRAINING, f"{standing.region} is being drained{standing.because}"
    if standing.is_cordoned:
        return Reason.REGION_CORDONED, f"{standing.region} was cordoned{standing.because}"
    if not standing.policy.is_allowed:
        return Reason.POLICY_DISALLOWS, f"ops no longer allow {standing.region}"
    return None


def _abandoned(view: View, leg: Placement) -> tuple[Reason, str] | None:
    """Say that nobody looks where a leg waits; it goes when its cluster is configured again."""
    facts = view.clusters.get(leg.site.key.cluster)
    if facts is None or facts.is_configured:
        return None
    where = f"{facts.cluster} was taken out of the configuration"
    return Reason.CLUSTER_UNREACHABLE, f"{where}, so nobody looks after the leg there"


def _drained(view: View, epoch: Epoch) -> tuple[RunCommand, ...]:
    standing = view.region(epoch.region)
    if not standing.is_draining or epoch.drain is not None:
        return ()
    return (
        RequestDrain(
            reason=Reason.REGION_DRAINING,
            message=f"{epoch.region} is being drained{standing.because}",
            grace_s=standing.drain_grace_s,
        ),
    )


def _silent(view: View, run: Run, epoch: Epoch, now: Moment) -> tuple[RunCommand, ...]:
    since_s = silent_since_s(view, epoch.cluster)
    if since_s is None:
        return ()
    policy = view.region(epoch.region).policy
    told: list[RunCommand] = []
    silent_s = now.since(since_s)
    is_said = any(
        warning.reason in _UNHEARD and warning.since_s >= since_s for warning in run.warnings
    )
    if silent_s >= policy.patience.cluster_silent_s and not is_said:
        told.append(_unheard(view, epoch, silent_s))
    who = may_go_on_without(view, epoch, now)
    if who is not None and epoch.stop is None:
        told.append(StopEpoch(reason=Reason.REPLACED_UNREACHABLE, message=f"said by {who}"))
    return tuple(told)


def _unheard(view: View, epoch: Epoch, silent_s: float) -> WarnRun:
    stands = "its gang is believed to train on"
    if epoch.stop is not None:
        stands = "nobody can say that its gang has stopped"
    if view.clusters[epoch.cluster].is_configured:
        lost = f"{epoch.cluster} has not answered for {duration(silent_s)}"
        return WarnRun(reason=Reason.CLUSTER_SILENT, message=f"{lost}; {stands}")
    lost = f"{epoch.cluster} was taken out of the configuration with start {epoch.id.number} open"
    return WarnRun(
        reason=Reason.CLUSTER_UNREACHABLE,
        message=f"{lost}; {stands}: configure it again, or say broker replace",
    )
