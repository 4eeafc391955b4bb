"""From rates to what whole machines cost. Pure.

The rule: all that a machine is billed for is in its price; with a part missing there is none.
Read ``machine_prices``.
"""

from collections.abc import Iterable
from decimal import Decimal

from regions.gcp.prices.book import Book, Price
from regions.gcp.prices.naming import CORE, DISK, FLEX, GPU, MEMORY, ON_DEMAND, SPOT, Part
from regions.gcp.prices.reading import MAX_RATE
from regions.gcp.prices.sku import Sku
from regions.gcp.prices.tariffs import Tariff, tariff
from regions.gcp.shapes import SHAPES, Shape

SOURCE = "the billing catalog"
_FINEST = Decimal("0.000000001")


def book_of(skus: Iterable[Sku], as_of_s: float) -> Book:
    """Make a book of a whole catalog that was read at a Unix time."""
    rates = tariff(skus)
    prices, incomplete = [], []
    for shape in SHAPES.values():
        for capacity_type in (ON_DEMAND, SPOT, FLEX):
            for region in _sold_in(rates, shape, capacity_type):
                per_hour = per_hour_of(rates, shape, capacity_type, region)
                if isinstance(per_hour, str):
                    incomplete.append(f"{capacity_type} {shape.machine} in {region}: {per_hour}")
                    continue
                prices.append(
                    Price(
                        machine=shape.machine,
                        accelerator=shape.accelerator,
                        accelerators=shape.accelerators,
                        region=region,
                        capacity_type=capacity_type,
                        per_hour=per_hour,
                        as_of_s=as_of_s,
                        source=SOURCE,
                    )
                )
    return Book(prices=tuple(prices), doubts=(*rates.doubts, *incomplete))


def per_hour_of(rates: Tariff, shape: Shape, capacity_type: str, region: str) -> Decimal | str:
    """Return US dollars an hour for one machine, or which part of it has no rate."""
    total = Decimal(0)
    for part, amount in _parts(shape, capacity_type):
        rate = rates.rate(part, region)
        if rate is None:
            return f"no rate of its {part.thing or 'local disk'} {part.kind.lower()}"
        total += rate * amount
    if total > MAX_RATE * shape.accelerators:
        return f"its parts sum up to ${total:.0f}, which cannot be"
    return total.quantize(_FINEST)


def _parts(shape: Shape, capacity_type: str) -> Iterable[tuple[Part, int]]:
    named = [(GPU, shape.accelerator, shape.accelerators)]
    if shape.host:
        named += [(CORE, shape.host, shape.cores), (MEMORY, shape.host, shape.memory_gib)]
    if shape.local_ssd_gib:
        named.append((DISK, "", shape.local_ssd_gib))
    for kind, thing, amount in named:
        yield Part(kind=kind, thing=thing, capacity_type=capacity_type), amount


def _sold_in(rates: Tariff, shape: Shape, capacity_type: str) -> list[str]:
    """Return where its accelerator has a rate: a machine without one is sold nowhere."""
    wanted = Part(kind=GPU, thing=shape.accelerator, capacity_type=capacity_type)
    return sorted(region for part, region in rates.rates if part == wanted and region)
