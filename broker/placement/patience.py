"""How long each cause of a wait is borne, what it is judged to be then, and what follows.

The rule: stuck is judged by evidence, not by one clock. One table, cause by cause; the sentence
that a waiting user reads about what happens next comes from the same row that later acts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from broker.model.capacity import FlavorFacts
from broker.model.policy import RegionPolicy
from broker.model.reasons import Reason
from broker.model.run import Placement, Run
from broker.model.states import PlacementEnd, PlacementState
from broker.placement.view import View

HOLD_MIN_S = 20.0  # a leg elsewhere needs this long to be chosen, queued and seen
# Where a leg has machines of its own; before, it only stands in line.
HOLDING = frozenset({PlacementState.PROVISIONING, PlacementState.AT_GATE})


class Remedy(StrEnum):
    """What follows a wait that was judged stuck."""

    WIDEN = "WIDEN"  # add a leg elsewhere, keep the place in line: it costs nothing
    MOVE = "MOVE"  # add a leg elsewhere, then give back what is held for nothing
    LEAVE = "LEAVE"  # withdraw at once: waiting longer cannot help


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One cause: the patience that it gets, its verdict and its remedy."""

    patience_s: Callable[[RegionPolicy], float]
    cause: Reason
    remedy: Remedy
    next_action: str


def _row(
    patience_s: Callable[[RegionPolicy], float], cause: Reason, remedy: Remedy, words: str = ""
) -> Row:
    usual = {
        Remedy.WIDEN: "a leg in another place is added, this one keeps its place in line",
        Remedy.MOVE: "a leg in another place is added, then this one is given back",
        Remedy.LEAVE: "this leg is withdrawn and another place is tried",
    }
    return Row(
        patience_s=patience_s, cause=cause, remedy=remedy, next_action=words or usual[remedy]
    )


_NODES_ON_THEIR_WAY = frozenset({Reason.NODES_COMING, Reason.WAITING_FOR_CAPACITY})

# By the reason that the cluster gives for a leg's wait.
ROWS: dict[Reason, Row] = {
    Reason.PREPARING_CONTENT: _row(lambda p: p.patience.content_s, Reason.COPY_SLOW, Remedy.WIDEN),
    Reason.REGISTRY_UNREACHABLE: _row(
        lambda p: p.patience.content_s, Reason.REGISTRY_UNREACHABLE, Remedy.WIDEN
    ),
    Reason.IMAGE_NOT_THERE: _row(
        lambda p: p.patience.content_s, Reason.IMAGE_NOT_THERE, Remedy.WIDEN
    ),
    Reason.WAITING_FOR_QUOTA: _row(
        lambda p: p.patience.quota_s, Reason.QUOTA_EXHAUSTED, Remedy.WIDEN
    ),
    Reason.QUEUE_STOPPED: _row(lambda p: p.patience.quota_s, Reason.QUEUE_STOPPED, Remedy.MOVE),
    Reason.QUOTA_TOO_SMALL: _row(lambda p: 0.0, Reason.QUOTA_TOO_SMALL, Remedy.LEAVE),
    Reason.NEVER_FITS: _row(lambda p: 0.0, Reason.NEVER_FITS, Remedy.LEAVE),
    Reason.REFUSED_BY_CLUSTER: _row(lambda p: 0.0, Reason.REFUSED_BY_CLUSTER, Remedy.LEAVE),
    Reason.WAITING_FOR_CAPACITY: _row(
        lambda p: p.patience.capacity_s, Reason.NODES_DO_NOT_COME, Remedy.MOVE
    ),
    Reason.STOCKOUT: _row(lambda p: p.patience.capacity_s, Reason.STOCKOUT, Remedy.MOVE),
    Reason.PARTIAL_ARRIVAL: _row(
        lambda p: p.patience.partial_s, Reason.PARTIAL_ARRIVAL, Remedy.MOVE
    ),
    Reason.NODES_COMING: _row(
        lambda p: p.patience.capacity_s, Reason.NODES_DO_NOT_COME, Remedy.MOVE
    ),
    Reason.WAITING_FOR_FLEX: _row(
        lambda p: p.patience.flex_silent_s, Reason.FLEX_SILENT, Remedy.WIDEN
    ),
    # Its cluster has waited for the request already: the verdict is its own.
    Reason.FLEX_SILENT: _row(lambda p: 0.0, Reason.FLEX_SILENT, Remedy.WIDEN),
    Reason.FLEX_FAILED: _row(lambda p: 0.0, Reason.FLEX_FAILED, Remedy.LEAVE),
    Reason.BOOKING_EXPIRED: _row(lambda p: 0.0, Reason.BOOKING_EXPIRED, Remedy.LEAVE),
    Reason.CAPACITY_REVOKED: _row(lambda p: 0.0, Reason.CAPACITY_REVOKED, Remedy.LEAVE),
    Reason.PODS_STARTING: _row(lambda p: p.patience.pods_s, Reason.GANG_NOT_WHOLE, Remedy.MOVE),
    Reason.GANG_NOT_WHOLE: _row(lambda p: p.patience.pods_s, Reason.GANG_NOT_WHOLE, Remedy.MOVE),
    Reason.IMAGE_PULL_FAILING: _row(
        lambda p: p.patience.image_pull_s, Reason.IMAGE_PULL_FAILING, Remedy.MOVE
    ),
    Reason.NODE_PREEMPTED: _row(
        lambda p: p.patience.capacity_s, Reason.NODE_PREEMPTED, Remedy.MOVE
    ),
    Reason.NODE_LOST: _row(lambda p: p.patience.capacity_s, Reason.NODE_LOST, Remedy.MOVE),
    Reason.CHECK_NOT_RERUN: _row(
        lambda p: p.patience.wedged_s, Reason.CHECK_NOT_RERUN, Remedy.LEAVE
    ),
    Reason.WEDGED: _row(lambda p: p.patience.wedged_s, Reason.WEDGED, Remedy.LEAVE),
    Reason.AT_GATE: _row(
        lambda p: p.gate_timeout_s,
        Reason.GATE_TIMEOUT,
        Remedy.LEAVE,
        "the gang passes the gate as soon as it may, or gives its nodes back",
    ),
    Reason.UNKNOWN: _row(lambda p: p.patience.quota_s, Reason.UNKNOWN, Remedy.WIDEN),
}

