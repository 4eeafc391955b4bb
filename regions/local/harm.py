"""Faults carried out on the world of a cluster.

The rule: a fault that hits nothing says so. Read ``inject`` first.
"""

from typing import assert_never

from regions.cluster import Cause, Outcome
from regions.local import faults, gangs, nodes
from regions.local.config import WorldConfig
from regions.local.intake import FULL, NewUid, is_full, misfit, refused
from regions.local.state import Job, Phase, State

DONE = Outcome(is_done=True)


def inject(
    config: WorldConfig,
    state: State,
    fault: faults.WorldFault | faults.Restore,
    new_uid: NewUid,
    now_s: float,
) -> Outcome:
    """Let something go wrong, or be well again."""
    match fault:
        case faults.Stockout():
            return _limit_stock(config, state, fault.flavor, 0)
        case faults.Partial():
            return _limit_stock(config, state, fault.flavor, fault.nodes)
        case faults.Restore():
            return _restore(state, fault)
        case faults.Hold():
            return _hold(config, state, fault)
        case faults.Preempt():
            return _preempt(config, state, fault, now_s)
        case faults.Fill():
            return _fill(config, state, fault, new_uid, now_s)
        case faults.NodeLost() | faults.Recreate() | faults.Evict():
            return _strike(state, fault, now_s)
        case faults.FlexSilent():
            return _silence(config, state, fault)
        case faults.FlexFails() | faults.FlexExpires() | faults.FlexRevoked():
            return _strike_booking(config, state, fault, now_s)
        case _:
            assert_never(fault)


def _limit_stock(config: WorldConfig, state: State, flavor: str, count: int) -> Outcome:
    if config.flavor(flavor) is None:
        return refused(f"there is no flavor {flavor!r}")
    state.stock[flavor] = count
    return DONE


def _restore(state: State, fault: faults.Restore) -> Outcome:
    for name in list(state.stock):
        if fault.flavor in ("", name):
            del state.stock[name]
    state.silent_flex = [name for name in state.silent_flex if fault.flavor not in ("", name)]
    if not fault.flavor:
        state.held_queues.clear()
    return DONE


def _hold(config: WorldConfig, state: State, fault: faults.Hold) -> Outcome:
    if config.queue(fault.queue) is None:
        return refused(f"there is no queue {fault.queue!r}")
    state.held_queues = [name for name in state.held_queues if name != fault.queue]
    state.held_queues += [fault.queue] if fault.is_held else []
    return DONE


def _preempt(config: WorldConfig, state: State, fault: faults.Preempt, now_s: float) -> Outcome:
    uid = state.names.get(fault.placement, "") if fault.placement else ""
    hit = [
        node
        for node in state.nodes.values()
        if node.holder
        and node.is_ready
        and (node.holder == uid if fault.placement else node.flavor == fault.flavor)
    ][: fault.nodes]
    for node in hit:
        flavor = config.flavor(node.flavor)
        own_s = flavor.preemption_notice_s if flavor is not None else 0.0
        notice_s = own_s if fault.notice_s is None else fault.notice_s
        nodes.take(state, node, now_s, notice_s, Cause.NODE_PREEMPTED)
    return DONE if hit else refused(f"{fault.placement or fault.flavor!r} holds no node")


def _fill(
    config: WorldConfig, state: State, fault: faults.Fill, new_uid: NewUid, now_s: float
) -> Outcome:
    flavor = config.flavor(fault.flavor)
    if flavor is None or config.quota(fault.queue, fault.flavor) is None:
        return refused(f"queue {fault.queue!r} has no flavor {fault.flavor!r}")
    if is_full(state):
        return FULL
    turn = state.next_number()
    job = Job(
        uid=new_uid(),
        name=f"other~{turn}",
        run_key="",
        queue=fault.queue,
        flavor=fault.flavor,
        gpus=fault.gpus,
        nodes_wanted=-(-fault.gpus // flavor.accelerators_per_node),
        priority=fault.priority,
        turn=turn,
        queued_s=now_s,
        spec=None,
        duration_s=fault.duration_s,
    )
    why = misfit(config, job)
    if why:
        # Nobody would ever withdraw it, as the broker does with a gang of its own.
        return refused(why)
    state.jobs[job.uid] = job
    return DONE


def _strike(
    state: State, fault: faults.NodeLost | faults.Recreate | faults.Evict, now_s: float
) -> Outcome:
    """What hits one placement."""
    job = state.jobs.get(state.names.get(fault.placement, ""))
    if job is None or job.phase in (Phase.ENDED, Phase.WAITING, Phase.STOPPING):
        return refused(f"no gang of {fault.placement!r} is here")
    match fault:
        case faults.Recreate():
            gangs.recreate(job)
        case faults.Evict():
            gangs.evict(job, now_s, "evicted for somebody with a better right")
        case faults.NodeLost():
            return _lose(state, job, fault.rank, now_s)
        case _:
            assert_never(fault)
    return DONE


def _silence(config: WorldConfig, state: State, fault: faults.FlexSilent) -> Outcome:
    flavor = config.flavor(fault.flavor)
    if flavor is None or flavor.capacity_type != "FLEX":
        return refused(f"there is no flex flavor {fault.flavor!r}")
    if fault.flavor not in state.silent_flex:
        state.silent_flex.append(fault.flavor)
    return DONE


def _strike_booking(
    config: WorldConfig, state: State, fault: faults.FlexStrike, now_s: float
) -> Outcome:
    """What the cloud does to one request for flex capacity."""
    job = state.jobs.get(state.names.get(fault.placement, ""))
    flavor = None if job is None else config.flavor(job.flavor)
    if job is None or flavor is None or flavor.capacity_type != "FLEX":
        return refused(f"{fault.placement!r} asked for no flex capacity")
    phases, cause, message, kind = _BOOKING_ENDS[type(fault)]
    if job.phase not in phases:
        return refused(f"the request of {fault.placement!r} is not that far, or further")
    gangs.stop(job, now_s, cause, message)
    if kind:
        state.signal(
            kind,
            now_s,
            queue=job.queue,
            flavor=job.flavor,
            source=job.name,
            detail=message,
            gpus=job.gpus,
        )
    return DONE


_BOOKING_ENDS: dict[type[faults.FlexStrike], tuple[tuple[Phase, ...], Cause, str, str]] = {
    faults.FlexFails: (
        (Phase.BOOKED,),
        Cause.FLEX_FAILED,
        "the request for flex capacity failed",
        "STOCKOUT",
    ),
    # The pool had them: that nobody used them says nothing against it.
    faults.FlexExpires: (
        (Phase.BOOKED, Phase.PROVISIONING),
        Cause.BOOKING_EXPIRED,
        "the booking expired before the gang stood",
        "",
    ),
    faults.FlexRevoked: (
        (Phase.BOOKED, Phase.PROVISIONING, Phase.STANDING),
        Cause.CAPACITY_REVOKED,
        "the flex capacity was taken back",
        "PREEMPTED",
    ),
}


def _lose(state: State, job: Job, rank: int, now_s: float) -> Outcome:
    names = [member.node for member in gangs.present(job) if member.rank == rank]
    lost = [state.nodes[name] for name in names if name in state.nodes]
    for node in lost:
        nodes.take(state, node, now_s, 0.0, Cause.NODE_LOST)
    return DONE if lost else refused(f"rank {rank} of {job.name!r} has no node")
