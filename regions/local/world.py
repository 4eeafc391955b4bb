"""What time, commands and faults do to an embedded cluster. Pure: it starts no process.

The rule: ``step`` looks at all there is and can be repeated; what is wanted of processes stands as
orders on members, and the shell carries them out after the state was written. Read ``World.step``
first.
"""

from regions.cluster import Cause, Outcome
from regions.local import faults, gangs, harm, intake, nodes, quota
from regions.local.config import ScheduledFault, WorldConfig
from regions.local.intake import NewUid
from regions.local.state import (
    MAX_FORGOTTEN,
    GangSpec,
    Job,
    Member,
    Phase,
    State,
    WithdrawOrder,
)

MAX_ROUNDS = 5


class World:
    """One embedded cluster: its configuration, its state, and what happens in it.

    ``new_uid`` gives a name that no object of any cluster ever had. ``due_socket_faults`` are
    scheduled faults that the socket has to carry out.
    """

    def __init__(self, config: WorldConfig, state: State, new_uid: NewUid) -> None:
        self.config = config
        self.state = state
        self.due_socket_faults: list[faults.SocketFault] = []
        self._new_uid = new_uid

    def step(self, now_s: float) -> None:
        """Let time do its work, until nothing more follows from what has happened."""
        self._fire_schedule(now_s)
        for _ in range(MAX_ROUNDS):
            before = self._phases()
            nodes.arrive(self.config, self.state, now_s)
            nodes.depart(self.config, self.state, now_s)
            self._end_what_is_over(now_s)
            quota.admit(self.config, self.state, now_s)
            nodes.provide(self.config, self.state, now_s)
            self._stand(now_s)
            if self._phases() == before:
                break
        nodes.note_history(self.state, now_s)
        self._forget(now_s)

    def next_at_s(self) -> float | None:
        """When ``step`` has something to do by itself; None: only when something happens."""
        times = nodes.next_at_s(self.config, self.state)
        for job in self.state.live_jobs():
            if job.kill_at_s is not None and any(one.order != "KILL" for one in job.alive):
                times.append(job.kill_at_s)
            if job.eta_s is not None and (job.spec is None or job.phase is Phase.BOOKED):
                times.append(job.eta_s)
            if job.phase is Phase.BOOKED and job.cause is Cause.WAITING_FOR_FLEX:
                times += [] if job.silent_at_s is None else [job.silent_at_s]
            if job.cause in (Cause.STOCKOUT, Cause.PARTIAL_ARRIVAL):
                times.append(job.signal_again_s)
        for index, planned in enumerate(self.config.schedule):
            due_s = self._due_s(index, planned.at_s, planned.every_s)
            times += [due_s] if due_s is not None else []
        return min(times, default=None)

    def queue(self, spec: GangSpec, now_s: float) -> Outcome:
        """Put a gang into its queue; see ``intake``."""
        return intake.queue(self.config, self.state, spec, self._new_uid, now_s)

    def withdraw(self, order: WithdrawOrder, now_s: float) -> Outcome:
        """Remove a placement's object; see ``intake``."""
        return intake.withdraw(self.state, order, self._new_uid, now_s)

    def inject(self, fault: faults.WorldFault | faults.Restore, now_s: float) -> Outcome:
        """Let something go wrong; see ``harm``."""
        return harm.inject(self.config, self.state, fault, self._new_uid, now_s)

    def exited(
        self, member_id: str, now_s: float, exit_code: int | None, signal: int | None
    ) -> None:
        """Take note that a member is gone with all that it had started."""
        for job in self.state.live_jobs():
            for member in job.members:
                if member.id == member_id:
                    gangs.exited(job, member, now_s, exit_code, signal)

    def could_not_start(self, member_id: str, now_s: float, why: str) -> None:
        """Take note that a member's process could not be made; its gang ends."""
        for job, member in self.members():
            if member.id == member_id:
                member.is_gone = True
                gangs.stop(job, now_s, Cause.WEDGED, f"rank {member.rank} cannot start: {why}")

    def members(self) -> list[tuple[Job, Member]]:
        """Every member that is not gone, with its job."""
        return [(job, member) for job in self.state.live_jobs() for member in job.alive]

    # ---- the parts of a step ----

    def _phases(self) -> list[tuple[str, Phase, int]]:
        return [(uid, job.phase, job.generation) for uid, job in self.state.jobs.items()]

    def _fire_schedule(self, now_s: float) -> None:
        for index, planned in enumerate(self.config.schedule):
            due_s = self._due_s(index, planned.at_s, planned.every_s)
            if due_s is None or due_s > now_s:
                continue
            self.state.fired[index] = self._fired_by(index, planned, now_s)
            if isinstance(planned.fault, faults.Outage | faults.Slow):
                self.due_socket_faults.append(planned.fault)
            else:
                self.inject(planned.fault, now_s)

    def _fired_by(self, index: int, planned: ScheduledFault, now_s: float) -> int:
        """How often it has fired now. What came due while nobody looked is fired once."""
        count = self.state.fired[index] + 1
        if planned.every_s is None:
            return count
        passed_s = now_s - self.state.began_s - planned.at_s
        return max(count, int(passed_s / planned.every_s) + 1)

    def _due_s(self, index: int, at_s: float, every_s: float | None) -> float | None:
        missing = len(self.config.schedule) - len(self.state.fired)
        self.state.fired.extend([0] * missing)
        count = self.state.fired[index]
        if count and every_s is None:
            return None
        return self.state.began_s + at_s + count * (every_s or 0.0)

    def _end_what_is_over(self, now_s: float) -> None:
        for job in self.state.live_jobs():
            if job.spec is None and job.phase is Phase.STANDING and (job.eta_s or 0.0) <= now_s:
                gangs.end(job, now_s, Cause.NONE, "finished")
            gangs.settle(job, now_s)

    def _stand(self, now_s: float) -> None:
        for job in self.state.live_jobs():
            if job.spec is None or job.phase is not Phase.PROVISIONING or not gangs.is_whole(job):
                continue
            job.phase, job.cause, job.eta_s = Phase.STANDING, Cause.NONE, None
            job.message = f"{job.nodes_wanted} of {job.nodes_wanted} processes are up"
            self.state.signal(
                "STARTED",
                now_s,
                queue=job.queue,
                flavor=job.flavor,
                source=job.name,
                gpus=job.gpus,
                wait_s=now_s - job.queued_s,
            )

    def _forget(self, now_s: float) -> None:
        """Drop the oldest ended jobs over the limit; their names stay occupied."""
        ended = [job for job in self.state.jobs.values() if job.phase is Phase.ENDED]
        ended.sort(key=lambda job: job.ended_s or 0.0)
        gone = [job for job in ended if job.spec is None and not self._is_named(job)]
        gone += ended[: max(0, len(ended) - self.config.keep_ended)]
        for job in gone:
            if self.state.jobs.pop(job.uid, None) is not None and self._is_named(job):
                del self.state.names[job.name]
                self.state.forgotten[job.name] = now_s
        while len(self.state.forgotten) > MAX_FORGOTTEN:
            del self.state.forgotten[next(iter(self.state.forgotten))]

    def _is_named(self, job: Job) -> bool:
        return self.state.names.get(job.name) == job.uid
