"""Faults planted into the pieces of the broker, for each of the ten laws: alarms must ring.

The rule: each breaks one promise of production in a small wrapper around the real thing, and says
which law has to notice. Read ``PLANTED`` at the end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from broker.history.commands import (
    CloseEpoch,
    Command,
    ExplainWait,
    FailRun,
    RequestDrain,
    ResumeRun,
    SetCaps,
    SubmitRun,
    WarnRun,
)
from broker.history.events import Recorded
from broker.model.actor import Actor
from broker.model.policy import TeamCaps
from broker.model.reasons import Reason
from regions.cluster import (
    Action,
    ClusterObservation,
    EpochKey,
    Grant,
    Outcome,
    Queue,
    Stage,
    Withdraw,
)
from regions.launcher import layout, rules
from regions.local.state import WithdrawOrder
from tests.fakes.checkpoints import marker_of
from tests.simulation.pieces import Pieces
from tests.simulation.place import Place
from tests.simulation.stage import Stage as World
from tests.simulation.training import contents


class Around:
    """Stands in front of something, and is it in all that is not written here."""

    def __init__(self, inner: Any, *_: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class GrantsTwice(Around):
    """A port that grants every placement that is queued, whatever the log says."""

    async def apply(self, actions: tuple[Action, ...]) -> tuple[Outcome, ...]:
        more: list[Action] = []
        for action in actions:
            if isinstance(action, Queue):
                number = 50 + int.from_bytes(action.placement[:2].encode()) % 200
                key = EpochKey(run_key=action.run_key, number=number, nonce="feedbeeffeedbeef")
                more.append(_grant(action, key))
        outcomes: tuple[Outcome, ...] = await self.inner.apply((*actions, *more))
        return outcomes[: len(actions)]


def _grant(queue: Queue, key: EpochKey) -> Grant:
    return Grant(
        placement=queue.placement,
        epoch=key,
        incarnation=1,
        world_size=queue.gang.ranks,
        resume_path=None,
        bundle_digest="",
        seals=(),
    )


class LosesSubmits(Around):
    """A log that says OK to a submit before it is written, and then does not write it."""

    async def submit(self, command: SubmitRun, actor: Actor) -> str:
        return command.name


def cut_the_log(path: Path) -> None:
    """Take the last event of each run from a log, as a disk would that lied about a sync."""
    if not path.exists():
        return
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "delete from events where position in (select max(position) from events"
            " where stream like 'teams/%/runs/%' group by stream)"
        )


class ResumesAfterTheSeal(Around):
    """A port whose grants resume from what a zombie saved after its epoch was sealed."""

    def __init__(self, inner: Any, place: Place, world: World) -> None:
        super().__init__(inner)
        self._place = place
        self._world = world

    async def apply(self, actions: tuple[Action, ...]) -> tuple[Outcome, ...]:
        changed = tuple(
            self._later(action) if isinstance(action, Grant) and action.seals else action
            for action in actions
        )
        outcomes: tuple[Outcome, ...] = await self.inner.apply(changed)
        return outcomes

    def _later(self, grant: Grant) -> Grant:
        run_key, sealed = grant.epoch.run_key, grant.seals[-1]
        epoch, step = layout.EpochId(number=sealed.number, nonce=sealed.nonce), 7
        files = contents(run_key, epoch, step, grant.world_size)
        path = layout.RunKeys(run_key).checkpoint(epoch, step)
        for name, data in {**files, ".complete": marker_of(files)}.items():
            self._place.objects.put(f"{path}/{name}", data)
        self._world.witness.saved(run_key, epoch, step, files)
        return replace(grant, resume_path=path)


class BeginsAnew(Around):
    """A log that takes a run whose last copy is gone back to its beginning, unasked."""

    async def handle(self, stream: str, command: Command, actor: Actor) -> tuple[Recorded, ...]:
        if isinstance(command, FailRun) and command.reason is Reason.CHECKPOINT_LOST:
            command = ResumeRun(step=None, from_start=True)
        done: tuple[Recorded, ...] = await self.inner.handle(stream, command, actor)
        return done


class Excuses(Around):
    """A log that believes every failure to be the machine's."""

    async def handle(self, stream: str, command: Command, actor: Actor) -> tuple[Recorded, ...]:
        if isinstance(command, CloseEpoch) and command.cause is None:
            command = replace(command, cause=Reason.EVICTED, message="it was evicted")
        done: tuple[Recorded, ...] = await self.inner.handle(stream, command, actor)
        return done


