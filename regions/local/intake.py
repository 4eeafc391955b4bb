"""What comes into a cluster and goes out of it by command: gangs queued, withdrawn, refused.

The rule: a command may be repeated, be late, or mean another object than the one that is here; it
does what it says once, or says why not. A name that was withdrawn is never used again.
Read ``queue`` and ``withdraw`` first.
"""

import re
from collections.abc import Callable

from regions.cluster import Cause, Outcome
from regions.launcher import layout
from regions.local import gangs, quota
from regions.local.config import FlavorConfig, WorldConfig
from regions.local.state import GangSpec, Job, State, WithdrawOrder

MAX_LIVE_JOBS = 1000
"""Each is looked at in every step; a queue of thousands belongs into the broker, not here."""
MAX_RANKS = 256
"""Processes of one gang on one machine."""
MAX_SPEC_BYTES = 256 << 10
"""Command and environment of one process; the kernel's own limit is a little above."""
FULL_RETRY_S = 30.0

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
FULL = Outcome(
    is_done=False,
    cause=Cause.REFUSED,
    message=f"{MAX_LIVE_JOBS} jobs are in this cluster already",
    retry_after_s=FULL_RETRY_S,
)

NewUid = Callable[[], str]


def queue(
    config: WorldConfig, state: State, spec: GangSpec, new_uid: NewUid, now_s: float
) -> Outcome:
    """Put a gang into its queue. The same placement again: nothing happens."""
    if spec.placement in state.names:
        known = state.jobs[state.names[spec.placement]]
        was_never = known.generation == 0 and known.cause is Cause.WITHDRAWN
        return _withdrawn(spec.placement) if was_never else Outcome(is_done=True)
    if spec.placement in state.forgotten:
        return _withdrawn(spec.placement)
    why = problem(config, spec)
    if why:
        return refused(why)
    if is_full(state):
        return FULL
    job = Job(
        uid=new_uid(),
        name=spec.placement,
        run_key=spec.run_key,
        queue=spec.queue,
        flavor=spec.flavor,
        gpus=spec.gpus,
        nodes_wanted=spec.ranks,
        priority=spec.priority,
        turn=state.next_number(),
        queued_s=now_s,
        spec=spec,
        term_grace_s=max(spec.stop_grace_s, notice_s(spec, config.flavor(spec.flavor))),
    )
    why = misfit(config, job)
    if why:
        _set_aside(state, job, why, now_s)
    state.jobs[job.uid] = job
    state.names[job.name] = job.uid
    return Outcome(is_done=True)


def withdraw(state: State, order: WithdrawOrder, new_uid: NewUid, now_s: float) -> Outcome:
    """Remove a placement's object once its members are gone; with no uid also occupy the name.

    Another object of the same name is left alone.
    """
    placement, uid = order.placement, order.uid
    known_uid = state.names.get(placement)
    if known_uid is None:
        if not uid and placement not in state.forgotten:
            return _occupy(state, placement, order.run_key, new_uid=new_uid, now_s=now_s)
        return Outcome(is_done=True, message="it is not here")
    if uid and uid != known_uid:
        message = f"the object of this name is {known_uid}, not {uid}"
        return Outcome(is_done=False, cause=Cause.UNKNOWN, message=message)
    job = state.jobs[known_uid]
    if job.is_recreating:
        job.is_recreating, job.cause, job.message = False, Cause.WITHDRAWN, "withdrawn"
    gangs.stop(job, now_s, Cause.WITHDRAWN, "withdrawn")
    return Outcome(is_done=True)


