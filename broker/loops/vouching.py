"""Whether a region's copy of a checkpoint still matches its manifest, looked up before it is read.

The rule: a start resumes only from what was seen to be sound a short while ago. Unknown is not
sound and not lost: it is waited for. Read ``Voucher.is_sound``.
"""

from dataclasses import dataclass, field

from broker.loops.content import Content, ContentError, path_of
from broker.model.checkpoint import CheckpointRef
from broker.model.moment import Moment
from broker.model.run import Run
from replicator.checkpoint.paths import CheckpointPath

LASTS_S = 600.0  # a disk can lose a file at any time; a look costs one listing
KEPT = 10_000


@dataclass(slots=True)
class Voucher:
    """Remembers what was found sound, and when (broker seconds)."""

    content: Content
    _sound_s: dict[tuple[str, CheckpointPath], float] = field(default_factory=dict)

    async def is_sound(self, run: Run, ref: CheckpointRef, region: str, now: Moment) -> bool | None:
        """Return whether a start in the region can read the checkpoint; None: not known yet."""
        path = path_of(run.uid, ref)
        key = (region, path)
        at_s = self._sound_s.get(key)
        if at_s is not None and now.since(at_s) < LASTS_S:
            return True
        if region not in self.content.stores:
            return None
        try:
            is_sound = await self.content.is_sound(region, path, ref.digest)
        except ContentError:
            return None  # the store cannot say
        if is_sound:
            self._keep(key, now)
        else:
            self._sound_s.pop(key, None)
        return is_sound

    def _keep(self, key: tuple[str, CheckpointPath], now: Moment) -> None:
        self._sound_s.pop(key, None)
        self._sound_s[key] = now.elapsed_s
        while len(self._sound_s) > KEPT:
            del self._sound_s[next(iter(self._sound_s))]
