"""What a cluster reports, in the broker's nouns, reasons and sentences.

The rule: the words of a cluster's machinery end here. Unknown stays None, and what the broker
cannot name is UNKNOWN with the cluster's own sentence. Pure. Read ``report_of`` first.
"""

from dataclasses import dataclass
from decimal import Decimal

from broker.model.bill import NodesFrom
from broker.model.capacity import (
    ClusterFacts,
    FlavorFacts,
    FlavorKey,
    FreeRoom,
    Signal,
    SignalKind,
)
from broker.model.intent import CapacityType
from broker.model.reasons import FailureClass, Reason
from broker.model.run import Arrival, Placement
from broker.model.states import PlacementEnd, PlacementState
from regions.capacity import FlavorSeen, QueueSeen, RoomSeen, SignalSeen
from regions.cluster import Cause, ClusterObservation, PlacementSeen, Stage
from regions.launcher.words import told

SAME_TIME_S = 0.1  # a time comes out a little different at each look
SENTENCE_MAX = 500  # a cluster's own words, cut before they go into the log

# What a wait in a cluster is called. AT_GATE is not a cause: it is seen in the store.
REASON_OF: dict[Cause, Reason] = {
    Cause.NONE: Reason.UNKNOWN,
    Cause.WAITING_FOR_QUOTA: Reason.WAITING_FOR_QUOTA,
    Cause.QUOTA_NEVER_FITS: Reason.QUOTA_TOO_SMALL,
    Cause.QUEUE_STOPPED: Reason.QUEUE_STOPPED,
    Cause.WAITING_FOR_FLEX: Reason.WAITING_FOR_FLEX,
    Cause.FLEX_SILENT: Reason.FLEX_SILENT,
    Cause.FLEX_FAILED: Reason.FLEX_FAILED,
    Cause.BOOKING_EXPIRED: Reason.BOOKING_EXPIRED,
    Cause.CAPACITY_REVOKED: Reason.CAPACITY_REVOKED,
    Cause.WAITING_FOR_CHECK: Reason.CHECK_NOT_RERUN,
    Cause.NODES_COMING: Reason.NODES_COMING,
    Cause.STOCKOUT: Reason.STOCKOUT,
    Cause.PARTIAL_ARRIVAL: Reason.PARTIAL_ARRIVAL,
    Cause.PODS_STARTING: Reason.PODS_STARTING,
    Cause.IMAGE_PULL_FAILING: Reason.IMAGE_PULL_FAILING,
    Cause.NODE_PREEMPTED: Reason.NODE_PREEMPTED,
    Cause.NODE_LOST: Reason.NODE_LOST,
    Cause.EVICTED: Reason.EVICTED,
    Cause.MEMBER_EXITED: Reason.GANG_NOT_WHOLE,
    Cause.WITHDRAWN: Reason.EVICTED,
    Cause.REFUSED: Reason.REFUSED_BY_CLUSTER,
    Cause.WEDGED: Reason.WEDGED,
    Cause.UNKNOWN: Reason.UNKNOWN,
}

_USUAL = {
    Stage.QUEUED: Reason.WAITING_FOR_QUOTA,
    Stage.PROVISIONING: Reason.NODES_COMING,
    Stage.STANDING: Reason.PODS_STARTING,
    Stage.ENDED: Reason.UNKNOWN,
}

_ENDS = {
    Reason.NODE_PREEMPTED: PlacementEnd.PREEMPTED,
    Reason.CAPACITY_REVOKED: PlacementEnd.PREEMPTED,
    Reason.EVICTED: PlacementEnd.PREEMPTED,
    Reason.NODE_LOST: PlacementEnd.LOST,
    Reason.UNKNOWN: PlacementEnd.LOST,
}

