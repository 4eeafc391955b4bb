"""What brokerd says of its runs from moment to moment, as a person would read it.

The rule: a word is said of a gang only as long as it stands there, which may be a second; so it is
asked again and again, and the first time that each was said, with the reason of its place, is kept.
Read ``Ear``.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from broker.cli.cluster_words import explained
from broker.cli.status import rendered
from tests.cluster.rig.brokerd import TEAM, Brokerd
from tests.cluster.rig.waiting import wait_until
from tests.cluster.scene import reason_of

ASK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the command line made of a run."""

    status: str
    explained: str


class Ear:
    """Hears what brokerd says of the runs of the team, until closed."""

    def __init__(self, brokerd: Brokerd) -> None:
        self._brokerd = brokerd
        self._said: dict[tuple[str, str, str], Said] = {}
        self._is_over = threading.Event()
        self._beside = ThreadPoolExecutor(1, "ear")
        self._done: Future[None] = self._beside.submit(self._run)

    def hear(self, run: str, word: str, reason: str, within_s: float) -> Said:
        """Wait until a word was said of one of a run's places, and that it stands there for a
        reason; return what was said then."""
        key = (run, word, reason)
        try:
            wait_until(lambda: self._is_heard(key), within_s, f"{word} of {run}")
        except TimeoutError as error:
            said = [what for name, *what in self._said if name == run]
            raise AssertionError(f"{error}; it was said: {said}") from error
        return self._said[key]

    def close(self) -> None:
        """Hear no more. Raises what it failed of itself."""
        self._is_over.set()
        self._beside.shutdown()
        self._done.result()

    def _is_heard(self, key: tuple[str, str, str]) -> bool:
        if self._done.done():
            self._done.result()
        return key in self._said

    def _run(self) -> None:
        with self._brokerd.client() as client:
            while not self._is_over.wait(ASK_EVERY_S):
                for run in client.runs.find(TEAM, query="state = ACTIVE").runs:
                    for leg in run.placements:
                        key = (run.name, leg.cluster_word.word, reason_of(leg.why))
                        said = Said(
                            status=rendered(run, time.time()),
                            explained="\n".join(explained(run)),
                        )
                        self._said.setdefault(key, said)
