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
from broker.model.run import Epoch, Run
from broker.placement.standing import RegionStanding
from broker.placement.view import View
from broker.placement.words import duration


def judge_regions(view: View, run: Run, now: Moment) -> tuple[RunCommand, ...]:
    """Return what the regions' standing and silence ask of a run."""
    told: list[RunCommand] = []
    for leg in run.waiting_placements:
        closed = _closed(view.region(leg.site.region))
        if closed is not None:
            told.append(WithdrawPlacement(placement=leg.id, reason=closed[0], message=closed[1]))
    epoch = run.open_epoch
    if epoch is not None and epoch.stop is None:
        told += _drained(view, epoch)
        told += _silent(view, run, epoch, now)
    return tuple(told)


def may_go_on_without(view: View, epoch: Epoch, now: Moment) -> str | None:
    """Return who says to go on without an unreachable region, by name; None while nobody does."""
    after_s = view.region(epoch.region).policy.replace_unreachable_after_s
    since_s = silent_since_s(view, epoch.cluster)
    if after_s is None or since_s is None or now.since(since_s) < after_s:
        return None
    return f"the policy of {epoch.region}: replace after {duration(after_s)}"


def silent_since_s(view: View, cluster: str) -> float | None:
    """Return since when a cluster or its store does not answer (broker seconds), or None."""
    facts = view.clusters.get(cluster)
    if facts is None or (facts.is_reachable and facts.is_store_reachable):
        return None
    return facts.silent_since_elapsed_s


def _closed(standing: RegionStanding) -> tuple[Reason, str] | None:
    if standing.is_draining:
        return Reason.REGION_DRAINING, f"{standing.region} is being drained"
    if standing.is_cordoned:
        return Reason.REGION_CORDONED, f"{standing.region} was cordoned"
    if not standing.policy.is_allowed:
        return Reason.POLICY_DISALLOWS, f"ops no longer allow {standing.region}"
    return None


def _drained(view: View, epoch: Epoch) -> tuple[RunCommand, ...]:
    standing = view.region(epoch.region)
    if not standing.is_draining or epoch.drain is not None:
        return ()
    return (
        RequestDrain(
            reason=Reason.REGION_DRAINING,
            message=f"{epoch.region} is being drained",
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
        warning.reason is Reason.CLUSTER_SILENT and warning.since_s >= since_s
        for warning in run.warnings
    )
    if silent_s >= policy.patience.cluster_silent_s and not is_said:
        told.append(
            WarnRun(
                reason=Reason.CLUSTER_SILENT,
                message=f"{epoch.cluster} has not answered for {duration(silent_s)}; "
                "its gang is believed to train on",
            )
        )
    who = may_go_on_without(view, epoch, now)
    if who is not None:
        told.append(StopEpoch(reason=Reason.REPLACED_UNREACHABLE, message=f"said by {who}"))
    return tuple(told)
