"""What copies between regions cost, and how fast they go. Plain values and the sums over them.

The rule: money is Decimal US dollars, and a price that nobody knows is the dearest there is, said
to be so. Read ``EgressPrice`` first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from enum import StrEnum

GIB = 1 << 30
_UNIT = Decimal("0.000001")
_NEWEST_COUNTS = 0.3
_SAME_WITHIN = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPrice:
    """US dollars for a GiB between two regions. ``doubt``: why it is a guess, empty where known."""

    per_gib: Decimal
    doubt: str = ""

    def of(self, size_bytes: int) -> Decimal:
        """Return what so many bytes cost, rounded up to a millionth."""
        return (self.per_gib * size_bytes / GIB).quantize(_UNIT, rounding=ROUND_UP)


class CopyKind(StrEnum):
    """What is copied: each has a way of its own between two regions."""

    CHECKPOINT = "CHECKPOINT"
    IMAGE = "IMAGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRate:
    """How fast copies come from a region of late; ``source`` empty: from what is in no region."""

    kind: CopyKind
    source: str
    bytes_per_s: float


def smoothed(former: float | None, bytes_per_s: float) -> float:
    """Return how fast copies are to be taken to go, once one went at ``bytes_per_s``."""
    return bytes_per_s if former is None else former + _NEWEST_COUNTS * (bytes_per_s - former)


def is_another(known: float | None, bytes_per_s: float) -> bool:
    """Return whether a rate is so far from the known one that forecasts would be others."""
    return known is None or abs(bytes_per_s - known) > _SAME_WITHIN * known


# From the region that a copy leaves (empty: nobody knows which) to where it goes; always a price.
EgressPriceOf = Callable[[str, str], EgressPrice]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySpend:
    """What the copies of a run's checkpoints into one region were, and cost, up to now."""

    region: str
    copies: int
    sent_bytes: int
    usd: Decimal
