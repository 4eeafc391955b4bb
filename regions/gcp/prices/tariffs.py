"""From entries of the catalog to one rate per part and region. Pure.

The rule: of several entries that name a region the one with the smallest geography holds. Two of
the same width that differ make no rate, and nothing that costs nothing is a rate. Read ``tariff``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from regions.gcp.prices.naming import CORE, DISK, GPU, MEMORY, Part, classify
from regions.gcp.prices.sku import Sku, rate_at

HOURS_A_MONTH = Decimal(730)
EVERYWHERE = ""
_EVERYWHERE_WIDTH = 1 << 30

_Told = dict[tuple[Part, str], list[tuple[int, Decimal | None]]]
_UNITS: Mapping[str, Mapping[str, Decimal]] = {
    # What a part is sold by, and how many of our hours are in it.
    GPU: {"h": Decimal(1)},
    CORE: {"h": Decimal(1)},
    MEMORY: {"GiBy.h": Decimal(1)},
    DISK: {"GiBy.h": Decimal(1), "GiBy.mo": HOURS_A_MONTH},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """Rates in US dollars an hour: of one accelerator, one core, or one GiB.

    ``unsure`` is where a part has a rate of its own that is not known.
    """

    rates: Mapping[tuple[Part, str], Decimal]
    unsure: Mapping[Part, frozenset[str]]
    doubts: tuple[str, ...]

    def rate(self, part: Part, region: str) -> Decimal | None:
        """Return a part's rate in a region; what is sold everywhere is sold there too."""
        if (part, region) in self.rates:
            return self.rates[part, region]
        is_unsure = region in self.unsure.get(part, frozenset())
        return None if is_unsure else self.rates.get((part, EVERYWHERE))


def tariff(skus: Iterable[Sku]) -> Tariff:
    """Make the tariff of a catalog."""
    doubts: list[str] = []
    told: _Told = {}
    for sku in skus:
        match classify(sku.description, sku.usage_type):
            case None:
                continue
            case str() as doubt:
                doubts.append(doubt)
            case Part() as part:
                found = _hourly(part, sku)
                if isinstance(found, str):
                    doubts.append(f"{sku.description!r}: {found}")
                # One that is in doubt stands all the same: a wider one does not hold where it is.
                rate = found if isinstance(found, Decimal) else None
                width = _EVERYWHERE_WIDTH if sku.is_global else len(sku.regions)
                for region in sku.regions or {EVERYWHERE}:
                    told.setdefault((part, region), []).append((width, rate))
    return _settled(told, doubts)


def _hourly(part: Part, sku: Sku) -> Decimal | str | None:
    if not sku.tiers:
        return None  # who read it has said why
    hours = _UNITS[part.kind].get(sku.unit)
    if hours is None:
        return f"it is sold by {sku.unit[:20]!r}"
    # A machine is billed for months: what holds for its first minutes alone is not its rate.
    rate = rate_at(sku.tiers, HOURS_A_MONTH / hours)
    if rate is None or rate == 0:
        return "it costs nothing, which cannot be"
    return rate / hours


def _settled(told: _Told, doubts: list[str]) -> Tariff:
    rates: dict[tuple[Part, str], Decimal] = {}
    unsure: dict[Part, set[str]] = {}
    for (part, region), entries in told.items():
        narrowest = min(width for width, _ in entries)
        found = {rate for width, rate in entries if width == narrowest}
        first = min((each for each in found if each is not None), default=None)
        if len(found) == 1 and first is not None:
            rates[part, region] = first
            continue
        unsure.setdefault(part, set()).add(region)
        if len(found) > 1:
            doubts.append(
                f"{part.capacity_type} {part.thing} {part.kind} has {len(found)} prices"
                f" in {region or 'every region'}"
            )
    return Tariff(
        rates=rates,
        doubts=tuple(sorted(set(doubts))),
        unsure={part: frozenset(regions) for part, regions in unsure.items()},
    )
