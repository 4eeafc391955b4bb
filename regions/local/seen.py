"""From what the daemon's socket and the region's store say to the values of the port.

Read ``placement_seen`` first.
"""

from collections.abc import Mapping

from regions import observing
from regions.capacity import FlavorSeen, QueueSeen, SignalSeen
from regions.cluster import EpochKey, EpochSeen, MemberSeen, PlacementSeen
from regions.gatehouse import RunInStore
from regions.local import wire
from regions.local.state import Signal


def placement_seen(
    job: wire.JobView,
    run: RunInStore | None,
    epochs: Mapping[EpochKey, EpochSeen],
    *,
    now_s: float,
    fresh_s: float,
) -> PlacementSeen:
    """Join an object of the cluster with its gate in the store."""
    gate = observing.at_gate(
        job.placement,
        run,
        epochs,
        ranks=job.world_size,
        alive={member.member for member in job.members if member.is_alive},
        now_s=now_s,
        fresh_s=fresh_s,
    )
    return PlacementSeen(
        placement=job.placement,
        run_key=job.run_key,
        uid=job.uid,
        queue=job.queue,
        flavor=job.flavor,
        stage=job.stage,
        cause=job.cause,
        message=job.message,
        ahead=job.ahead,
        ahead_gpus=job.ahead_gpus,
        nodes_here=job.nodes_here,
        nodes_wanted=job.nodes_wanted,
        members=tuple(member_seen(member) for member in job.members),
        standing=gate.standing,
        is_whole_at_gate=gate.is_whole,
        is_granted=gate.is_granted,
        labels=job.labels,
        eta_s=max(0.0, job.eta_s - now_s) if job.eta_s is not None else None,
        history=tuple((max(0.0, now_s - at_s), count) for at_s, count in job.history),
        first_exit=job.first_exit,
        ends_s=max(0.0, job.ends_s - now_s) if job.ends_s is not None else None,
    )


def member_seen(member: wire.MemberView) -> MemberSeen:
    """Translate one member."""
    return MemberSeen(
        rank=member.rank,
        member=member.member,
        is_alive=member.is_alive,
        exit_code=member.exit_code,
        signal=member.signal,
    )


def queue_seen(queue: wire.QueueView) -> QueueSeen:
    """Translate one queue."""
    return QueueSeen(
        queue=queue.queue,
        is_stopped=queue.is_stopped,
        pending=queue.pending,
        pending_gpus=queue.pending_gpus,
        flavors=tuple(_flavor_seen(flavor) for flavor in queue.flavors),
    )


def _flavor_seen(flavor: wire.FlavorView) -> FlavorSeen:
    return FlavorSeen(
        flavor=flavor.flavor,
        accelerator=flavor.accelerator,
        accelerators_per_node=flavor.accelerators_per_node,
        capacity_type=flavor.capacity_type,
        zones=flavor.zones,
        price_per_gpu_hour=flavor.price_per_gpu_hour,
        nominal=flavor.nominal,
        reserved=flavor.reserved,
        used=flavor.used,
        parked=flavor.parked,
        borrowable=flavor.borrowable,
        nodes_free=flavor.nodes_free,
        nodes_coming=flavor.nodes_coming,
        max_nodes=flavor.max_nodes,
        startup_s=flavor.startup_s,
        preemption_notice_s=flavor.preemption_notice_s,
        eta_s=flavor.eta_s,
        max_run_s=flavor.max_run_s,
    )


def signal_seen(signal: Signal, now_s: float) -> SignalSeen:
    """Translate one signal; its age is as of ``now_s``."""
    return SignalSeen(
        queue=signal.queue,
        flavor=signal.flavor,
        kind=signal.kind,
        age_s=max(0.0, now_s - signal.at_s),
        source=signal.source,
        detail=signal.detail,
        gpus=signal.gpus,
        wait_s=signal.wait_s,
        serial=signal.serial,
    )
