"""Which tasks of the daemon fail now: what operators are told besides its log and its metrics.

The rule: a task that failed counts as failing until it had the time to be begun twice again and was
not heard of. Read ``Failures.failing``.
"""

from collections.abc import Callable
from typing import Protocol

from broker.model.moment import Moment
from broker.runtime.tasks import LONGEST_PAUSE_S

LASTS_S = 2.0 * LONGEST_PAUSE_S  # one that fails at every attempt is heard of more often


class Clock(Protocol):
    """Broker time."""

    def now(self) -> Moment:
        """Return the present moment."""
        ...


class Failures:
    """When each task of the daemon raised last.

    ``said`` are the sentences of those that go on and cannot do what they are for.
    """

    def __init__(self, clock: Clock, said: Callable[[], tuple[str, ...]] = tuple) -> None:
        self._clock = clock
        self._said = said
        self._last_s: dict[str, float] = {}

    def note(self, task: str) -> None:
        """Take in that a task raised just now."""
        self._last_s[task] = self._clock.now().elapsed_s

    def failing(self) -> tuple[str, ...]:
        """Return the tasks that fail now, sorted."""
        now = self._clock.now()
        return tuple(
            sorted(task for task, at_s in self._last_s.items() if now.since(at_s) < LASTS_S)
        )

    def troubles(self) -> tuple[str, ...]:
        """Return what cannot be done now, a sentence each."""
        return self._said()
