"""What failed and is tried again, not at once.

The rule: a failure is remembered by what it was about, and forgotten when its time has come; all
of it can be lost, for who forgets it only tries sooner. Read ``Later``.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from broker.history.commands import WarnRun
from broker.loops.content import ContentError
from broker.loops.desk import Clock
from broker.model.reasons import Reason

AGAIN_S = 30.0
LONG_AGAIN_S = 600.0  # what cannot succeed by itself
KEPT = 10_000  # what is never asked for again, of runs that are over, is forgotten like that
MESSAGE_MAX = 300

K = TypeVar("K", bound=Hashable)


class Later(Generic[K]):
    """Times before which a thing is left alone (broker seconds)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._not_before: dict[K, float] = {}

    def put_off(self, key: K, wait_s: float) -> None:
        """Leave a thing alone for so many seconds."""
        self._not_before.pop(key, None)  # the longest untouched are in front, and go first
        self._not_before[key] = self._clock.now().elapsed_s + wait_s
        while len(self._not_before) > KEPT:
            del self._not_before[next(iter(self._not_before))]

    def failed(self, key: K, region: str, error: ContentError) -> tuple[WarnRun, ...]:
        """Leave alone what failed; return what its run is told: of what may pass, nothing."""
        self.put_off(key, AGAIN_S if error.can_retry else LONG_AGAIN_S)
        if error.can_retry:
            return ()
        message = f"content for {region}: {error}"[:MESSAGE_MAX]
        return (WarnRun(reason=Reason.COPY_NOT_VERIFIED, message=message),)

    def is_too_soon(self, key: K) -> bool:
        """Whether the thing is still to be left alone."""
        at_s = self._not_before.get(key)
        if at_s is None:
            return False
        if self._clock.now().elapsed_s < at_s:
            return True
        del self._not_before[key]
        return False

    def forget(self, keys: set[K]) -> None:
        """Have these tried at once."""
        for key in keys:
            self._not_before.pop(key, None)

    @property
    def waiting(self) -> tuple[K, ...]:
        """What is left alone now, or was until lately."""
        return tuple(self._not_before)
