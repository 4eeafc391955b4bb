"""One process of a gang: production's rules in front of a simulated program.

The rule: what a process does next is ``regions.launcher.rules``'s to say; here are only its looks
at the store, as ``regions.launcher.gate`` and ``process`` make them, and the ways it can die. Read
``Process.look`` first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from regions.launcher import codec, layout
from regions.launcher.exits import exit_status
from regions.launcher.freshness import GateWatch, watch_gates
from regions.launcher.gate import read_gates
from regions.launcher.reading import Absent, Reading, read_record
from regions.launcher.rules import (
    BeginDrain,
    Cause,
    CreateOwner,
    Leave,
    Owner,
    Prepare,
    Run,
    Standing,
    Step,
    Stop,
    next_watch,
)
from regions.launcher.store import StoreUnreachable
from regions.local.state import GangSpec
from tests.fakes.region_store import ControlStore
from tests.simulation.training import Gang, Program, contents

GATE_POLL_S = 2.0
GATE_FRESH_S = 10.0
CONTROL_POLL_S = 3.0
END_RETRY_S = 60.0
END_PAUSE_S = 3.0
LOADING_S = 0.5  # until a program that cannot read its checkpoint gives up


class Ground(Protocol):
    """Where a process stands: its machine's time, its peers, and who takes note."""

    cluster: str

    def now_s(self) -> float: ...

    def later(self, seconds: float, call: object, *args: object) -> None: ...

    def draw(self, low: float, high: float) -> float: ...

    def next_step(self, standing: Standing) -> Step: ...

    def gang_of(self, process: Process, grant: layout.Grant) -> Gang: ...

    def began(self, process: Process, grant: layout.Grant) -> None: ...

    def over(self, process: Process) -> None: ...

    def failed(self, run_key: str, epoch: layout.EpochId, rank: int) -> None: ...

    def gone(self, process: Process, exit_code: int | None, signal: int | None) -> None: ...


@dataclass(slots=True)
class Known:
    """What a process at the gate has learned. A record that was read is final."""

    watch: GateWatch = field(default_factory=GateWatch)
    grant: Reading[layout.Grant] = field(default_factory=Absent)
    owner: Reading[Owner] = field(default_factory=Absent)
    fence: Reading[layout.Fence] = field(default_factory=Absent)
    is_prepared: bool = False
    count: int = 0