_REMEDIES = {row.cause: row.remedy for row in ROWS.values()}
# What a leg can be judged to be, and by what it is withdrawn.
STUCK_CAUSES = frozenset({row.cause for row in ROWS.values()} | {Reason.CLUSTER_SILENT})


def row_for(reason: Reason) -> Row:
    """Return the row of a leg's reason; one without a row of its own is borne like UNKNOWN."""
    return ROWS.get(reason, ROWS[Reason.UNKNOWN])


def remedy_for(cause: Reason) -> Remedy:
    """Return what follows a verdict; a silent cluster can be asked nothing, so it is widened."""
    return _REMEDIES.get(cause, Remedy.WIDEN)


def stuck_at_s(view: View, run: Run, leg: Placement) -> float:
    """Return when a leg's present wait is judged stuck (broker seconds)."""
    policy = view.region(leg.site.region).policy
    at_s = leg.why.since_s + patience_s(
        leg.why.reason, policy, view.flavors.get(leg.site.key), is_back=is_back(run, leg)
    )
    if leg.why.reason is Reason.WAITING_FOR_FLEX and leg.expected_s is not None:
        # A request with a time is not silent before that has passed.
        return max(at_s, leg.expected_s + policy.patience.capacity_s)
    return at_s


def hold_s(view: View, leg: Placement, cause: Reason) -> float:
    """Return how long a leg judged stuck is kept beside its replacement: its patience once more."""
    policy = view.region(leg.site.region).policy
    rows = [row for row in ROWS.values() if row.cause is cause]
    return max([HOLD_MIN_S, *(row.patience_s(policy) for row in rows)])


def is_back(run: Run, leg: Placement) -> bool:
    """Return whether a leg stands where its cluster put the run's last start out."""
    before = [one for one in run.placements.values() if not one.is_live and one.phases.running]
    last = max(before, key=lambda one: one.entered_s, default=None)
    return last is not None and last.site.key == leg.site.key and was_put_out(last)


def was_put_out(leg: Placement) -> bool:
    """Return whether a cluster gave a leg's place to others, or took it back for itself."""
    return leg.end is PlacementEnd.PREEMPTED and leg.why.reason is Reason.EVICTED


def patience_s(
    reason: Reason, policy: RegionPolicy, flavor: FlavorFacts | None, *, is_back: bool
) -> float:
    """Return for how many seconds a wait is borne; ``flavor`` None: it was not seen.

    Nodes get twice the time that they are known to take, when that is more than the policy's
    patience: a slow start is no stockout. Quota that the run had (``is_back``) and others took is
    borne like machines that were taken back: it does not drain in the order of the line.
    """
    usual_s = row_for(reason).patience_s(policy)
    if reason is Reason.WAITING_FOR_QUOTA and is_back:
        return min(usual_s, policy.patience.capacity_s)
    if reason in _NODES_ON_THEIR_WAY and flavor is not None and flavor.startup_s:
        return max(usual_s, 2.0 * flavor.startup_s)
    return usual_s
