"""What left each region of late, checkpoints and images alike: a region has one budget for both.

The rule: a copy is booked when it begins, and corrected when it is known what was sent. It can be
forgotten, which is only generous. Read ``Egress.left_bytes`` first.
"""

from collections import deque

from broker.loops.desk import Clock

PERIOD_S = 3600.0
NO_BUDGET_BYTES = 1 << 62


class Egress:
    """The books of all regions (broker seconds, bytes)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sent: dict[str, deque[tuple[float, int]]] = {}

    def book(self, region: str, size_bytes: int) -> None:
        """Note what leaves a region, or, below zero, what did not after all."""
        sent = self._sent.setdefault(region, deque())
        sent.append((self._clock.now().elapsed_s, size_bytes))

    def left_bytes(self, region: str, allowed_bytes: int | None) -> int:
        """Return what a budget for an hour still allows; ``allowed_bytes`` None: it has none."""
        return (NO_BUDGET_BYTES if allowed_bytes is None else allowed_bytes) - self.sent_bytes(
            region
        )

    def sent_bytes(self, region: str) -> int:
        """Return what left a region within the last hour."""
        sent = self._sent.setdefault(region, deque())
        now = self._clock.now()
        while sent and now.since(sent[0][0]) > PERIOD_S:
            sent.popleft()
        return max(0, sum(size_bytes for _, size_bytes in sent))
