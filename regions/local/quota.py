"""Who may be admitted: quota, first in first out, borrowed and taken back.

The rule: admission counts quota only and knows no machine. Within a queue and a flavor nobody
passes the head, but one that never fits is set aside. A queue that asks for what is its own, while
another has borrowed it, gets it back from the one admitted last. Read ``admit`` first.
"""

from dataclasses import dataclass

from regions.cluster import Cause
from regions.local import gangs
from regions.local.config import QuotaConfig, WorldConfig
from regions.local.state import HOLDS_QUOTA, Job, Phase, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The quota of one flavor in one queue, in GPUs.

    ``pool_left`` is what all queues together leave unreserved.
    """

    nominal: int
    borrowing_limit: int
    reserved: int
    used: int
    pool_left: int

    @property
    def available(self) -> int:
        """What a job could reserve now."""
        own = self.nominal + self.borrowing_limit - self.reserved
        return max(0, min(own, self.pool_left))

    @property
    def borrowable(self) -> int:
        """What may be reserved above ``nominal`` as things are."""
        return max(0, min(self.borrowing_limit, self.reserved + self.pool_left - self.nominal))


def standing(config: WorldConfig, state: State, queue: str, flavor: str) -> Standing:
    """Count the quota of one flavor in one queue."""
    quota = config.quota(queue, flavor) or QuotaConfig(flavor=flavor, nominal=0)
    nominal_all = sum(
        one.nominal for each in config.queues for one in each.quotas if one.flavor == flavor
    )
    reserved = used = reserved_all = 0
    for job in state.jobs.values():
        if job.flavor != flavor or job.phase not in HOLDS_QUOTA:
            continue
        reserved_all += job.gpus
        if job.queue == queue:
            reserved += job.gpus
            used += job.gpus if job.phase is not Phase.BOOKED else 0
    return Standing(
        nominal=quota.nominal,
        borrowing_limit=quota.borrowing_limit,
        reserved=reserved,
        used=used,
        pool_left=nominal_all - reserved_all,
    )


def most(config: WorldConfig, queue: str, flavor: str) -> int:
    """The GPUs that one job could ever reserve there."""
    quota = config.quota(queue, flavor)
    if quota is None:
        return 0
    others = sum(
        one.nominal
        for each in config.queues
        for one in each.quotas
        if one.flavor == flavor and each.name != queue
    )
    return quota.nominal + min(quota.borrowing_limit, others)


def waiting(state: State, queue: str, flavor: str) -> list[Job]:
    """Those who wait there, first first; they that never fit are not among them."""
    found = [
        job
        for job in state.jobs.values()
        if job.phase is Phase.WAITING
        and not job.never_fits
        and job.queue == queue
        and job.flavor == flavor
    ]
    return sorted(found, key=lambda job: (-job.priority, job.turn))


def admit(config: WorldConfig, state: State, now_s: float) -> None:
    """Let in, queue by queue, whoever's turn it is and whom the quota holds."""
    for queue in config.queues:
        for quota in queue.quotas:
            _admit_from(config, state, queue.name, quota.flavor, now_s=now_s)


def _admit_from(
    config: WorldConfig, state: State, queue: str, flavor: str, *, now_s: float
) -> None:
    is_held = queue in state.held_queues
    line = waiting(state, queue, flavor)
    while line and not is_held:
        head = line[0]
        there = standing(config, state, queue, flavor)
        if head.gpus > there.available:
            if there.reserved + head.gpus <= there.nominal:
                _take_back(config, state, flavor, head.gpus - there.pool_left, now_s=now_s)
            break
        _let_in(config, state, head, now_s)
        line.pop(0)
    for job in line:
        job.cause = Cause.QUEUE_STOPPED if is_held else Cause.WAITING_FOR_QUOTA


def _let_in(config: WorldConfig, state: State, job: Job, now_s: float) -> None:
    """Reserve the quota; the machines are another matter."""
    flavor = config.flavor(job.flavor)
    job.admitted_turn = state.next_number()
    job.admitted_s = now_s
    if job.spec is None:
        job.phase = Phase.STANDING
        job.cause = Cause.NONE
        job.eta_s = now_s + (job.duration_s or 0.0)
        return
    if flavor is not None and flavor.capacity_type == "FLEX":
        job.phase = Phase.BOOKED
        job.cause = Cause.WAITING_FOR_FLEX
        job.eta_s = now_s + flavor.flex_wait_s
    else:
        gangs.provision(job)
    state.signal(
        "ADMITTED",
        now_s,
        queue=job.queue,
        flavor=job.flavor,
        source=job.name,
        gpus=job.gpus,
        wait_s=now_s - job.queued_s,
    )


def _take_back(
    config: WorldConfig, state: State, flavor: str, missing: int, *, now_s: float
) -> None:
    """End those who borrowed, the last admitted first, until enough will be free."""
    on_flavor = [
        job for job in state.jobs.values() if job.flavor == flavor and job.phase in HOLDS_QUOTA
    ]
    missing -= sum(job.gpus for job in on_flavor if job.phase is Phase.STOPPING)
    for job in sorted(on_flavor, key=lambda job: -job.admitted_turn):
        if missing <= 0:
            return
        there = standing(config, state, job.queue, flavor)
        if job.phase is Phase.STOPPING or there.reserved <= there.nominal:
            continue
        missing -= job.gpus
        gangs.evict(job, now_s, "the quota it had borrowed was taken back by its owner")
        state.signal(
            "PREEMPTED",
            now_s,
            queue=job.queue,
            flavor=flavor,
            source=job.name,
            detail="borrowed quota was taken back",
            gpus=job.gpus,
        )
