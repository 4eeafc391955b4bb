"""One region's cluster and store: production's embedded world, with simulated processes in it.

The rule: queues, quota, nodes, faults and what is shown of them are ``regions.local``'s own; this
is only the shell that starts, tells and kills processes, as its daemon does. Read ``Place.turn``
first.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from regions.cluster import Cause, Outcome, Queue
from regions.launcher import layout
from regions.launcher.rules import Standing, Step
from regions.local.config import WorldConfig
from regions.local.faults import Restore, WorldFault
from regions.local.nodes import warm
from regions.local.recovery import lose_all
from regions.local.state import GangSpec, Job, State, WithdrawOrder
from regions.local.views import Showcase
from regions.local.world import World
from tests.fakes.region_store import ControlStore, Objects
from tests.simulation.pieces import Pieces
from tests.simulation.processes import Process
from tests.simulation.training import Gang
from tests.simulation.witness import Witness

PASSES = 30
ENDS_SOON_S = 0.05
STRUCK = (Cause.NODE_PREEMPTED, Cause.NODE_LOST, Cause.EVICTED, Cause.WITHDRAWN)


@dataclass(slots=True)
class Weather:
    """What is wrong with one region now.

    ``is_cluster_silent``: brokerd gets no answer of it. ``is_store_cut``: brokerd does not reach
    the store. ``is_store_down``: nobody does. ``loss`` is the chance that the answer to a write is
    lost.
    """

    is_cluster_silent: bool = False
    is_store_cut: bool = False
    is_store_down: bool = False
    loss: float = 0.0


class Place:
    """A region with one cluster of the same name and its store."""

    def __init__(
        self,
        config: WorldConfig,
        *,
        loop: asyncio.AbstractEventLoop,
        chance: random.Random,
        witness: Witness,
        pieces: Pieces,
    ) -> None:
        self.config = config
        self.cluster = config.cluster
        self.region = config.region
        self.weather = Weather()
        self.silent_since_s: float | None = None
        self.store_lost_s = loop.time()
        self.is_down = False
        self.is_store_other = False  # what answers as its store is another disk
        self._boots = 1
        self._takes_store = False
        self.objects = Objects(loop.time)
        self.objects.on_delete = lambda name: witness.deletes(self.region, name)
        self.processes: dict[str, Process] = {}
        self.showcase = Showcase(f"{config.cluster}-1")
        self._loop = loop
        self._chance = chance
        self._witness = witness
        self._pieces = pieces
        self._gangs: dict[tuple[str, str], Gang] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_turning = False
        self.on_planned_end: Callable[[Place, Job], None] = lambda place, job: None
        self.on_queue: Callable[[Queue], None] = lambda order: None
        self._ends_awaited: set[str] = set()
        state = State(boot_id="boot", began_s=loop.time())
        warm(config, state, loop.time())
        self.world = World(config, state, lambda: f"{chance.getrandbits(48):012x}")
        self.turn()

    # ---- The shell of the world -----------------------------------------------------------------

    def turn(self) -> None:
        """Let the world go on, carry out its orders, until nothing follows; then show it."""
        if self.is_down:
            return
        if self._is_turning:
            self._loop.call_soon(self.turn)
            return
        self._is_turning = True
        try:
            for _ in range(PASSES):
                self.world.step(self._loop.time())
                if not self._obey():
                    break
            self._excuse()
            self.showcase.refresh(self.config, self.world.state)
        finally:
            self._is_turning = False
        self._await_ends()
        if self._timer is not None:
            self._timer.cancel()
        at_s = self.world.next_at_s()
        if at_s is not None:
            wait_s = max(0.1, at_s - self._loop.time())
            self._timer = self._loop.call_later(wait_s, self.turn)

    def _await_ends(self) -> None:
        """Look, a moment before machines go as planned, who is on them."""
        for node in self.world.state.nodes.values():
            if node.ends_at_s is None or node.dies_at_s is None or node.id in self._ends_awaited:
                continue
            self._ends_awaited.add(node.id)
            wait_s = max(0.0, node.dies_at_s - self._loop.time() - ENDS_SOON_S)
            self._loop.call_later(wait_s, self._ends, node.id)

    def _ends(self, name: str) -> None:
        node = self.world.state.nodes.get(name)
        job = None if node is None else self.world.state.jobs.get(node.holder)
        if node is not None and job is not None and node.takes_at_s is None and not self.is_down:
            self.on_planned_end(self, job)

    def queue(self, spec: GangSpec) -> Outcome:
        """Take in a gang."""
        outcome = self.world.queue(spec, self._loop.time())
        self.turn()
        return outcome

    def withdraw(self, order: WithdrawOrder) -> Outcome:
        """Remove a placement's object."""
        self._witness.withdraws(self, order)
        outcome = self.world.withdraw(order, self._loop.time())
        self.turn()
        return outcome

    @property
    def is_silent(self) -> bool:
        """Whether brokerd gets no answer of the cluster."""
        return self.weather.is_cluster_silent or self.is_down

    @property
    def is_store_down(self) -> bool:
        """Whether nobody reaches the store."""
        return self.weather.is_store_down or (self.is_down and self._takes_store)

    def shut_down(self, takes_store: bool) -> None:
        """Lose power: every process is gone at once, what the disks hold stays.

        ``takes_store``: the store is on the same machine, and not to be reached meanwhile.
        """
        self.is_down, self._takes_store = True, takes_store
        for job in self.world.state.live_jobs():
            self._witness.excused(self.region, job.name)
        for process in self.processes.values():
            process.kill()

    def boot(self) -> None:
        """Begin again after a loss of power, as the cluster's daemon does."""
        if not self.is_down:
            return
        self.is_down = False
        self._boots += 1
        now_s, state = self._loop.time(), self.world.state
        lose_all(state, f"boot-{self._boots}", now_s)
        warm(self.config, state, now_s)
        self.showcase = Showcase(f"{self.config.cluster}-{self._boots}")
        self.turn()

    def inject(self, fault: WorldFault | Restore) -> None:
        """Let something go wrong in the cluster."""
        if self.is_down:
            return
        self.world.inject(fault, self._loop.time())
        self._excuse()  # a gang that is created again forgets within the turn why
        self.turn()

    def _excuse(self) -> None:
        """Say which gangs were struck by something that is not their own doing."""
        for job in self.world.state.jobs.values():
            if job.take_cause is not None or job.cause in STRUCK:
                self._witness.excused(self.region, job.name)

    def _obey(self) -> bool:
        was_active = False
        for job, member in self.world.members():
            process = self.processes.get(member.id)
            if member.order == "RUN" and member.pid == 0 and job.spec is not None:
                member.pid, member.start_ticks, was_active = len(self.processes) + 2, 1, True
                self.processes[member.id] = Process(
                    ground=self,
                    spec=job.spec,
                    member=member.id,
                    rank=member.rank,
                    nonce=f"{self._chance.getrandbits(128):032x}",
                    control=self._control_of,
                )
            elif member.order == "KILL" and process is not None and not process.is_gone:
                process.kill()
                was_active = True
            elif member.order == "TERM" and process is not None and not member.is_termed:
                member.is_termed = was_active = True
                process.notice()
        return was_active

    def _control_of(self, process: Process) -> ControlStore:
        return ControlStore(self.objects, ProcessLine(self, process))

    # ---- What processes stand on ----------------------------------------------------------------

    def now_s(self) -> float:
        return self._loop.time()

    def later(self, seconds: float, call: Any, *args: Any) -> None:
        self._loop.call_later(seconds, call, *args)

    def draw(self, low: float, high: float) -> float:
        return self._chance.uniform(low, high)

    def is_lucky(self, probability: float) -> bool:
        return probability > 0 and self._chance.random() < probability

    def pick(self, below: int) -> int:
        return self._chance.randrange(below)

    def next_step(self, standing: Standing) -> Step:
        return self._pieces.next_step(standing)

    def gang_of(self, process: Process, grant: layout.Grant) -> Gang:
        gang = self._gangs.get(process.key)
        if gang is None:
            spec = process.spec
            gang = self._gangs[process.key] = Gang(self, spec.run_key, grant.epoch, spec.ranks)
        return gang

    def began(self, process: Process, grant: layout.Grant) -> None:
        self._witness.began(self, process, grant)

    def over(self, process: Process) -> None:
        self._witness.over(self, process)

    def gone(self, process: Process, exit_code: int | None, signal: int | None) -> None:
        if self.is_down:
            return  # nobody is there to see it
        self.world.exited(process.member, self._loop.time(), exit_code, signal)
        self.turn()

    def failures_of(self, run_key: str) -> int:
        return self._witness.failures[run_key]

    def failed(self, run_key: str, epoch: layout.EpochId, rank: int) -> None:
        self._witness.failed(run_key, epoch, rank)

    def saved(
        self, run_key: str, epoch: layout.EpochId, step: int, files: dict[str, bytes]
    ) -> None:
        self._witness.saved(run_key, epoch, step, files)

    def finished(self, run_key: str, epoch: layout.EpochId) -> None:
        self._witness.finished(run_key, epoch)


@dataclass(frozen=True, slots=True)
class ProcessLine:
    """A process's way to its region's store."""

    place: Place
    process: Process

    def reach(self, key: str) -> bool:
        return not self.process.is_deaf and not self.place.is_store_down

    def answers(self, key: str) -> bool:
        return not self.place.is_lucky(self.place.weather.loss)


@dataclass(frozen=True, slots=True)
class BrokerLine:
    """brokerd's way to a region's store."""

    place: Place

    def reach(self, key: str) -> bool:
        return not self.place.weather.is_store_cut and not self.place.is_store_down

    def answers(self, key: str) -> bool:
        return not self.place.is_lucky(self.place.weather.loss)