class Forgets(Around):
    """A log that takes no command of some kinds, and says that it did."""

    kinds: tuple[type, ...] = ()

    async def handle(self, stream: str, command: Command, actor: Actor) -> tuple[Recorded, ...]:
        if isinstance(command, self.kinds):
            return ()
        done: tuple[Recorded, ...] = await self.inner.handle(stream, command, actor)
        return done


class ExplainsNothing(Forgets):
    """A log that keeps no sentence of what a run waits for."""

    kinds = (ExplainWait,)


class HidesSilence(Around):
    """A log that keeps no word of a cluster that does not answer."""

    async def handle(self, stream: str, command: Command, actor: Actor) -> tuple[Recorded, ...]:
        is_of_it = isinstance(command, WarnRun) and command.reason is Reason.CLUSTER_SILENT
        if is_of_it:
            return ()
        done: tuple[Recorded, ...] = await self.inner.handle(stream, command, actor)
        return done


class LetsMachinesGo(Around):
    """A log that asks nobody to save whose machines go as planned."""

    async def handle(self, stream: str, command: Command, actor: Actor) -> tuple[Recorded, ...]:
        if isinstance(command, RequestDrain) and command.reason is Reason.PLANNED_END:
            return ()
        done: tuple[Recorded, ...] = await self.inner.handle(stream, command, actor)
        return done


class LiftsCaps(Around):
    """A log that sets no caps."""

    async def handle(self, stream: str, command: Command, actor: Actor) -> tuple[Recorded, ...]:
        if isinstance(command, SetCaps):
            command = replace(command, caps=TeamCaps(budget=command.caps.budget))
        done: tuple[Recorded, ...] = await self.inner.handle(stream, command, actor)
        return done


class WithdrawsNothing(Around):
    """A port that says that a placement was withdrawn, and leaves it."""

    async def apply(self, actions: tuple[Action, ...]) -> tuple[Outcome, ...]:
        kept = tuple(action for action in actions if not isinstance(action, Withdraw))
        carried = iter(await self.inner.apply(kept))
        return tuple(
            Outcome(is_done=True) if isinstance(action, Withdraw) else next(carried)
            for action in actions
        )


def never_leaves(standing: rules.Standing) -> rules.Step:
    """Stand at the gate for ever."""
    return rules.next_step(replace(standing, gate_timeout_s=1e9))


class RemovesStrangers(Around):
    """A port that removes whatever no log knows."""

    def __init__(self, inner: Any, place: Place, world: World) -> None:
        super().__init__(inner)
        self._place = place
        self._world = world

    async def observe(self) -> ClusterObservation:
        seen: ClusterObservation = await self.inner.observe()
        known = {
            one for truth in self._world.witness.record.runs.values() for one in truth.placements
        }
        for one in seen.placements.values():
            if one.placement not in known and one.stage is not Stage.ENDED:
                order = WithdrawOrder(placement=one.placement, run_key=one.run_key, uid=one.uid)
                self._place.withdraw(order)
        return seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """A planted fault and the law that has to notice it, looked for from a seed on."""

    law: str
    pieces: Pieces
    first_seed: int = 0


def _log(wrapper: Callable[..., Any]) -> Pieces:
    return Pieces(wrap_log=wrapper)


PLANTED = {
    "a double grant": Plant(law="law 1", pieces=Pieces(wrap_port=GrantsTwice)),
    "a lost submit": Plant(law="law 2", pieces=_log(LosesSubmits)),
    "a log that was cut": Plant(law="law 3", pieces=Pieces(before_life=cut_the_log)),
    "a resume after the seal": Plant(law="law 4", pieces=Pieces(wrap_port=ResumesAfterTheSeal)),
    "an excused failure": Plant(law="law 5", pieces=_log(Excuses)),
    "a wait without words": Plant(law="law 6", pieces=_log(ExplainsNothing)),
    "a cap that is not kept": Plant(law="law 7", pieces=_log(LiftsCaps)),
    "a gate that is never left": Plant(
        law="law 8", pieces=Pieces(wrap_port=WithdrawsNothing, next_step=never_leaves)
    ),
    "a planned end without a word": Plant(law="law 8", pieces=_log(LetsMachinesGo), first_seed=5),
    "a silence that is not said": Plant(law="law 9", pieces=_log(HidesSilence)),
    "a start from nothing": Plant(law="law 4", pieces=_log(BeginsAnew), first_seed=5),
    "a removed stranger": Plant(law="law 10", pieces=Pieces(wrap_port=RemovesStrangers)),
}
