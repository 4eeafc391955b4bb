"""What left each region of late, checkpoints and images alike: a region has one budget for both.

The rule: a copy is booked when it begins, and corrected as of then when it is known what was sent.
It can be forgotten, which is only generous. Read ``Egress.left_bytes`` first.
"""

from broker.loops.desk import Clock

PERIOD_S = 3600.0
NO_BUDGET_BYTES = 1 << 62


class Egress:
    """The books of all regions (broker seconds, bytes)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sent: dict[str, list[tuple[float, int]]] = {}

    def book(self, region: str, size_bytes: int, began_s: float) -> None:
        """Note what leaves a region by a copy, or, below zero, what did not after all."""
        self._sent.setdefault(region, []).append((began_s, size_bytes))

    def left_bytes(self, region: str, allowed_bytes: int | None) -> int:
        """Return what a budget for an hour still allows; ``allowed_bytes`` None: it has none."""
        allowed = NO_BUDGET_BYTES if allowed_bytes is None else allowed_bytes
        return allowed - self.sent_bytes(region)

    def sent_bytes(self, region: str) -> int:
        """Return what left a region by copies that began within the last hour."""
        now = self._clock.now()
        sent = [one for one in self._sent.get(region, ()) if now.since(one[0]) <= PERIOD_S]
        self._sent[region] = sent
        return max(0, sum(size_bytes for _, size_bytes in sent))