class Process:
    """A launcher and, once it was let pass, the program behind it."""

    def __init__(
        self,
        *,
        ground: Ground,
        spec: GangSpec,
        member: str,
        rank: int,
        nonce: str,
        control: Callable[[Process], ControlStore],
    ) -> None:
        self.ground = ground
        self.spec = spec
        self.member = member
        self.rank = rank
        self.nonce = nonce
        self.is_deaf = False
        self.is_gone = False
        self.is_training = False
        self.grant: layout.Grant | None = None
        self.since_s = self.trains_since_s = ground.now_s()
        self.stop_heard_s: float | None = None
        self.hears_since_s = self.since_s
        self.control = control(self)
        self._keys = layout.RunKeys(spec.run_key)
        self._known = Known()
        self._program = Program.of(spec.command)
        self._notices = 0
        self._heeded = 0
        self._beat = 0
        self._step: int | None = None
        self._gang: Gang | None = None
        self._stopping: Cause | None = None
        self._is_draining = False
        self._drained_step: int | None = None
        self._is_drained = False
        ground.later(ground.draw(0.0, 1.0), self.look)

    @property
    def was_asked(self) -> bool:
        """Whether it has heard that it is to leave."""
        return self._is_draining or self.stop_heard_s is not None

    @property
    def key(self) -> tuple[str, str]:
        """Its gang's own name: a gang that was created again is another."""
        uid, generation, _ = self.member.rsplit("-", 2)
        return uid, generation

    # ---- What others do to it -------------------------------------------------------------------

    def notice(self) -> None:
        """SIGTERM from the machine or the cluster."""
        self._notices += 1
        if not self.is_gone and not self.is_training and self._stopping is None:
            self.look()

    def hear(self) -> None:
        """Reach the store again."""
        if self.is_deaf:
            self.is_deaf, self.hears_since_s = False, self.ground.now_s()

    def kill(self) -> None:
        """SIGKILL: it says nothing any more."""
        if not self.is_gone:
            self._vanish(None, 9)

    # ---- At the gate ----------------------------------------------------------------------------

    def look(self) -> None:
        """Look, ask the rules, do the one thing they say, and look again."""
        if self.is_gone or self.is_training or self._stopping is not None:
            return
        self._read()
        step = self.ground.next_step(self._standing())
        match step:
            case Leave():
                self._stopping = step.cause
                self._end(layout.LEFT_GATE, step.cause, None)
                return
            case Run():
                self._begin(step.grant)
                return
            case CreateOwner():
                # The create takes its time, and lands even if its creator is dead by then.
                grant = self._known.grant
                assert isinstance(grant, layout.Grant)
                self.ground.later(self.ground.draw(0.0, 1.5), self._create, grant.epoch, step.owner)
            case Prepare():
                self.ground.later(self.ground.draw(0.0, 4.0), self._prepared, step.grant)
            case _:
                pass
        self.ground.later(GATE_POLL_S, self.look)

    def _read(self) -> None:
        known, store, keys = self._known, self.control, self._keys
        known.count += 1
        gate = layout.Gate(rank=self.rank, nonce=self.nonce, count=known.count, member=self.member)
        with suppress(StoreUnreachable):
            store.put(keys.gate(self.spec.placement, self.nonce), codec.write_gate(gate))
        if not isinstance(known.grant, layout.Grant):
            known.grant = read_record(store, keys.grant(self.spec.placement), codec.read_grant)
        if isinstance(known.grant, layout.Grant):
            self.grant = known.grant
            epoch = known.grant.epoch
            if not isinstance(known.owner, layout.Started | layout.Revoked):
                known.owner = read_record(store, keys.owner(epoch.number), codec.read_owner)
            known.fence = read_record(store, keys.fence(epoch), codec.read_fence)
        if self.rank == 0 and not isinstance(known.owner, layout.Started | layout.Revoked):
            with suppress(StoreUnreachable):
                gates = read_gates(store, keys, self.spec.placement)
                known.watch = watch_gates(known.watch, gates, self.ground.now_s())

    def _standing(self) -> Standing:
        known = self._known
        return Standing(
            rank=self.rank,
            nonce=self.nonce,
            placement=self.spec.placement,
            world_size=self.spec.ranks,
            now_s=self.ground.now_s(),
            since_s=self.since_s,
            gate_timeout_s=self.spec.gate_timeout_s,
            fresh_s=GATE_FRESH_S,
            watch=known.watch,
            grant=known.grant,
            owner=known.owner,
            fence=known.fence,
            is_prepared=known.is_prepared,
            is_told_to_leave=self._notices > 0,
        )

    def _create(self, epoch: layout.EpochId, owner: layout.Started) -> None:
        with suppress(StoreUnreachable):
            key = self._keys.owner(epoch.number)
            self.control.create_if_absent(key, codec.write_owner(owner))

    def _prepared(self, grant: layout.Grant) -> None:
        if grant.bundle is not None:
            try:
                found = self.control.get(layout.bundle_key(grant.bundle))
            except StoreUnreachable:
                return
            if found is None or hashlib.sha256(found.read()).hexdigest() != grant.bundle:
                if not self.is_gone and self._stopping is None and not self.is_training:
                    self._stopping = Cause.BUNDLE_BAD
                    self._end(layout.LEFT_GATE, Cause.BUNDLE_BAD, None)
                return
        self._known.is_prepared = True

    # ---- Beside the program ---------------------------------------------------------------------

    def _begin(self, grant: layout.Grant) -> None:
        self.is_training = True
        self.trains_since_s = self.ground.now_s()
        self.grant = grant
        self._heeded = self._notices
        self._gang = self.ground.gang_of(self, grant)
        self.ground.began(self, grant)
        resumed = layout.checkpoint_of(grant.resume_from) if grant.resume_from else None
        self._gang.join(self, self._program, 0 if resumed is None else resumed[1])
        if grant.resume_from is not None and not self._can_load(grant.resume_from):
            self.ground.later(LOADING_S, self._cannot_load, grant.epoch)
        self._attend()

    def _can_load(self, path: str) -> bool:
        """Whether its part of a checkpoint is what was saved; a store that is silent is retried."""
        found = layout.checkpoint_of(path)
        assert found is not None
        wanted = contents(path.split("/")[1], found[0], found[1], self.spec.ranks)
        name = f"rank-{self.rank}.bin"
        try:
            stored = self.control.get(f"{path}/{name}")
        except StoreUnreachable:
            return True
        return stored is not None and stored.read() == wanted[name]

    def _cannot_load(self, epoch: layout.EpochId) -> None:
        if self.is_training and self._stopping is None:
            self.ground.failed(self.spec.run_key, epoch, self.rank)
            self.child_exited(1)

    def _attend(self) -> None:
        if self.is_gone or not self.is_training or self.grant is None:
            return
        epoch = self.grant.epoch
        fence = read_record(self.control, self._keys.fence(epoch), codec.read_fence)
        drain = read_record(self.control, self._keys.drain(epoch), codec.read_drain)
        step = next_watch(fence, drain, self._is_draining)
        if isinstance(step, Stop):
            self._stop(step.cause)
        elif isinstance(step, BeginDrain):
            self._drain()
        if self._notices > self._heeded:
            self._heeded = self._notices
            self._drain()
            # What is left of the notice before the program itself is told to go.
            self.ground.later(max(0.0, 3 * self.spec.stop_grace_s), self._stop, Cause.PREEMPTED)
        self._report(layout.RUNNING if self._stopping is None else layout.STOPPING)
        self.ground.later(CONTROL_POLL_S, self._attend)

    def _drain(self) -> None:
        if not self._is_draining and self._gang is not None:
            self._is_draining = True
            self._gang.ask_to_drain(self)

    def _stop(self, cause: Cause) -> None:
        if self._stopping is not None or not self.is_training:
            return
        self._stopping = cause
        self.stop_heard_s = self.ground.now_s()
        grace_s = self.spec.stop_grace_s
        takes_s = grace_s if self._program.is_stubborn else self.ground.draw(0.0, grace_s)
        self.ground.later(takes_s, self._stopped)

    def _stopped(self) -> None:
        if self.is_training and not self.is_gone:
            self._finish(-9 if self._program.is_stubborn else -15)

    def child_exited(self, code: int) -> None:
        """The program ended by itself."""
        if self.is_training and not self.is_gone:
            self._finish(code)

    def drain_answered(self, step: int) -> None:
        """The program saved because it was asked to."""
        self._is_drained, self._drained_step = True, step
        self._report(layout.RUNNING)

    def _report(self, phase: str) -> None:
        if self.grant is None or self._gang is None:
            return
        self._beat += 1
        report = layout.Report(
            rank=self.rank,
            nonce=self.nonce,
            beat=self._beat,
            phase=phase,
            step=self._gang.step or None,
            loss=None,
            samples=None,
            is_drained=self._is_drained,
            drained_step=self._drained_step,
        )
        with suppress(StoreUnreachable):
            key = self._keys.report(self.grant.epoch, self.nonce)
            self.control.put(key, codec.write_report(report))

    def _finish(self, code: int) -> None:
        self.is_training = False
        self.ground.over(self)
        if self._gang is not None:
            self._gang.leave(self)
        self._report(layout.STOPPING)
        if self._stopping is not None:
            self._end(layout.STOPPED, self._stopping, code)
        elif self._is_drained and self._is_draining:
            self._stopping = Cause.DRAINED
            self._end(layout.STOPPED, Cause.DRAINED, code)
        else:
            self._stopping = Cause.COMMAND
            self._end(layout.EXITED, Cause.COMMAND, code)

    # ---- The last word --------------------------------------------------------------------------

    def _end(self, kind: str, cause: Cause, code: int | None) -> None:
        end = layout.End(
            rank=self.rank,
            nonce=self.nonce,
            kind=kind,
            cause=cause.value,
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            was_asked=self.was_asked,
            at_unix_s=self.ground.now_s(),
        )
        if self.grant is None:
            key = self._keys.gate_end(self.spec.placement, self.nonce)
        else:
            key = self._keys.end(self.grant.epoch, self.nonce)
        self._say(key, end, self.ground.now_s() + END_RETRY_S)

    def _say(self, key: str, end: layout.End, give_up_s: float) -> None:
        if self.is_gone:
            return
        try:
            self.control.create_if_absent(key, codec.write_end(end))
        except StoreUnreachable:
            if self.ground.now_s() < give_up_s:
                self.ground.later(END_PAUSE_S, self._say, key, end, give_up_s)
                return
        cause = next(one for one in Cause if one.value == end.cause)
        self._vanish(exit_status(cause, end.exit_code, end.signal), None)

    def _vanish(self, exit_code: int | None, signal: int | None) -> None:
        was_training, self.is_training, self.is_gone = self.is_training, False, True
        if was_training:
            self.ground.over(self)
        if self._gang is not None:
            self._gang.leave(self)
        self.ground.gone(self, exit_code, signal)
