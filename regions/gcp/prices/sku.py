"""An entry of the billing catalog, with only the fields that a price needs. Pure.

Read ``Sku`` first, then ``rate_at``.
"""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """What a unit costs from some amount on, in US dollars."""

    start: Decimal
    price: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Sku:
    """One thing that is sold. ``unit`` is the catalog's own word: h, GiBy.h, GiBy.mo.

    ``regions`` empty: everywhere, and then ``is_global`` says so. ``tiers`` empty: what it costs
    could not be read.
    """

    sku_id: str
    description: str
    usage_type: str
    unit: str
    regions: frozenset[str]
    is_global: bool
    tiers: tuple[Tier, ...]


def rate_at(tiers: tuple[Tier, ...], amount: Decimal) -> Decimal | None:
    """Return what a unit costs at an amount of use; None when no tier begins at or below it.

    The first tier is often free, and stands for little: what counts is the one that applies.
    """
    begun = [each for each in tiers if each.start <= amount]
    return max(begun, key=lambda each: each.start).price if begun else None
