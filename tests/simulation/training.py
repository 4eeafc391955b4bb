"""The user's program: ranks that step together, save, can be asked to save, and can fail.

The rule: it stands for what production code cannot see into. What it did is told to the witness,
so that checkers know the truth. A gang whose rank is gone cannot go on: the others fail soon after,
as with a collective that times out. Read ``Gang.join`` first.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Protocol

from regions.launcher.layout import EpochId, RunKeys
from regions.launcher.store import Store, StoreUnreachable
from tests.fakes.checkpoints import marker_of
from tests.fakes.region_store import AnswerLost

PEER_S = 8.0  # a rank whose peer is gone fails after so long
SAVING_S = 1.5  # between the files of a checkpoint and its marker
STANDS_BY_S = 10.0  # after it answered a drain
EXIT_DRAINED = 75


@dataclass(frozen=True, slots=True)
class Program:
    """What a run does: so many steps, and a failure of its own at a step, a number of times."""

    steps: int
    step_s: float
    save_every: int
    fails_at: int = 0
    fails: int = 0
    is_stubborn: bool = False
    peer_s: float = PEER_S

    def command(self) -> tuple[str, ...]:
        """Return the command that says all this."""
        values = [self.steps, self.step_s, self.save_every, self.fails_at, self.fails]
        return ("train", json.dumps([*values, self.is_stubborn, self.peer_s]))

    @classmethod
    def of(cls, command: tuple[str, ...]) -> Program:
        """Read a command back."""
        return cls(*json.loads(command[1]))


class Rank(Protocol):
    """One process of the program."""

    rank: int

    @property
    def control(self) -> Store:
        """Its region's store, as it reaches it."""
        ...

    def child_exited(self, code: int) -> None:
        """The program ended by itself."""
        ...

    def drain_answered(self, step: int) -> None:
        """The program saved because it was asked to."""
        ...


class Stage(Protocol):
    """Where the program runs: time, and who takes note of the truth."""

    def later(self, seconds: float, call: object, *args: object) -> None:
        """Call something after some seconds."""
        ...

    def failures_of(self, run_key: str) -> int:
        """Return how often this run's own code has failed."""
        ...

    def failed(self, run_key: str, epoch: EpochId, rank: int) -> None:
        """The run's own code fails now, in one rank."""
        ...

    def saved(self, run_key: str, epoch: EpochId, step: int, files: dict[str, bytes]) -> None:
        """A checkpoint of these files is complete as of now."""
        ...

    def finished(self, run_key: str, epoch: EpochId) -> None:
        """The run's last step is done."""
        ...

    def pick(self, below: int) -> int:
        """Draw a number."""
        ...


class Gang:
    """All ranks of one start that are up. It steps once every rank has joined."""

    def __init__(self, stage: Stage, run_key: str, epoch: EpochId, world_size: int) -> None:
        self._stage = stage
        self._run_key = run_key
        self._epoch = epoch
        self._world_size = world_size
        self._ranks: dict[int, Rank] = {}
        self._asked: set[int] = set()
        self._is_saving = False
        self._is_broken = False
        self._peer_s = PEER_S
        self.step = 0

    def join(self, rank: Rank, program: Program, resumed_step: int) -> None:
        """Let a rank come in; the last one starts the steps."""
        self._ranks[rank.rank] = rank
        self._peer_s = program.peer_s
        self.step = resumed_step
        if len(self._ranks) == self._world_size and not self._is_broken:
            self._stage.later(program.step_s, self._tick, program)

    def leave(self, rank: Rank) -> None:
        """Take note that a rank is gone, however."""
        if self._ranks.pop(rank.rank, None) is not None and not self._is_broken:
            self._is_broken = True
            self._stage.later(self._peer_s, self._fall_apart)

    def ask_to_drain(self, rank: Rank) -> None:
        """Ask for a save; it is answered when the save is whole."""
        self._asked.add(rank.rank)
        if not self._is_broken and len(self._ranks) == self._world_size:
            self._save()

    def _tick(self, program: Program) -> None:
        if self._is_broken:
            return
        self.step += 1
        if self.step >= program.steps:
            self._stage.finished(self._run_key, self._epoch)
            self._save()
            self._stage.later(SAVING_S + 0.1, self._end)
            return
        has_failures_left = self._stage.failures_of(self._run_key) < program.fails
        if self.step == program.fails_at and has_failures_left:
            ranks = sorted(self._ranks)
            rank = ranks[self._stage.pick(len(ranks))]
            self._stage.failed(self._run_key, self._epoch, rank)
            self._ranks[rank].child_exited(1)
            return
        if self.step % program.save_every == 0:
            self._save()
        self._stage.later(program.step_s, self._tick, program)

    def _end(self) -> None:
        if self._is_broken:
            return
        self._is_broken = True
        for rank in tuple(self._ranks.values()):
            rank.child_exited(0)

    def _fall_apart(self) -> None:
        for rank in tuple(self._ranks.values()):
            rank.child_exited(1)

    def _save(self) -> None:
        if self._is_saving:
            return
        self._is_saving = True
        files = contents(self._run_key, self._epoch, self.step, self._world_size)
        folder = RunKeys(self._run_key).checkpoint(self._epoch, self.step)
        is_written = True
        for number, (name, data) in enumerate(sorted(files.items())):
            try:
                self._ranks[number].control.put(f"{folder}/{name}", data)
            except StoreUnreachable:
                is_written = False  # it trains on, and saves again later
        self._stage.later(SAVING_S, self._seal, self.step, files if is_written else {})

    def _seal(self, step: int, files: dict[str, bytes]) -> None:
        self._is_saving = False
        if self._is_broken or not files:
            return
        folder = RunKeys(self._run_key).checkpoint(self._epoch, step)
        try:
            self._ranks[0].control.create_if_absent(f"{folder}/.complete", marker_of(files))
        except AnswerLost:
            pass  # rank 0 does not know; it is there all the same
        except StoreUnreachable:
            return
        self._stage.saved(self._run_key, self._epoch, step, files)
        for number in sorted(self._asked & self._ranks.keys()):
            self._asked.discard(number)
            rank = self._ranks[number]
            rank.drain_answered(step)
            self._stage.later(STANDS_BY_S, rank.child_exited, EXIT_DRAINED)


def contents(run_key: str, epoch: EpochId, step: int, world_size: int) -> dict[str, bytes]:
    """Return the files of a checkpoint: what they hold says whose they are."""
    return {
        f"rank-{rank}.bin": hashlib.sha256(
            f"{run_key}/{epoch.name}/{step}/{rank}".encode()
        ).digest()
        for rank in range(world_size)
    }