# What a launcher that left its gate exits with; see regions.launcher.exits.
_GATE_EXITS: dict[int | None, tuple[Reason, str]] = {
    80: (Reason.GATE_TIMEOUT, "it stood at the gate as long as it may and gave its nodes back"),
    84: (Reason.BUNDLE_DAMAGED, "the bundle in the region's store is damaged or missing"),
    90: (Reason.COPY_NOT_VERIFIED, "the checkpoint in the region's store is not whole any more"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Where a placement stands, as the log keeps it."""

    state: PlacementState
    reason: Reason
    message: str
    arrival: Arrival


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidEnd:
    """How a placement without an open epoch ended."""

    end: PlacementEnd
    reason: Reason
    message: str


def report_of(placement: Placement, seen: PlacementSeen) -> Said:
    """Say where a placement stands that the cluster still holds."""
    arrival = Arrival(
        ahead=seen.ahead,
        ahead_gpus=seen.ahead_gpus,
        nodes_here=seen.nodes_here,
        nodes_wanted=seen.nodes_wanted,
    )
    if placement.state is PlacementState.RUNNING:
        message = f"Running in {placement.site.region}"
        return Said(
            state=PlacementState.RUNNING, reason=Reason.TRAINING, message=message, arrival=arrival
        )
    if seen.stage is Stage.STANDING and seen.is_whole_at_gate:
        message = f"the whole gang stands at its gate in {placement.site.region}"
        return Said(
            state=PlacementState.AT_GATE, reason=Reason.AT_GATE, message=message, arrival=arrival
        )
    reason = reason_of(seen)
    state = PlacementState.QUEUED if seen.stage is Stage.QUEUED else PlacementState.PROVISIONING
    return Said(state=state, reason=reason, message=_wait(placement, seen, reason), arrival=arrival)


def machines_of(
    placement: Placement | None, seen: PlacementSeen, seen_s: float | None
) -> tuple[NodesFrom, ...]:
    """Say since when a placement has how many machines, where its cluster tells the times.

    ``seen_s`` is when it was seen (broker seconds). Of what is booked already only how many it had
    then is told again; None for the placement is one that the log does not know.
    """
    if seen_s is None:
        return ()
    times = [NodesFrom(at_s=max(0.0, seen_s - age_s), nodes=nodes) for age_s, nodes in seen.history]
    if placement is None:
        return tuple(times)
    booked_s = placement.meter.since_ms / 1000.0
    before = [one for one in times if one.at_s <= booked_s + SAME_TIME_S]
    then = [NodesFrom(at_s=min(one.at_s, booked_s), nodes=one.nodes) for one in before[-1:]]
    return (*then, *times[len(before) :])


def reason_of(seen: PlacementSeen) -> Reason:
    """Return the reason for what the cluster says of a placement."""
    reason = REASON_OF[seen.cause]
    return _USUAL[seen.stage] if reason is Reason.UNKNOWN else reason


def end_of(placement: Placement, seen: PlacementSeen) -> SaidEnd:
    """Say how a placement ended that the cluster holds no member of any more."""
    region = placement.site.region
    if placement.withdraw is not None:
        return SaidEnd(
            end=PlacementEnd.WITHDRAWN if placement.epoch is None else PlacementEnd.REVOKED,
            reason=placement.withdraw.reason,
            message=placement.withdraw.message,
        )
    if seen.cause is Cause.MEMBER_EXITED or seen.cause is Cause.NONE:
        reason, words = end_at_gate(seen)
        message = f"{region}: {words}"
        return SaidEnd(end=PlacementEnd.FAILED, reason=reason, message=message)
    reason = REASON_OF[seen.cause]
    # With a word for it the cluster's sentence says what ours would, and more exactly.
    usual = f"{_LOST_WORDS.get(reason, 'it ended')}{_own_words(seen)}"
    message = f"{region}: {usual if seen.said is None else seen.message[:SENTENCE_MAX]}"
    return SaidEnd(end=_ENDS.get(reason, PlacementEnd.FAILED), reason=reason, message=message)


def end_at_gate(seen: PlacementSeen) -> tuple[Reason, str]:
    """Return why and how a gang ended by itself that had never passed its gate.

    What is wrong with the run itself is wrong everywhere, so it counts as a failure of the run.
    """
    for code in (member.exit_code for member in seen.members):
        if code in _GATE_EXITS:
            return _GATE_EXITS[code]
    wrong = _wrong(seen)
    is_own = seen.said is not None and seen.said.fault == FailureClass.USER.value
    reason = Reason.COMMAND_FAILED if is_own else Reason.GANG_NOT_WHOLE
    return reason, wrong or "one of its processes left the gate"


def vanished(placement: Placement) -> SaidEnd:
    """Say that a placement is not in its cluster any more, and nobody told it to go."""
    if placement.withdraw is not None:
        return SaidEnd(
            end=PlacementEnd.WITHDRAWN if placement.epoch is None else PlacementEnd.REVOKED,
            reason=placement.withdraw.reason,
            message=placement.withdraw.message,
        )
    message = gone_from(placement.site.region)
    return SaidEnd(end=PlacementEnd.LOST, reason=Reason.UNKNOWN, message=message)


def gone_from(region: str) -> str:
    """Say that nothing is left of a gang, and nobody of us removed it."""
    return f"{region}: the cluster holds it no longer and does not say why"


def _wait(placement: Placement, seen: PlacementSeen, reason: Reason) -> str:
    site, wrong = placement.site, _wrong(seen)
    match reason:
        case Reason.WAITING_FOR_QUOTA:
            return f"waiting for quota in {site.region}{_ahead(seen)}"
        case Reason.PARTIAL_ARRIVAL:
            return f"{_nodes(seen)} in {site.region}{_NODE_WORDS[reason]}"
        case _ if wrong:
            return f"{site.region}: {wrong}"
        case Reason.NODES_COMING | Reason.STOCKOUT:
            return f"{_nodes(seen)} in {site.region}{_NODE_WORDS[reason]}"
        case Reason.PODS_STARTING:
            standing = len(seen.standing)
            return f"{standing} of {site.nodes} processes are at the gate in {site.region}"
        case Reason.WAITING_FOR_FLEX:
            # When is told beside it: a sentence that counts down would be news each second.
            return f"booked flex capacity in {site.region} is to come"
        case Reason.QUOTA_TOO_SMALL:
            return f"the quota in {site.region} can never take it{_own_words(seen)}"
        case Reason.QUEUE_STOPPED:
            return f"the queue in {site.region} is stopped by its operators"
        case _:
            words = _LOST_WORDS.get(reason, reason.value.lower().replace("_", " "))
            return f"{site.region}: {words}{_own_words(seen)}"


def _ahead(seen: PlacementSeen) -> str:
    match seen.ahead_gpus:
        case None:
            return ""
        case 0:
            return ", first in line"
        case gpus:
            return f", {gpus} GPUs ahead of you"


def _wrong(seen: PlacementSeen) -> str:
    """Say what is wrong by the cluster's own word for it, empty where it waits as one does."""
    said = seen.said
    if said is None or said.fault == "NONE":
        return ""
    return lowered(told(said.sentence, SENTENCE_MAX))


def lowered(sentence: str) -> str:
    """Return a sentence as it stands within another one."""
    return sentence[:1].lower() + sentence[1:]


def _nodes(seen: PlacementSeen) -> str:
    if seen.nodes_here is None or seen.nodes_wanted is None:
        return "its machines are on their way"
    return f"{seen.nodes_here} of {seen.nodes_wanted} machines are here"


def _own_words(seen: PlacementSeen) -> str:
    return f" ({seen.message[:SENTENCE_MAX]})" if seen.message else ""


_NODE_WORDS = {
    Reason.NODES_COMING: ", the rest are on their way",
    Reason.PARTIAL_ARRIVAL: ", the rest are out of stock",
    Reason.STOCKOUT: ", no more can be bought: out of stock",
}
_LOST_WORDS = {
    Reason.NODE_PREEMPTED: "its machines are taken back",
    Reason.NODE_LOST: "one of its machines was lost",
    Reason.FLEX_SILENT: "flex capacity was asked for, and nothing is heard of it",
    Reason.FLEX_FAILED: "the flex capacity it asked for could not be given",
    Reason.BOOKING_EXPIRED: "its flex capacity came and was given up before it was used",
    Reason.CAPACITY_REVOKED: "its flex capacity was taken back",
    Reason.EVICTED: "its capacity went to somebody else",
    Reason.REFUSED_BY_CLUSTER: "the cluster refused it",
    Reason.WEDGED: "it makes no headway in its cluster",
    Reason.IMAGE_PULL_FAILING: "its image cannot be pulled",
}


# ---- What is known of a cluster -----------------------------------------------------------------


def facts_of(observation: ClusterObservation, seen_s: float) -> ClusterFacts:
    """Return a cluster that answered, as of ``seen_s`` (broker seconds)."""
    return ClusterFacts(
        cluster=observation.cluster,
        region=observation.region,
        is_reachable=True,
        is_store_reachable=observation.is_store_readable,
        seen_elapsed_s=seen_s,
        silent_since_elapsed_s=None,
        flavors=tuple(
            _flavor(observation, queue, flavor)
            for queue in observation.queues
            for flavor in queue.flavors
        ),
        stopped_queues=frozenset(q.queue for q in observation.queues if q.is_stopped),
        blind=observation.blind,
    )


def signal_of(cluster: str, seen: SignalSeen, now_s: float) -> Signal | None:
    """Return a signal on the broker's time, None for a kind that this broker does not know."""
    if seen.kind not in _KINDS:
        return None
    return Signal(
        key=FlavorKey(cluster=cluster, queue=seen.queue, flavor=seen.flavor),
        kind=SignalKind(seen.kind),
        elapsed_s=max(0.0, now_s - seen.age_s),
        source=seen.source,
        detail=seen.detail[:SENTENCE_MAX],
        gpus=seen.gpus,
        wait_s=seen.wait_s,
        chance=seen.chance if seen.chance is not None and 0.0 <= seen.chance <= 1.0 else None,
    )


_KINDS = frozenset(kind.value for kind in SignalKind)


def _flavor(observation: ClusterObservation, queue: QueueSeen, seen: FlavorSeen) -> FlavorFacts:
    price: Decimal | None = seen.price_per_gpu_hour
    return FlavorFacts(
        key=FlavorKey(cluster=observation.cluster, queue=queue.queue, flavor=seen.flavor),
        region=observation.region,
        accelerator=seen.accelerator,
        accelerators_per_node=seen.accelerators_per_node,
        capacity_type=CapacityType(seen.capacity_type),
        zones=seen.zones,
        price_per_gpu_hour=price,
        nominal=seen.nominal,
        reserved=seen.reserved,
        used=seen.used,
        borrowable=seen.borrowable,
        pending_ahead_gpus=queue.pending_gpus,
        pending_ahead=queue.pending,
        nodes_free=seen.nodes_free,
        nodes_coming=seen.nodes_coming,
        max_nodes=seen.max_nodes,
        startup_s=seen.startup_s,
        preemption_notice_s=seen.preemption_notice_s,
        eta_s=seen.eta_s,
        max_run_s=seen.max_run_s,
        keeps_secrets=observation.keeps_secrets,
        free=seen.free,
        most=seen.most,
        room=None if seen.room is None else tuple(_room(each) for each in seen.room),
        cloud_gpus=seen.cloud_gpus,
        not_close=seen.not_close[:SENTENCE_MAX],
    )


def _room(seen: RoomSeen) -> FreeRoom:
    return FreeRoom(
        zone=seen.zone,
        accelerators=seen.accelerators,
        ranks=seen.ranks,
        ranks_close=seen.ranks_close,
    )
