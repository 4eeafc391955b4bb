"""The doubter: looks whether a copy that could not be read is still there, and says if it is not.

The rule: a copy is lost by the word of its own store, never for want of an answer. What is in doubt
stays so until its store was read and believed. Read ``Doubter.look``.
"""

from dataclasses import dataclass, field

from broker.history.commands import RecordLostCopy, WarnRun
from broker.loops.content import path_of
from broker.loops.desk import Clock, Desk
from broker.loops.sight import Sight
from broker.loops.vouching import LASTS_S, Voucher
from broker.model.checkpoint import CheckpointRef
from broker.model.reasons import Reason
from broker.model.run import Run
from replicator.checkpoint.paths import CheckpointPath

DOUBTS_KEPT = 1_000

_Doubt = tuple[str, CheckpointRef, str]


@dataclass(slots=True, kw_only=True)
class Doubter:
    """Keeps the copies in doubt, by run, checkpoint and region. It can forget them: who finds that
    a copy cannot be read doubts it again."""

    desk: Desk
    sight: Sight
    voucher: Voucher
    clock: Clock
    _doubts: dict[_Doubt, None] = field(default_factory=dict)

    def doubt(self, run: Run, ref: CheckpointRef, region: str) -> None:
        """Have a copy looked for, whatever was known of it before."""
        self.voucher.doubt(run, ref, region)
        self._doubts[run.name, ref, region] = None
        while len(self._doubts) > DOUBTS_KEPT:
            del self._doubts[next(iter(self._doubts))]

    async def look(self) -> frozenset[CheckpointPath]:
        """Look at each copy in doubt whose store is read; return those that were told as lost."""
        lost: set[CheckpointPath] = set()
        for name, ref, region in tuple(self._doubts):
            run = self.desk.log.run(name)
            known = () if run is None else run.checkpoints
            if run is None or not any(c.ref == ref and region in c.regions for c in known):
                del self._doubts[name, ref, region]
                continue
            if self.sight.store_looked_s(region) is None:
                continue
            is_sound = await self.voucher.is_sound(
                run, ref, region, self.clock.now(), within_s=LASTS_S
            )
            if is_sound is None:
                continue
            del self._doubts[name, ref, region]
            if not is_sound:
                lost.add(path_of(run.uid, ref))
                await self.desk.tell(name, *lost_copy(ref, region))
        return frozenset(lost)


def lost_copy(ref: CheckpointRef, region: str) -> tuple[RecordLostCopy, WarnRun]:
    """Return what is told of a copy that its store does not hold, or holds damaged."""
    message = f"step {ref.step} in {region} is damaged or gone"
    return (
        RecordLostCopy(ref=ref, region=region, message=message),
        WarnRun(reason=Reason.COPY_NOT_VERIFIED, message=message),
    )
