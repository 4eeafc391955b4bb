"""Whether a region's copy of a checkpoint still matches its manifest, looked up before it is read.

The rule: a start resumes only from what was seen to be sound a short while ago. Unknown is not
sound and not lost: it is waited for. A copy is lost only when its own store says so: what a disk
that is not mounted does not show is no evidence. Read ``Voucher.is_sound``.
"""

from dataclasses import dataclass, field

from broker.loops.content import Content, ContentError, path_of
from broker.loops.sight import Sight
from broker.model.checkpoint import CheckpointRef
from broker.model.moment import Moment
from broker.model.run import Run
from replicator.checkpoint.paths import CheckpointPath

LASTS_S = 600.0  # for what is asked again before anything rests on it
GRANT_LASTS_S = 5.0  # a grant rests on it: a disk can lose a file at any time, a look is a listing
UNSOUND_LASTS_S = 60.0  # what was missed for longer without a word of its store is looked for anew
KEPT = 10_000

_Key = tuple[str, CheckpointPath]


@dataclass(slots=True)
class Voucher:
    """Remembers what was found sound or unsound, and when (broker seconds)."""

    content: Content
    sight: Sight
    _sound_s: dict[_Key, float] = field(default_factory=dict)
    _unsound_s: dict[_Key, float] = field(default_factory=dict)
    _doubted: dict[_Key, None] = field(default_factory=dict)

    async def is_sound(
        self, run: Run, ref: CheckpointRef, region: str, now: Moment, *, within_s: float
    ) -> bool | None:
        """Return whether a start in the region can read the checkpoint; None: not known yet.

        ``within_s`` is how old a look may be that found it sound, in seconds.
        False takes two looks beside the one that missed it: the store was read and believed by
        whoever watches the region before it, and again by a look that began after it.
        """
        path = path_of(run.uid, ref)
        key = (region, path)
        at_s = self._sound_s.get(key)
        if at_s is not None and now.since(at_s) < within_s:
            return True
        if region not in self.content.stores:
            return None
        missed_s = self._unsound_s.get(key)
        if missed_s is not None and now.since(missed_s) < UNSOUND_LASTS_S:
            return self._is_confirmed(key, missed_s)
        self._unsound_s.pop(key, None)
        try:
            is_sound = await self.content.is_sound(
                region,
                path,
                ref.digest,
                run.intent.workload.checkpoint.format,
                is_doubted=key in self._doubted,
            )
        except ContentError:
            return None  # the store cannot say
        if is_sound is not None:
            self._doubted.pop(key, None)
        if is_sound:
            _keep(self._sound_s, key, now)
        elif is_sound is False:
            self._sound_s.pop(key, None)
            if self.sight.store_looked_s(region) is not None:
                _keep(self._unsound_s, key, now)
            return None
        return is_sound

    def doubt(self, run: Run, ref: CheckpointRef, region: str) -> None:
        """Forget what was found of a copy: somebody could not read it.

        It is sound again once all of it was read.
        """
        key = (region, path_of(run.uid, ref))
        self._doubted[key] = None
        while len(self._doubted) > KEPT:
            del self._doubted[next(iter(self._doubted))]
        self._sound_s.pop(key, None)
        self._unsound_s.pop(key, None)

    def _is_confirmed(self, key: _Key, missed_s: float) -> bool | None:
        """Return False once the store is known to have been the right one; None until then."""
        looked_s = self.sight.store_looked_s(key[0])
        if looked_s is not None and looked_s <= missed_s:
            return None
        del self._unsound_s[key]
        return None if looked_s is None else False


def _keep(times_s: dict[_Key, float], key: _Key, now: Moment) -> None:
    times_s.pop(key, None)
    times_s[key] = now.elapsed_s
    while len(times_s) > KEPT:
        del times_s[next(iter(times_s))]
