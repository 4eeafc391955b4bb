"""What time, commands and faults do to an embedded cluster. Pure: it starts no process.

The rule: ``step`` looks at all there is and can be repeated; what is wanted of processes stands as
orders on members, and the shell carries them out after the state was written. Read ``World.step``
first.
"""

import re
from collections.abc import Callable
from typing import assert_never

from regions.cluster import Cause, Outcome
from regions.launcher import layout
from regions.local import faults, gangs, nodes, quota
from regions.local.config import FlavorConfig, WorldConfig
from regions.local.state import MAX_FORGOTTEN, GangSpec, Job, Member, Phase, State

MAX_LIVE_JOBS = 1000
"""Each is looked at in every step; a queue of thousands belongs into the broker, not here."""
MAX_RANKS = 256
"""Processes of one gang on one machine."""
MAX_SPEC_BYTES = 256 << 10
"""Command and environment of one process; the kernel's own limit is a little above."""
MAX_ROUNDS = 5
FULL_RETRY_S = 30.0

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


_FULL = Outcome(
    is_done=False,
    cause=Cause.REFUSED,
    message=f"{MAX_LIVE_JOBS} jobs are in this cluster already",
    retry_after_s=FULL_RETRY_S,
)


class World:
    """One embedded cluster: its configuration, its state, and what happens in it.

    ``new_uid`` gives a name that no object of any cluster ever had. ``due_socket_faults`` are
    scheduled faults that the socket has to carry out.
    """

    def __init__(self, config: WorldConfig, state: State, new_uid: Callable[[], str]) -> None:
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
        self._forget(now_s)

    def next_at_s(self) -> float | None:
        """When ``step`` has something to do by itself; None: only when something happens."""
        times = nodes.next_at_s(self.config, self.state)
        for job in self.state.live_jobs():
            if job.kill_at_s is not None and any(one.order != "KILL" for one in job.alive):
                times.append(job.kill_at_s)
            if job.eta_s is not None and (job.spec is None or job.phase is Phase.BOOKED):
                times.append(job.eta_s)
            if job.cause in (Cause.STOCKOUT, Cause.PARTIAL_ARRIVAL):
                times.append(job.signal_again_s)
        for index, planned in enumerate(self.config.schedule):
            due_s = self._due_s(index, planned.at_s, planned.every_s)
            times += [due_s] if due_s is not None else []
        return min(times, default=None)

    def queue(self, spec: GangSpec, now_s: float) -> Outcome:
        """Put a gang into its queue. The same placement again: nothing happens."""
        if spec.placement in self.state.names:
            known = self.state.jobs[self.state.names[spec.placement]]
            is_withdrawn = known.generation == 0 and known.cause is Cause.WITHDRAWN
            return _withdrawn(spec.placement) if is_withdrawn else Outcome(is_done=True)
        if spec.placement in self.state.forgotten:
            return _withdrawn(spec.placement)
        problem = self._problem(spec)
        if problem:
            return Outcome(is_done=False, cause=Cause.REFUSED, message=problem)
        if self._is_full():
            return _FULL
        flavor = self.config.flavor(spec.flavor)
        job = Job(
            uid=self._new_uid(),
            name=spec.placement,
            queue=spec.queue,
            flavor=spec.flavor,
            gpus=spec.gpus,
            nodes_wanted=spec.ranks,
            priority=spec.priority,
            turn=self.state.next_number(),
            queued_s=now_s,
            spec=spec,
            term_grace_s=max(spec.stop_grace_s, notice_s(spec, flavor)),
        )
        misfit = self._misfit(job)
        if misfit:
            self._set_aside(job, misfit, now_s)
        self._add(job)
        return Outcome(is_done=True)

    def withdraw(self, placement: str, uid: str, now_s: float) -> Outcome:
        """Remove a placement's object once its members are gone; with no uid also occupy the
        name. Another object of the same name is left alone."""
        known_uid = self.state.names.get(placement)
        if known_uid is None:
            if not uid and placement not in self.state.forgotten:
                self._occupy(placement, now_s)
            return Outcome(is_done=True, message="it is not here")
        if uid and uid != known_uid:
            message = f"the object of this name is {known_uid}, not {uid}"
            return Outcome(is_done=False, cause=Cause.UNKNOWN, message=message)
        job = self.state.jobs[known_uid]
        job.is_recreating = False
        gangs.stop(job, now_s, Cause.WITHDRAWN, "withdrawn")
        return Outcome(is_done=True)

    def inject(self, fault: faults.WorldFault | faults.Restore, now_s: float) -> Outcome:
        """Let something go wrong."""
        state = self.state
        match fault:
            case faults.Stockout():
                state.stock[fault.flavor] = 0
            case faults.Partial():
                state.stock[fault.flavor] = fault.nodes
            case faults.Restore():
                for name in list(state.stock):
                    if fault.flavor in ("", name):
                        del state.stock[name]
                state.held_queues.clear()
            case faults.Hold():
                state.held_queues = [name for name in state.held_queues if name != fault.queue]
                state.held_queues += [fault.queue] if fault.is_held else []
            case faults.Preempt():
                self._preempt(fault, now_s)
            case faults.Fill():
                return self._fill(fault, now_s)
            case faults.NodeLost() | faults.Recreate() | faults.Evict():
                return self._strike(fault, now_s)
            case _:
                assert_never(fault)
        return Outcome(is_done=True)

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
            self.state.fired[index] += 1
            if isinstance(planned.fault, faults.Outage | faults.Slow):
                self.due_socket_faults.append(planned.fault)
            else:
                self.inject(planned.fault, now_s)

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

    # ---- commands and faults ----

    def _is_full(self) -> bool:
        return len(self.state.live_jobs()) >= MAX_LIVE_JOBS

    def _add(self, job: Job) -> None:
        self.state.jobs[job.uid] = job
        self.state.names[job.name] = job.uid

    def _occupy(self, placement: str, now_s: float) -> None:
        """Leave an ended object of this name, so that a late Queue finds it taken."""
        job = Job(
            uid=self._new_uid(),
            name=placement,
            queue="",
            flavor="",
            gpus=0,
            nodes_wanted=0,
            priority=0,
            turn=self.state.next_number(),
            queued_s=now_s,
            spec=None,
        )
        gangs.end(job, now_s, Cause.WITHDRAWN, "withdrawn before it was queued")
        self._add(job)

    def _problem(self, spec: GangSpec) -> str:
        """Say why the gang cannot be in this cluster at all, or nothing."""
        queue, flavor = self.config.queue(spec.queue), self.config.flavor(spec.flavor)
        size = sum(len(part.encode()) for part in spec.command)
        size += sum(len(name) + len(value.encode()) for name, value in spec.env.items())
        text = [*spec.command, *spec.env.values(), spec.run_name]
        checks = (
            (layout.is_name(spec.placement), "the placement's name cannot be part of a path"),
            (layout.is_name(spec.run_key), "the run's key cannot be part of a path"),
            (queue is not None and not queue.is_foreign, f"there is no queue {spec.queue!r}"),
            (flavor is not None, f"there is no flavor {spec.flavor!r}"),
            (
                self.config.quota(spec.queue, spec.flavor) is not None,
                "the queue has no such flavor",
            ),
            (1 <= spec.ranks <= MAX_RANKS, f"a gang has 1 to {MAX_RANKS} ranks"),
            (bool(spec.command), "there is no command"),
            (size <= MAX_SPEC_BYTES, f"command and environment exceed {MAX_SPEC_BYTES} bytes"),
            (all(_ENV_NAME.fullmatch(name) for name in spec.env), "an environment name is not one"),
            (not any("\0" in part for part in text), "a text holds a NUL"),
            (spec.gate_timeout_s > 0 and spec.stop_grace_s >= 0, "a duration is negative"),
        )
        for is_fine, problem in checks:
            if not is_fine:
                return problem
        if flavor is not None and spec.accelerator not in ("", flavor.accelerator):
            return f"{flavor.name} has {flavor.accelerator}, not {spec.accelerator}"
        if (
            flavor is not None
            and not 0 <= spec.accelerators_per_node <= flavor.accelerators_per_node
        ):
            return f"a node of {flavor.name} has {flavor.accelerators_per_node} accelerators"
        return ""

    def _misfit(self, job: Job) -> str:
        """Say why this cluster can never hold the job, or nothing."""
        flavor = self.config.flavor(job.flavor)
        most_gpus = quota.most(self.config, job.queue, job.flavor)
        if job.gpus > most_gpus:
            return f"{job.gpus} GPUs wanted, the quota is {most_gpus}"
        if flavor is not None and job.nodes_wanted > flavor.max_nodes:
            return f"{job.nodes_wanted} nodes wanted, there are {flavor.max_nodes}"
        return ""

    def _set_aside(self, job: Job, why: str, now_s: float) -> None:
        job.never_fits, job.cause, job.message = True, Cause.QUOTA_NEVER_FITS, why
        self.state.signal(
            "QUOTA_REFUSED",
            now_s,
            queue=job.queue,
            flavor=job.flavor,
            source=job.name,
            detail=job.message,
            gpus=job.gpus,
        )

    def _fill(self, fault: faults.Fill, now_s: float) -> Outcome:
        flavor = self.config.flavor(fault.flavor)
        if flavor is None or self.config.quota(fault.queue, fault.flavor) is None:
            message = f"queue {fault.queue!r} has no flavor {fault.flavor!r}"
            return Outcome(is_done=False, cause=Cause.REFUSED, message=message)
        if self._is_full():
            return _FULL
        turn = self.state.next_number()
        job = Job(
            uid=self._new_uid(),
            name=f"other~{turn}",
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
        misfit = self._misfit(job)
        if misfit:
            # Nobody would ever withdraw it, as the broker does with a gang of its own.
            return Outcome(is_done=False, cause=Cause.REFUSED, message=misfit)
        self.state.jobs[job.uid] = job
        return Outcome(is_done=True)

    def _preempt(self, fault: faults.Preempt, now_s: float) -> None:
        uid = self.state.names.get(fault.placement, "") if fault.placement else ""
        hit = [
            node
            for node in self.state.nodes.values()
            if (node.holder == uid if fault.placement else node.flavor == fault.flavor)
            and node.holder
            and node.is_ready
        ]
        for node in hit[: fault.nodes]:
            flavor = self.config.flavor(node.flavor)
            own_s = flavor.preemption_notice_s if flavor is not None else 0.0
            notice = own_s if fault.notice_s is None else fault.notice_s
            nodes.take(self.state, node, now_s, notice, Cause.NODE_PREEMPTED)

    def _strike(
        self, fault: faults.NodeLost | faults.Recreate | faults.Evict, now_s: float
    ) -> Outcome:
        """What hits one placement."""
        job = self.state.jobs.get(self.state.names.get(fault.placement, ""))
        if job is None or job.phase in (Phase.ENDED, Phase.WAITING, Phase.STOPPING):
            message = f"no gang of {fault.placement!r} is here"
            return Outcome(is_done=False, cause=Cause.REFUSED, message=message)
        match fault:
            case faults.Recreate():
                gangs.recreate(job)
            case faults.Evict():
                gangs.evict(job, now_s, "evicted for somebody with a better right")
            case faults.NodeLost():
                names = [one.node for one in gangs.present(job) if one.rank == fault.rank]
                for node in [self.state.nodes[name] for name in names if name in self.state.nodes]:
                    nodes.take(self.state, node, now_s, 0.0, Cause.NODE_LOST)
            case _:
                assert_never(fault)
        return Outcome(is_done=True)


def notice_s(spec: GangSpec, flavor: FlavorConfig | None) -> float:
    """From the SIGTERM that a launcher receives to SIGKILL, in seconds: the flavor's notice, or
    enough for the run's grace where machines are not taken away."""
    own_s = flavor.preemption_notice_s if flavor is not None else 0.0
    return own_s or 2.5 * spec.stop_grace_s


def _withdrawn(placement: str) -> Outcome:
    message = f"{placement} was withdrawn; its name stays taken"
    return Outcome(is_done=False, cause=Cause.WITHDRAWN, message=message)
