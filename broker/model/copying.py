"""What copies between regions cost, and how fast they go. Plain values and the sums over them.

The rule: money is Decimal US dollars, and a price that nobody knows is the dearest there is, said
to be so. Read ``EgressPrice`` first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal

GIB = 1 << 30
_UNIT = Decimal("0.000001")


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPrice:
    """US dollars for a GiB between two regions. ``doubt``: why it is a guess, empty where known."""

    per_gib: Decimal
    doubt: str = ""

    def of(self, size_bytes: int) -> Decimal:
        """Return what so many bytes cost, rounded up to a millionth."""
        return (self.per_gib * size_bytes / GIB).quantize(_UNIT, rounding=ROUND_UP)


# From the region that a copy leaves (empty: nobody knows which) to where it goes; always a price.
EgressPriceOf = Callable[[str, str], EgressPrice]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySpend:
    """What the copies of a run's checkpoints into one region were, and cost, up to now."""

    region: str
    copies: int
    sent_bytes: int
    usd: Decimal
