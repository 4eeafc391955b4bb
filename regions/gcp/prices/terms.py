"""What ops have agreed with Google, laid over list prices. Pure.

The rule: of the factors that fit the one that names most holds; a reservation that is paid whether
it is used or not costs a run nothing more, and one that nobody declared costs its on-demand price.
Read ``Terms.quote``.
"""

from dataclasses import replace
from decimal import Decimal
from typing import Annotated

from msgspec import Meta, Struct

from regions.gcp.prices.book import Ask, Book, Quote

Word = Annotated[str, Meta(max_length=63)]

RESERVED, ON_DEMAND = "RESERVED", "ON_DEMAND"
MOST_FACTOR = Decimal(10)


class Factor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A list price times this is what is paid. A field that is empty fits everything."""

    factor: Decimal
    region: Word = ""
    capacity_type: Word = ""
    accelerator: Word = ""


class Sunk(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reserved machines that are paid for already. ``region`` empty: in every region."""

    accelerator: Word
    region: Word = ""


class Terms(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A contract: factors over list prices, and what is paid already."""

    factors: tuple[Factor, ...] = ()
    sunk: tuple[Sunk, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what contradicts itself or cannot be meant. Raises ValueError."""
        for at, each in enumerate(self.factors):
            if not (each.factor.is_finite() and 0 < each.factor <= MOST_FACTOR):
                raise ValueError(f"factors[{at}].factor is {each.factor}, not in (0, 10]")
            for other in self.factors[:at]:
                if _named(other) == _named(each) and _overlaps(other, each):
                    raise ValueError(f"factors[{at}] and an earlier one fit the same prices")

    def quote(self, book: Book, ask: Ask, now_s: float) -> Quote:
        """Answer as a book does, with the contract over it."""
        if ask.capacity_type == RESERVED and any(_covers(each, ask) for each in self.sunk):
            return Quote(per_gpu_hour=Decimal(0), why="a reservation that is paid already")
        return self._agreed(book.quote(listed(ask), now_s), ask)

    def _agreed(self, quote: Quote, ask: Ask) -> Quote:
        fitting = [each for each in self.factors if _fits(each, ask)]
        if quote.per_gpu_hour is None or not fitting:
            return quote
        best = max(fitting, key=_named)
        return replace(
            quote,
            per_gpu_hour=round(quote.per_gpu_hour * best.factor, 6),
            why=f"{quote.why}, times {best.factor} by contract",
        )


def listed(ask: Ask) -> Ask:
    """Return under what a list has the price of an ask: a reservation is billed as on-demand."""
    return replace(ask, capacity_type=ON_DEMAND) if ask.capacity_type == RESERVED else ask


def _fits(factor: Factor, ask: Ask) -> bool:
    return (
        factor.region in ("", ask.region)
        and factor.capacity_type in ("", ask.capacity_type)
        and factor.accelerator in ("", ask.accelerator)
    )


def _named(factor: Factor) -> int:
    return sum(bool(each) for each in _fields(factor))


def _overlaps(one: Factor, other: Factor) -> bool:
    """Whether some price fits both: no field of theirs names two different things."""
    pairs = zip(_fields(one), _fields(other), strict=True)
    return all(a == b or not a or not b for a, b in pairs)


def _fields(factor: Factor) -> tuple[str, str, str]:
    return (factor.region, factor.capacity_type, factor.accelerator)


def _covers(sunk: Sunk, ask: Ask) -> bool:
    return sunk.accelerator == ask.accelerator and sunk.region in ("", ask.region)
