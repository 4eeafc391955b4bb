"""What looks find to be done in a cluster, done beside them.

The rule: a look waits for none of it, for on a busy cluster an answer takes seconds, in which a
start or an end would not be seen; the newest look counts, and before anything is removed it is seen
that nothing was decided since. What did not succeed is tried again, and not at once. Read
``Upkeep.run``.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from regions.cluster import Stage
from regions.kueue.clock import Clock
from regions.kueue.objects.job_set import JobSet
from regions.kueue.orders import Orders
from regions.kueue.recalling import Recaller
from regions.kueue.scene import Scene
from regions.kueue.views import Shown, is_worn_out, to_let_go

AGAIN_S = {"go": 5.0, "raise": 60.0}
"""How soon what did not succeed is tried again."""
MOST_AT_ONCE = 20
WITHIN_S = 5.0
"""For how long what one look found is done: what is left then a newer one finds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """One look. ``wall_s`` is Unix seconds by the cluster's clock."""

    scene: Scene
    shown: tuple[Shown, ...]
    wall_s: float


class Upkeep:
    """Keeps up with the looks at one cluster."""

    def __init__(self, orders: Orders, recaller: Recaller, clock: Clock) -> None:
        self._orders = orders
        self._recaller = recaller
        self._clock = clock
        self._asked: dict[tuple[str, str], float] = {}
        self._found: _Found | None = None
        self._bell = asyncio.Event()

    def take_in(self, scene: Scene, shown: Iterable[Shown], wall_s: float) -> None:
        """Take in what a look shows."""
        self._found = _Found(scene=scene, shown=tuple(shown), wall_s=wall_s)
        self._bell.set()

    async def run(self) -> None:
        """Do what there is to do, until cancelled."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            found = self._found
            if found is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(WITHIN_S):
                        await self._do(found)
            if self._found is found:
                self._found = None

    async def _do(self, found: _Found) -> None:
        """Ask for whom a former broker knew; bring the launcher to whom misses it; remove what was
        put out, and names taken long ago; give granted gangs their priority."""
        await self._recaller.seek()
        await self._orders.mend_program(each.said for each in found.shown)
        gangs = found.scene.gangs.values()
        worn_out = (gang for gang in gangs if is_worn_out(gang, found.wall_s))
        started = {each.seen.uid for each in found.shown if each.has_started}
        for gang in self._due("go", [*to_let_go(found.shown), *worn_out]):
            await self._orders.let_go(gang, has_started=gang.meta.uid in started)
        granted = (
            each.evidence.job_set
            for each in found.shown
            if each.evidence is not None
            and each.seen.is_granted
            and each.seen.stage is not Stage.ENDED
        )
        for gang in self._due("raise", [each for each in granted if self._orders.is_low(each)]):
            await self._orders.raise_priority(gang)

    def _due(self, what: str, gangs: Iterable[JobSet]) -> Iterator[JobSet]:
        """Yield for whom it is time, some at once, each taken for asked as it is yielded."""
        now_s = self._clock.monotonic_s()
        longest_s = max(AGAIN_S.values())
        self._asked = {key: at for key, at in self._asked.items() if now_s - at < longest_s}
        due = (gang for gang in gangs if self._is_due(what, gang, now_s))
        for gang in itertools.islice(due, MOST_AT_ONCE):
            self._asked[what, gang.meta.uid] = now_s
            yield gang

    def _is_due(self, what: str, gang: JobSet, now_s: float) -> bool:
        at_s = self._asked.get((what, gang.meta.uid))
        return at_s is None or now_s - at_s >= AGAIN_S[what]
