"""What a GPU of a real cluster costs, and what leaves a region: books with a contract over them.

The rule: to ask is no call. Prices that cannot be read anew grow old, and that is said; a price
that nobody knows is none. Read ``Pricing`` first.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from broker.config import Prices
from broker.fleet.fleet import Troubles, Work
from broker.model.copying import EgressPrice, EgressPriceOf
from regions.gcp.prices.book import Ask, Book, Quote
from regions.gcp.prices.shipped import shipped, shipped_egress
from regions.gcp.prices.terms import RESERVED, Terms
from regions.kueue.priced import Priced, PriceOf


class Quoting(Protocol):
    """Who answers for prices: a book with terms, or one that is kept up to date."""

    def quote(self, ask: Ask, now_s: float) -> Quote:
        """Answer as of a Unix time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One book, as it is."""

    book: Book
    terms: Terms

    def quote(self, ask: Ask, now_s: float) -> Quote:
        """Answer from the book, with the contract over it."""
        return self.terms.quote(self.book, ask, now_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """Prices for all clusters. ``works`` keeps them up to date, ``troubles`` say what it cannot."""

    quoting: Quoting
    works: tuple[tuple[str, Work], ...] = ()
    troubles: Troubles = tuple
    wall_s: Callable[[], float] = time.time

    def at(self, region: str) -> PriceOf:
        """Return who tells the prices of a region."""

        def price(capacity_type: str, accelerator: str, per_node: int) -> Priced:
            ask = Ask(
                region=region,
                capacity_type=capacity_type,
                accelerator=accelerator,
                per_node=per_node,
            )
            quote = self.quoting.quote(ask, self.wall_s())
            if quote.per_gpu_hour is None:
                mend = "; prices.sunk says what is paid already" * (capacity_type == RESERVED)
                doubt = f"{quote.why}, and no run starts at a price that is not known{mend}"
                return Priced(per_gpu_hour=None, doubt=doubt)
            return Priced(
                per_gpu_hour=quote.per_gpu_hour,
                words=quote.why,
                source=quote.source,
                age_s=quote.age_s,
            )

        return price


def open_pricing(prices: Prices, data: Path) -> Pricing:
    """Return the prices that a configuration asks for; Google's are kept under ``data``."""
    if prices.source == "shipped":
        return Pricing(quoting=Listed(book=shipped(), terms=prices.terms))

    from broker.fleet.google import OwnDoors, google_prices

    keeper, work = google_prices(prices.terms, data / "prices.json", OwnDoors())
    return Pricing(quoting=keeper, works=(("prices", work),), troubles=lambda: keeper.troubles)


def open_egress(prices: Prices) -> EgressPriceOf:
    """Return who tells what a GiB costs between two regions: the list, ops' own prices over it."""
    table = shipped_egress(prices.egress)
    known: dict[tuple[str, str], EgressPrice] = {}

    def price(source: str, destination: str) -> EgressPrice:
        # Each place that a run could go to is asked about at every look, and prices do not change.
        found = known.get((source, destination))
        if found is None:
            quote = table.quote(source, destination)
            doubt = "" if quote.is_known else quote.why
            found = known[source, destination] = EgressPrice(per_gib=quote.per_gib, doubt=doubt)
        return found

    return price