def problem(config: WorldConfig, spec: GangSpec) -> str:
    """Say why the gang cannot be in this cluster at all, or nothing."""
    home, flavor = config.queue(spec.queue), config.flavor(spec.flavor)
    size = sum(len(part.encode()) for part in spec.command)
    size += sum(len(name) + len(value.encode()) for name, value in spec.env.items())
    text = [*spec.command, *spec.env.values(), spec.run_name]
    has_quota = config.quota(spec.queue, spec.flavor) is not None
    checks = (
        (layout.is_name(spec.placement), "the placement's name cannot be part of a path"),
        (layout.is_name(spec.run_key), "the run's key cannot be part of a path"),
        (home is not None and not home.is_foreign, f"there is no queue {spec.queue!r}"),
        (flavor is not None, f"there is no flavor {spec.flavor!r}"),
        (has_quota, f"queue {spec.queue!r} has no flavor {spec.flavor!r}"),
        (1 <= spec.ranks <= MAX_RANKS, f"a gang has 1 to {MAX_RANKS} ranks"),
        (bool(spec.command), "there is no command"),
        (size <= MAX_SPEC_BYTES, f"command and environment exceed {MAX_SPEC_BYTES} bytes"),
        (all(_ENV_NAME.fullmatch(name) for name in spec.env), "an environment name is not one"),
        (not any("\0" in part for part in text), "a text holds a NUL"),
        (spec.gate_timeout_s > 0 and spec.stop_grace_s >= 0, "a duration is negative"),
    )
    for is_fine, why in checks:
        if not is_fine:
            return why
    return _mismatch(spec, flavor) if flavor is not None else ""


def _mismatch(spec: GangSpec, flavor: FlavorConfig) -> str:
    if spec.accelerator not in ("", flavor.accelerator):
        return f"{flavor.name} has {flavor.accelerator}, not {spec.accelerator}"
    if not 0 <= spec.accelerators_per_node <= flavor.accelerators_per_node:
        return f"a node of {flavor.name} has {flavor.accelerators_per_node} accelerators"
    return ""


def misfit(config: WorldConfig, job: Job) -> str:
    """Say why this cluster can never hold the job, or nothing."""
    flavor = config.flavor(job.flavor)
    most_gpus = quota.most(config, job.queue, job.flavor)
    if job.gpus > most_gpus:
        return f"{job.gpus} GPUs wanted, the quota is {most_gpus}"
    if flavor is not None and job.nodes_wanted > flavor.max_nodes:
        return f"{job.nodes_wanted} nodes wanted, there are {flavor.max_nodes}"
    return ""


def is_full(state: State) -> bool:
    """Whether the cluster takes no further job."""
    return len(state.live_jobs()) >= MAX_LIVE_JOBS


def notice_s(spec: GangSpec, flavor: FlavorConfig | None) -> float:
    """From the SIGTERM that a launcher receives to SIGKILL, in seconds: the flavor's notice, or
    enough for the run's grace where machines are not taken away."""
    own_s = flavor.preemption_notice_s if flavor is not None else 0.0
    return own_s or 2.5 * spec.stop_grace_s


def refused(why: str) -> Outcome:
    """An outcome that trying again does not change."""
    return Outcome(is_done=False, cause=Cause.REFUSED, message=why)


def _set_aside(state: State, job: Job, why: str, now_s: float) -> None:
    job.never_fits, job.cause, job.message = True, Cause.QUOTA_NEVER_FITS, why
    state.signal(
        "QUOTA_REFUSED",
        now_s,
        queue=job.queue,
        flavor=job.flavor,
        source=job.name,
        detail=job.message,
        gpus=job.gpus,
    )


def _occupy(
    state: State, placement: str, run_key: str, *, new_uid: NewUid, now_s: float
) -> Outcome:
    """Leave an ended object of this name, so that a late Queue finds it taken."""
    if not layout.is_name(placement):
        return refused("the placement's name cannot be part of a path")
    job = Job(
        uid=new_uid(),
        name=placement,
        run_key=run_key,
        queue="",
        flavor="",
        gpus=0,
        nodes_wanted=0,
        priority=0,
        turn=state.next_number(),
        queued_s=now_s,
        spec=None,
    )
    gangs.end(job, now_s, Cause.WITHDRAWN, "withdrawn before it was queued")
    state.jobs[job.uid] = job
    state.names[placement] = job.uid
    return Outcome(is_done=True)


def _withdrawn(placement: str) -> Outcome:
    message = f"{placement} was withdrawn; its name stays taken"
    return Outcome(is_done=False, cause=Cause.WITHDRAWN, message=message)
