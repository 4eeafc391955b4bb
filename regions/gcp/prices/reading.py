"""From a message of the billing catalog to an entry, or why it is none. Pure.

The rule: a message is hostile. Another currency, an absurd amount, a sum whose halves disagree, no
price at all: each is refused with its reason, for a wrong price is worse than none. Read ``read``.
"""

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from regions.gcp.prices.sku import Sku, Tier

MAX_RATE = Decimal(1000)
"""US dollars for one unit for an hour or a month: far above the dearest accelerator."""
MAX_TIERS = 32
MAX_REGIONS = 500
_NANO = Decimal(1_000_000_000)
_GLOBAL = 1


def read(message: Any) -> Sku | str:
    """Read a ``google.cloud.billing.v1.Sku`` in protobuf's own form; a sentence says why not."""
    what = repr(message.description[:120])
    pricing = _newest(message.pricing_info)
    if pricing is None:
        return f"{what} has no price"
    expression = pricing.pricing_expression
    tiers = _tiers(expression.tiered_rates)
    if isinstance(tiers, str):
        return f"{what}: {tiers}"
    sku = unpriced(message)
    if sku is None:
        return f"{what} names no region"
    return replace(sku, unit=expression.usage_unit, tiers=tiers)


def unpriced(message: Any) -> Sku | None:
    """Return an entry without its price, None when it names no region.

    Where its price cannot be read it stands so, and keeps a wider one from being taken for it.
    """
    # The taxonomy is the newer word; older entries have the list alone.
    regions = frozenset(message.geo_taxonomy.regions[:MAX_REGIONS]) or frozenset(
        message.service_regions[:MAX_REGIONS]
    )
    is_global = message.geo_taxonomy.type_ == _GLOBAL or regions == {"global"}
    if not regions and not is_global:
        return None
    return Sku(
        sku_id=message.sku_id[:40],
        description=message.description[:300],
        usage_type=message.category.usage_type,
        unit="",
        regions=frozenset() if is_global else regions,
        is_global=is_global,
        tiers=(),
    )


def _newest(pricing: Iterable[Any]) -> Any | None:
    """Return the pricing that came into force last; the feed's order is not stable."""
    return max(
        pricing,
        key=lambda each: (each.effective_time.seconds, each.effective_time.nanos),
        default=None,
    )


def _tiers(rates: Any) -> tuple[Tier, ...] | str:
    if not 0 < len(rates) <= MAX_TIERS:
        return f"it has {len(rates)} tiers"
    found = []
    for rate in rates:
        money = rate.unit_price
        if money.currency_code != "USD":
            return f"it is in {money.currency_code[:8]!r}, not in US dollars"
        # Both parts of an amount have one sign, and a part of a dollar is less than one.
        if money.units < 0 or money.nanos < 0 or money.nanos >= _NANO:
            return "its price is no amount to pay"
        price = money.units + money.nanos / _NANO
        if price > MAX_RATE:
            return f"its price of ${price:.0f} cannot be"
        start = rate.start_usage_amount
        if not 0 <= start < 1e15:
            return "a tier of it begins nowhere"
        found.append(Tier(start=Decimal(str(start)), price=price))
    if len({each.start for each in found}) != len(found):
        return "two tiers of it begin at once"
    return tuple(sorted(found, key=lambda each: each.start))
