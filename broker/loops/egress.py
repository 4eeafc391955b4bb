"""What left each region of late, checkpoints and images alike: a region has one budget for both.

The rule: a copy is booked when it begins, and corrected as of then when it is known what was sent.
It can be forgotten, which is only generous. What copies of checkpoints cost is booked beside, for
the team whose run it is. Read ``Egress.left_bytes`` first.
"""

from dataclasses import dataclass
from decimal import Decimal

from broker.loops.desk import Clock

PERIOD_S = 3600.0
DAY_S = 86_400.0
NO_BUDGET_BYTES = 1 << 62


@dataclass(slots=True)
class Booking:
    """What leaves a region by one copy, as far as is known, what it costs, and when it began."""

    began_s: float
    sent_bytes: int
    usd: Decimal = Decimal(0)


class Egress:
    """The books of all regions (broker seconds, bytes) and teams (US dollars)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._booked: dict[str, list[Booking]] = {}
        self._charged: dict[str, list[Booking]] = {}

    def book(self, region: str, size_bytes: int) -> Booking:
        """Note what leaves a region by a copy that begins now. Who learns better corrects it."""
        booking = Booking(self._clock.now().elapsed_s, size_bytes)
        self._booked.setdefault(region, []).append(booking)
        return booking

    def charge(self, booking: Booking, team: str, usd: Decimal) -> None:
        """Note what a copy that was booked costs a team."""
        booking.usd = usd
        self._charged[team] = [*self._of_today(team), booking]

    def charged_usd(self, team: str) -> Decimal:
        """Return what copies that began within the last day cost a team."""
        return sum((one.usd for one in self._of_today(team)), Decimal(0))

    def _of_today(self, team: str) -> list[Booking]:
        now = self._clock.now()
        return [one for one in self._charged.get(team, ()) if now.since(one.began_s) <= DAY_S]

    def left_bytes(self, region: str, allowed_bytes: int | None) -> int:
        """Return what a budget for an hour still allows; ``allowed_bytes`` None: it has none."""
        allowed = NO_BUDGET_BYTES if allowed_bytes is None else allowed_bytes
        return allowed - self.sent_bytes(region)

    def sent_bytes(self, region: str) -> int:
        """Return what left a region by copies that began within the last hour."""
        now = self._clock.now()
        booked = [one for one in self._booked.get(region, ()) if now.since(one.began_s) <= PERIOD_S]
        self._booked[region] = booked
        return sum(one.sent_bytes for one in booked)
