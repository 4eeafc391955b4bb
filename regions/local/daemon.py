"""The shell of an embedded cluster: decide, write down, then act on processes; then show.

The rule: a process is started, told or killed only by an order that stands in the state file, and
it is called gone only when nothing of it was found. Killing this daemon loses nothing: the next one
reads the state, finds the processes, and goes on. Read ``Daemon.turn`` first.
"""

import asyncio
import hashlib
import logging
import secrets

from regions.cluster import Cause, Outcome
from regions.launcher import codec, layout
from regions.launcher.exits import exit_status
from regions.launcher.rules import Cause as EndCause
from regions.local import clock, faults, member, output, processes, recovery, views, wire
from regions.local.config import WorldConfig
from regions.local.disk import Disk
from regions.local.letting_go import EndedLogs, to_let_go
from regions.local.state import Job, Member, State
from regions.local.world import World

TRIM_EVERY_S = 10.0
SWEEP_AGAIN_S = 0.1
SHORTEST_WAIT_S = 0.05
"""A timer that is due but changes nothing must not make the loop spin."""
MAX_PASSES = 8
TERMINATE_S = 10.0
SAVE_AGAIN_S = 1.0
STATE_TROUBLE = "the cluster cannot write its state"
LOG_TROUBLE = "this file system keeps no log within its limit"
_NOT_WRITTEN = Outcome(
    is_done=False, cause=Cause.UNKNOWN, message=STATE_TROUBLE, retry_after_s=SAVE_AGAIN_S
)

log = logging.getLogger(__name__)


