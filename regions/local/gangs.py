"""Gangs: members are wanted, stand, are told to go, and are gone.

The rule: no restart in place. Whatever takes one member ends the placement, and a placement has
ended only when its last member was seen gone. Every function here may be called again.
Read ``stop`` and ``settle`` first.
"""

from msgspec.structs import replace

from regions.cluster import Cause
from regions.local.state import Job, Member, Phase


def provision(job: Job) -> None:
    """Let the job wait for its machines."""
    job.phase = Phase.PROVISIONING
    job.cause = Cause.NODES_COMING
    job.eta_s = job.silent_at_s = None
    job.master_port = 0
    job.take_cause = None
    job.first_exit = ""
    job.generation += 1


def place(job: Job, rank: int, node: str) -> Member:
    """Want a process of the present gang on a node; the shell starts it."""
    member = Member(id=f"{job.uid}-{job.generation}-{rank}", rank=rank, node=node)
    job.members.append(member)
    return member


def present(job: Job) -> list[Member]:
    """The members of the present gang: not those of one that was evicted before."""
    prefix = f"{job.uid}-{job.generation}-"
    return [member for member in job.members if member.id.startswith(prefix)]


def is_whole(job: Job) -> bool:
    """Whether every rank's process is up."""
    up = [member for member in present(job) if member.pid and not member.is_gone]
    return len(up) == job.nodes_wanted


def exited(
    job: Job, member: Member, now_s: float, exit_code: int | None, signal: int | None
) -> None:
    """Take note that a member and everything it had started is gone."""
    if member.is_gone:
        return
    member.is_gone = True
    member.exit_code, member.signal = exit_code, signal
    if job.phase not in (Phase.PROVISIONING, Phase.STANDING):
        return
    if exit_code == 0 and job.phase is Phase.STANDING:
        if all(one.is_gone for one in present(job)):
            end(job, now_s, Cause.NONE, "every member finished")
        return
    how = f"signal {signal}" if signal else f"exit code {exit_code}"
    how = "nobody looking" if exit_code is None and signal is None else how
    if job.take_cause is not None:
        stop(job, now_s, job.take_cause, f"{job.message}, and the gang left before")
        return
    job.first_exit = member.id
    stop(job, now_s, Cause.MEMBER_EXITED, f"rank {member.rank} ended with {how}")


def stop(job: Job, now_s: float, cause: Cause, message: str) -> None:
    """Tell every member to go: SIGTERM now, SIGKILL after the gang's grace. The first cause stays,
    for what follows from it explains nothing."""
    if job.phase in (Phase.STOPPING, Phase.ENDED):
        return
    if job.spec is None or not job.alive:
        end(job, now_s, cause, message)
        return
    job.phase, job.cause, job.message, job.eta_s = Phase.STOPPING, cause, message, None
    job.kill_at_s = now_s + job.term_grace_s
    for member in job.alive:
        if member.order == "RUN":
            member.order = "TERM"


def evict(job: Job, now_s: float, message: str) -> None:
    """End the job because its quota goes to somebody else."""
    stop(job, now_s, Cause.EVICTED, message)


def recreate(job: Job) -> None:
    """Kill the gang and start it again with new members on the same object and nodes."""
    job.phase, job.is_recreating = Phase.STOPPING, True
    job.cause, job.message = Cause.EVICTED, "evicted; the cluster creates it again"
    for member in job.alive:
        member.order = "KILL"


def settle(job: Job, now_s: float) -> None:
    """Bring a stopping job to its end once no member is left, and hurry those that are late."""
    if job.phase is not Phase.STOPPING:
        return
    for member in job.alive:
        if member.pid == 0:
            # It was wanted and never started: the state is written before a process is, so there
            # is none.
            member.is_gone = True
        elif job.kill_at_s is not None and now_s >= job.kill_at_s:
            member.order = "KILL"
    if job.alive:
        return
    if job.is_recreating:
        job.is_recreating, job.kill_at_s = False, None
        provision(job)
    else:
        end(job, now_s, job.cause, job.message)


def end(job: Job, now_s: float, cause: Cause, message: str) -> None:
    """Write down that it is over. Only called when no member is left."""
    job.phase, job.cause, job.message = Phase.ENDED, cause, message
    job.ended_s, job.eta_s, job.kill_at_s = now_s, None, None
    if job.spec is not None:
        # It starts nothing any more, and the state is written whole each time.
        job.spec = replace(job.spec, command=(), env={})
