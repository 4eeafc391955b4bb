"""Trouble for a brokerd and its regions, from a seed, one thing after the other, until it is over.

The rule: what is done is drawn from the seed alone and told in words as it is done; each fault that
lasts ends after a few seconds, less than anybody's patience; and when it is over all is as before.
Read ``troubled``.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from tests.cluster.rig.brokerd import Brokerd
from tests.cluster.rig.door import Fault
from tests.cluster.rig.region import Region

PAUSE_S, LASTS_S, DOWN_S = (0.2, 2.0), (0.3, 4.0), (0.0, 1.5)


class Trouble:
    """What is done to a brokerd and its regions. ``told`` says what was done so far."""

    def __init__(self, seed: int, brokerd: Brokerd, regions: Mapping[str, Region]) -> None:
        self.told: list[str] = []
        self._chance = random.Random(seed)
        self._brokerd = brokerd
        self._regions = [regions[name] for name in sorted(regions)]
        self._is_over = threading.Event()
        self._beside = ThreadPoolExecutor(1, "trouble")
        self._done: Future[None] | None = None

    def begin(self) -> None:
        """Begin; return at once."""
        self._done = self._beside.submit(self._run)

    def end(self) -> None:
        """End it; return when all is healed. Raises what it failed of itself."""
        self._is_over.set()
        self._beside.shutdown()
        if self._done is not None:
            self._done.result()

    def _run(self) -> None:
        others = (self._stop, self._stop, self._cut, self._deafen, self._hide)
        kinds = (self._kill, self._kill, *others)
        last = None
        while not self._is_over.wait(self._chance.uniform(*PAUSE_S)):
            # A start takes seconds: killed time after time, brokerd would do nothing to be tried.
            last = self._chance.choice(others if last == self._kill else kinds)
            last()

    def _kill(self) -> None:
        """Kill brokerd, and start it again."""
        self._tell("killed brokerd")
        self._brokerd.kill()
        self._is_over.wait(self._chance.uniform(*DOWN_S))
        self._brokerd.start(sees_all=False)

    def _stop(self) -> None:
        """Stop some API servers where they stand."""
        some = self._chance.sample(self._regions, self._chance.randint(1, len(self._regions)))
        self._tell("stopped the API servers", *some)
        self._for_a_while(Region.partition, Region.heal, *some)

    def _cut(self) -> None:
        """Cut every connection to a region, once."""
        one = self._chance.choice(self._regions)
        self._tell("cut the watches", one)
        one.cut_watches()

    def _deafen(self) -> None:
        """Lose a region's answers to what is asked meanwhile."""
        one = self._chance.choice(self._regions)
        self._tell("lost the answers", one)
        self._for_a_while(lambda region: region.cut_off(Fault.DEAF), Region.reconnect, one)

    def _hide(self) -> None:
        """Have brokerd not come to a region that goes on behind its door."""
        one = self._chance.choice(self._regions)
        fault = self._chance.choice((Fault.SILENT, Fault.CLOSED))
        self._tell(f"closed the door ({fault})", one)
        self._for_a_while(lambda region: region.cut_off(fault), Region.reconnect, one)

    def _for_a_while(
        self, begin: Callable[[Region], None], heal: Callable[[Region], None], *some: Region
    ) -> None:
        try:
            for each in some:
                begin(each)
            self._is_over.wait(self._chance.uniform(*LASTS_S))
        finally:
            for each in some:
                heal(each)

    def _tell(self, what: str, *some: Region) -> None:
        self.told.append(f"{what} {', '.join(each.name for each in some)}".strip())


@contextlib.contextmanager
def troubled(seed: int, brokerd: Brokerd, regions: Mapping[str, Region]) -> Iterator[Trouble]:
    """Have trouble while the body runs; with it ends every fault."""
    made = Trouble(seed, brokerd, regions)
    made.begin()
    try:
        yield made
    finally:
        made.end()
