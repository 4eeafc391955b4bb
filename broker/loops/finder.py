"""The finder: writes down which checkpoints an open epoch completed, and which only look like it.

The rule: what a look describes whole counts; a marker that does not hold may be of a save that goes
on, so it is looked at again, ever more rarely, and refused aloud once it has stayed so. Read
``Finder.look``.
"""

from collections.abc import Sequence

from broker.history.commands import RecordCheckpoint, RefuseCheckpoint
from broker.loops.content import Content, ContentError, Finding, Troubled
from broker.loops.desk import Clock, Desk
from broker.loops.later import AGAIN_S, MESSAGE_MAX, Later
from broker.loops.sight import Sight
from broker.model.checkpoint import CheckpointRef, EpochId
from broker.model.run import Epoch, Run

SOON_S = 1.0  # a save that goes on is mostly whole by then
SETTLING_S = 3.0  # between two looks at what is to stay as it is
REFUSED_AFTER_S = 10.0  # files that come after their marker come within it, or never
EPOCHS_KEPT = 10_000


class Finder:
    """Looks through the stores of open epochs whose markers the log does not know yet."""

    def __init__(self, *, desk: Desk, sight: Sight, content: Content, clock: Clock) -> None:
        self._desk = desk
        self._sight = sight
        self._content = content
        self._clock = clock
        self._later: Later[EpochId] = Later(clock)
        # By epoch: what was troubled, since when (broker seconds), and the pause before a look.
        self._troubled: dict[EpochId, tuple[dict[Troubled, float], float]] = {}
        self._again: set[str] = set()

    async def look(self, names: Sequence[str]) -> None:
        """Look at these runs' open epochs, and tell the log what is new."""
        self._again |= set(await self._desk.for_each(names, self._look_at))

    def take_again(self) -> set[str]:
        """Return whose look is not over: they are to be in the next tick, which need not hurry."""
        again, self._again = self._again, set()
        return again

    async def _look_at(self, name: str) -> None:
        run = self._desk.log.run(name)
        epoch = None if run is None else run.open_epoch
        if run is None or epoch is None or epoch.started_s is None:
            return
        if epoch.region not in self._content.stores:
            return
        seen = self._sight.cluster(epoch.cluster).epoch(run, epoch)
        known = {c.ref.step for c in run.checkpoints if c.ref.epoch == epoch.id}
        refused = {said.step for said in run.refused if said.epoch == epoch.id}
        if seen is None or (known | refused | epoch.let_go).issuperset(seen.checkpoints):
            return
        if self._later.is_too_soon(epoch.id):
            self._again.add(name)
            return
        await self._describe(run, epoch, known)

    async def _describe(self, run: Run, epoch: Epoch, known: set[int]) -> None:
        kind = run.intent.workload.checkpoint.format
        try:
            now_s = self._clock.now().elapsed_s
            finding = await self._content.find(epoch.region, run.uid, epoch.id, kind, now_s)
        except ContentError as error:
            await self._desk.tell(run.name, *self._later.failed(epoch.id, epoch.region, error))
            return
        if finding is None:
            self._again.add(run.name)
            return
        new = [one for one in completed(epoch, finding) if one.ref.step not in known]
        # What is on its way out stays no save, however often it is looked at.
        troubled = [one for one in finding.troubled if one.step not in epoch.let_go]
        await self._desk.tell(run.name, *new, *self._refused(epoch, troubled))
        if finding.settling:
            # Nobody tells of what does not change.
            self._later.put_off(epoch.id, SETTLING_S)
            self._again.add(run.name)

    def _refused(self, epoch: Epoch, troubled: Sequence[Troubled]) -> tuple[RefuseCheckpoint, ...]:
        """Return what has stayed no checkpoint for long enough, and see to the next look."""
        former, pause_s = self._troubled.pop(epoch.id, ({}, 0.0))
        if not troubled:
            return ()
        now_s = self._clock.now().elapsed_s
        since = {one: former.get(one, now_s) for one in troubled}
        pause_s = min(2.0 * pause_s, AGAIN_S) if since == former else SOON_S
        self._troubled[epoch.id] = (since, pause_s)
        while len(self._troubled) > EPOCHS_KEPT:
            del self._troubled[next(iter(self._troubled))]
        self._later.put_off(epoch.id, pause_s)
        old = [one for one, at_s in since.items() if now_s - at_s >= REFUSED_AFTER_S]
        return refusals(epoch, old)


def completed(epoch: Epoch, finding: Finding) -> tuple[RecordCheckpoint, ...]:
    """Return what a look found complete, as the log is told."""
    return tuple(
        RecordCheckpoint(
            ref=CheckpointRef(epoch=epoch.id, step=one.step, digest=one.digest),
            size_bytes=one.size_bytes,
            region=epoch.region,
            written_wall_s=one.written_wall_s,
        )
        for one in finding.found
    )


def refusals(epoch: Epoch, troubled: Sequence[Troubled]) -> tuple[RefuseCheckpoint, ...]:
    """Return what is refused, as the log is told."""
    return tuple(
        RefuseCheckpoint(epoch=epoch.id, step=one.step, why=one.why[:MESSAGE_MAX])
        for one in troubled
    )
