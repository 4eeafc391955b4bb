"""A book of prices, each with its date and source. Pure.

The rule: who asks gets a price and how old it is, or none and why. Where several machines answer
and cost differently the dearest does: a budget is not to be broken by an optimist. Read ``Book``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

DAY_S = 86_400.0
OLD_S = 7 * DAY_S
"""List prices change rarely and spot prices up to once a day: after a week it is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a whole machine costs for an hour, in US dollars; ``as_of_s`` is Unix time."""

    machine: str
    accelerator: str
    accelerators: int
    region: str
    capacity_type: str
    per_hour: Decimal
    as_of_s: float
    source: str

    @property
    def per_gpu_hour(self) -> Decimal:
        """US dollars for one accelerator and its share of the machine."""
        return round(self.per_hour / self.accelerators, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Whose price is wanted. ``machine`` empty and ``per_node`` None: any that has them."""

    region: str
    capacity_type: str
    accelerator: str
    per_node: int | None = None
    machine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """US dollars for one GPU for an hour, or None; ``why`` says what for, or why there is none.

    ``source`` is who said so and ``age_s`` how long ago: None where there is no price, or one that
    nobody listed.
    """

    per_gpu_hour: Decimal | None
    why: str
    source: str = ""
    age_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """Prices by region, capacity type and accelerator. ``doubts`` are sentences for ops."""

    prices: tuple[Price, ...]
    doubts: tuple[str, ...] = ()
    _by_place: dict[tuple[str, str, str], list[Price]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        for price in self.prices:
            place = (price.region, price.capacity_type, price.accelerator)
            self._by_place.setdefault(place, []).append(price)

    def quote(self, ask: Ask, now_s: float) -> Quote:
        """Answer with the dearest price that fits, and with its age."""
        fitting = [each for each in self._at(ask) if _fits(each, ask)]
        if not fitting:
            return Quote(per_gpu_hour=None, why=f"no price of {_words(ask)} is known")
        price = max(fitting, key=lambda each: each.per_gpu_hour)
        return Quote(
            per_gpu_hour=price.per_gpu_hour,
            why=f"{price.machine} in {price.region}",
            source=price.source,
            age_s=max(0.0, now_s - price.as_of_s),
        )

    def _at(self, ask: Ask) -> list[Price]:
        return self._by_place.get((ask.region, ask.capacity_type, ask.accelerator), [])


def vanished(before: Book, now: Book, asked: Iterable[Ask]) -> tuple[str, ...]:
    """Say which prices that are needed are not told any more."""
    return tuple(
        f"the price of {_words(ask)} is not in the catalog any more"
        for ask in asked
        if before.quote(ask, 0).per_gpu_hour is not None and now.quote(ask, 0).per_gpu_hour is None
    )


def _fits(price: Price, ask: Ask) -> bool:
    if ask.machine:
        return price.machine == ask.machine
    return ask.per_node is None or price.accelerators == ask.per_node


def _words(ask: Ask) -> str:
    count = "" if ask.per_node is None else f"{ask.per_node}x"
    machine = f" on {ask.machine}" if ask.machine else ""
    return f"{ask.capacity_type} {count}{ask.accelerator}{machine} in {ask.region}"