class Daemon:
    """One embedded cluster, alive. ``stopped`` is set once it was told to terminate."""

    def __init__(self, config: WorldConfig, disk: Disk) -> None:
        self.config = config
        self.stopped = asyncio.Event()
        self.silent_until_s = 0.0
        self.delay_s = 0.0
        self._disk = disk
        self._processes = processes.Processes(disk.mark, self._on_exit)
        self._showcase = views.Showcase(secrets.token_hex(8))
        self._news = asyncio.Event()
        self._changed = asyncio.Event()
        self._swept: dict[str, int | None] = {}
        self._exited: set[str] = set()
        self._trim_at_s = 0.0
        self._is_trim_owed = False  # something printed since the logs were looked through
        self._is_ending = False
        self._strangers: tuple[str, ...] = ()
        self._troubles: dict[str, str] = {}
        start = int.from_bytes(hashlib.sha256(disk.mark.encode()).digest()[:4], "big")
        self._ports = member.MasterPorts(*config.master_ports, start)
        self.world = World(config, self._restore(), lambda: secrets.token_hex(8))

    async def run(self) -> None:
        """Live until told to terminate. Being cancelled or killed leaves the gangs alone."""
        try:
            while not self.stopped.is_set():
                self._news.clear()
                self.turn()
                await self._wait()
        finally:
            self._processes.close()

    def turn(self) -> bool:
        """Let the world go on, write it down, carry out its orders, until nothing follows.

        False: it could not be written down, and so nothing was carried out.
        """
        if self._is_ending:
            return False
        now_s = clock.monotonic_s()
        self._bury(now_s)
        for _ in range(MAX_PASSES):
            self.world.step(now_s)
            if not self._save() or not self._act(now_s):
                break
        is_written = STATE_TROUBLE not in self._troubles
        if is_written:
            # Not before: a member's folder holds its exit code until the state does.
            self._tidy(now_s)
        self._showcase.blind = (*self._strangers, *self._troubles.values())
        if self._showcase.refresh(self.config, self.world.state):
            self._changed.set()
            self._changed = asyncio.Event()
        return is_written

    def command(self, request: wire.QueueGang | wire.WithdrawGang) -> Outcome:
        """Carry out a command; it is on disk when this returns."""
        now_s = clock.monotonic_s()
        if isinstance(request, wire.QueueGang):
            outcome = self.world.queue(request.spec, now_s)
        else:
            outcome = self.world.withdraw(request.order, now_s)
        is_written = self.turn()
        self._news.set()
        return outcome if is_written else _NOT_WRITTEN

    def inject(self, fault: faults.Fault) -> Outcome:
        """Let something go wrong."""
        if isinstance(fault, faults.Outage | faults.Slow):
            self._inject_socket(fault)
            return Outcome(is_done=True)
        if isinstance(fault, faults.Restore) and not fault.flavor:
            self.silent_until_s = self.delay_s = 0.0
        outcome = self.world.inject(fault, clock.monotonic_s())
        self.turn()
        self._news.set()
        return outcome

    async def observe(self, request: wire.Observe) -> wire.Observed:
        """Tell what is to be seen; wait a while for news, if the asker knows all there is."""
        is_known = (request.instance, request.generation) == (
            self._showcase.instance,
            self._showcase.generation,
        )
        if is_known and request.wait_s > 0:
            await _within(self._changed, min(request.wait_s, wire.MAX_WAIT_S))
        return self._showcase.answer(request, self.world.state, clock.monotonic_s())

    async def read_log(self, request: wire.ReadLog) -> wire.LogChunk:
        """Read a rank's output; wait a while for more, as long as the rank can print."""
        give_up_s = clock.monotonic_s() + min(request.wait_s, wire.MAX_WAIT_S)
        while True:
            job = self.world.state.jobs.get(self.world.state.names.get(request.placement, ""))
            # Looked at before the file: what it printed last is in the file by now.
            is_over = job is None or job.ended_s is not None
            chunk = output.Chunk(offset=max(0, request.offset), data=b"")
            if job is not None and 0 <= request.rank < max(1, job.nodes_wanted):
                path = self._disk.log(job.uid, request.rank)
                chunk = output.read(path, request.offset, wire.MAX_LOG_CHUNK_BYTES)
            if chunk.data or is_over or clock.monotonic_s() >= give_up_s:
                is_last = is_over and not chunk.data
                return wire.LogChunk(
                    offset=chunk.offset,
                    data=chunk.data,
                    is_last=is_last,
                    is_known=job is not None and not self._is_let_go(job),
                )
            await clock.pause(0.2)

    def _is_let_go(self, job: Job) -> bool:
        """Whether it printed once, and its logs are no longer kept."""
        has_run = job.ended_s is not None and job.generation > 0
        return has_run and not self._disk.log_files(job.uid)

    async def terminate(self) -> None:
        """Kill every gang, and remove all that this cluster has on disk."""
        self._is_ending = True
        give_up_s = clock.monotonic_s() + TERMINATE_S
        while (found := processes.find(self._disk.mark)) and clock.monotonic_s() < give_up_s:
            processes.kill(found)
            await clock.pause(0.02)
        self._disk.remove()
        self.stopped.set()
        self._news.set()

    # ---- the parts of a turn ----

    def _restore(self) -> State:
        state, strangers = recovery.restore(self.config, self._disk, clock.monotonic_s())
        self._strangers = strangers
        for job in state.live_jobs():
            if job.master_port:
                self._ports.hold(job.master_port)
            for one in job.alive:
                if one.pid and not self._processes.adopt(one.id, one.pid, one.start_ticks):
                    self._exited.add(one.id)
        return state

    def _save(self) -> bool:
        try:
            self._disk.save(self.world.state)
        except OSError as error:
            if STATE_TROUBLE not in self._troubles:
                log.error("%s: %s", STATE_TROUBLE, error)
            self._troubles[STATE_TROUBLE] = f"{STATE_TROUBLE}: {error.strerror}"
            return False
        self._troubles.pop(STATE_TROUBLE, None)
        return True

    def _on_exit(self, member_id: str) -> None:
        self._exited.add(member_id)
        self._news.set()

    def _bury(self, now_s: float) -> None:
        """Call those gone whose first process ended and of whom nothing else is left."""
        if not self._exited:
            return
        for one in list(self._exited):
            self._swept.setdefault(one, self._processes.reap(one))
        found = processes.find(self._disk.mark)
        left = {process.member for process in found}
        processes.kill(process for process in found if process.member in self._exited)
        orders = {one.id: one for _, one in self.world.members()}
        for one in sorted(self._exited - left):
            self._exited.discard(one)
            status = self._swept.pop(one)
            exit_code, signal = self._how_it_ended(one, status, orders.get(one))
            self.world.exited(one, now_s, exit_code, signal)

    def _how_it_ended(
        self, member_id: str, status: int | None, known: Member | None
    ) -> tuple[int | None, int | None]:
        if status is not None:
            return (status, None) if status >= 0 else (None, -status)
        try:
            with (self._disk.member(member_id) / "exit.json").open("rb") as stream:
                end = codec.read_end(stream.read(codec.MAX_RECORD_BYTES + 1))
        except OSError:
            was_killed = known is not None and known.order == "KILL"
            return (None, 9) if was_killed else (None, None)
        # The member's own processes could have written the file: anything may be in it.
        causes = {cause.value: cause for cause in EndCause}
        if not isinstance(end, layout.End) or end.cause not in causes:
            return None, None
        return exit_status(causes[end.cause], end.exit_code, end.signal), None

    def _act(self, now_s: float) -> bool:
        """Carry out the orders. True: the state changed by it."""
        has_changed = False
        doomed: set[str] = set()
        for job, one in self.world.members():
            if one.order == "RUN" and one.pid == 0:
                self._start(job, one, now_s)
                has_changed = True
            elif one.order == "TERM" and one.pid and not one.is_termed:
                self._processes.ask_to_go(one.id)
                one.is_termed = has_changed = True
            elif one.order == "KILL" and one.pid:
                doomed.add(one.id)
        if doomed:
            found = processes.find(self._disk.mark)
            processes.kill(process for process in found if process.member in doomed)
        return has_changed

    def _start(self, job: Job, one: Member, now_s: float) -> None:
        if job.spec is None:
            return
        try:
            if job.master_port == 0:
                job.master_port = self._ports.take()
            folder = self._disk.make_member(one.id, job.uid)
            one.pid, one.start_ticks = self._processes.start(
                one.id,
                member.command(self._disk.launcher, job.spec),
                member.environment(self.config, job, job.spec, one, folder=folder),
                cwd=folder,
                log=self._disk.log(job.uid, one.rank),
            )
        except (OSError, ValueError) as error:
            log.warning("member %s of %s cannot start: %s", one.id, job.name, error)
            self.world.could_not_start(one.id, now_s, str(error))

    def _tidy(self, now_s: float) -> None:
        """Give back what nobody uses: ports, folders, the middle of long logs, due faults."""
        live = self.world.state.live_jobs()
        self._ports.keep_only({job.master_port for job in live if job.master_port})
        alive = {one.id for job in live for one in job.alive}
        for name in self._disk.members():
            if name not in alive:
                self._disk.drop_member(name)
        for fault in self.world.due_socket_faults:
            self._inject_socket(fault)
        self.world.due_socket_faults.clear()
        if now_s < self._trim_at_s:
            return
        self._trim_at_s = now_s + TRIM_EVERY_S
        self._is_trim_owed = any(one.pid for job in live for one in job.alive)
        self._tidy_logs(now_s)

    def _tidy_logs(self, now_s: float) -> None:
        """Hold each log to its limits, and those of ended placements to theirs together."""
        config = self.config
        for uid in self._disk.logged():
            if uid not in self.world.state.jobs:
                self._disk.drop_logs(uid)
        for uid in self._disk.logged():
            # What ended is trimmed too: a rank can print more in its last seconds than is kept.
            for path in self._disk.log_files(uid):
                if not output.trim(path, config.log_head_bytes, config.log_tail_bytes):
                    self._troubles[LOG_TROUBLE] = LOG_TROUBLE
        ended = [
            EndedLogs(
                uid=job.uid,
                ended_s=job.ended_s,
                size_bytes=sum(map(output.size_bytes, self._disk.log_files(job.uid))),
            )
            for job in self.world.state.jobs.values()
            if job.ended_s is not None
        ]
        for uid in to_let_go(
            ended, now_s, keep_bytes=config.keep_logs_bytes, keep_s=config.keep_logs_s
        ):
            self._disk.drop_logs(uid)

    def _inject_socket(self, fault: faults.SocketFault) -> None:
        match fault:
            case faults.Outage():
                self.silent_until_s = clock.monotonic_s() + fault.duration_s
            case faults.Slow():
                self.delay_s = fault.delay_ms / 1000

    async def _wait(self) -> None:
        """Sleep until something happens or is due; with nothing to do, for as long as it takes."""
        times = [at_s for at_s in (self.world.next_at_s(),) if at_s is not None]
        now_s = clock.monotonic_s()
        if self._exited:
            times.append(now_s + SWEEP_AGAIN_S)
        if STATE_TROUBLE in self._troubles:
            times.append(now_s + SAVE_AGAIN_S)
        self._is_trim_owed |= any(one.pid for _, one in self.world.members())
        if self._is_trim_owed:
            times.append(self._trim_at_s)
        due_s = min(times, default=None)
        await _within(self._news, None if due_s is None else max(SHORTEST_WAIT_S, due_s - now_s))


async def _within(event: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
