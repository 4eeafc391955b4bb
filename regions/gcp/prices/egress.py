"""What it costs to take a GiB from one location to another. Pure.

The rule: within one location nothing is paid; ops' own price comes before the list's; and a pair
that nobody has a price of costs as much as the dearest that the list has, which is said, for a
budget is not to be broken by an optimist. Read ``EgressTable.quote``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

from msgspec import Meta, Struct

Location = Annotated[str, Meta(max_length=63, pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?\Z")]
MOST_PER_GIB = Decimal(10)


class EgressTerm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ops pay for a GiB. A location is meant by the first whole words of its name.

    ``europe`` fits ``europe-west4``; one that is empty fits every location.
    """

    per_gib: Decimal
    source: Location = ""
    destination: Location = ""

    def fits(self, source: str, destination: str) -> bool:
        """Whether it is the price of a pair."""
        return begins(source, self.source) and begins(destination, self.destination)


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRow:
    """US dollars for a GiB between two areas, in either direction; both may be the same one."""

    areas: frozenset[str]
    per_gib: Decimal
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressQuote:
    """US dollars for a GiB, and in words whose price it is. ``is_known`` False: the dearest."""

    per_gib: Decimal
    is_known: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressTable:
    """A list of prices between areas, and ops' own prices over it.

    ``areas`` are, by name, how the names of their locations begin.
    """

    areas: Mapping[str, tuple[str, ...]]
    rows: tuple[EgressRow, ...]
    terms: tuple[EgressTerm, ...] = ()

    def quote(self, source: str, destination: str) -> EgressQuote:
        """Answer what a GiB from one location to another costs. Either may be unknown, empty."""
        if source and source == destination:
            return EgressQuote(per_gib=Decimal(0), is_known=True, why="it stays where it is")
        agreed = [term for term in self.terms if term.fits(source, destination)]
        if agreed:
            best = max(agreed, key=_precedence)
            return EgressQuote(per_gib=best.per_gib, is_known=True, why="prices.egress")
        areas = frozenset((self._area(source), self._area(destination)))
        told = [row for row in self.rows if row.areas == areas]
        if told:
            row = max(told, key=lambda one: one.per_gib)
            return EgressQuote(per_gib=row.per_gib, is_known=True, why=row.source)
        return EgressQuote(
            per_gib=max((row.per_gib for row in self.rows), default=MOST_PER_GIB),
            is_known=False,
            why=f"no price from {source or 'nowhere known'} to {destination} is known, and the"
            " dearest is assumed; prices.egress says what is paid",
        )

    def _area(self, location: str) -> str:
        """Return the area of a location, empty for none."""
        found = {word: area for area, words in self.areas.items() for word in words}
        fitting = [word for word in found if begins(location, word)]
        return found[max(fitting, key=len)] if location and fitting else ""


def problems(terms: Iterable[EgressTerm]) -> Iterable[tuple[str, str]]:
    """Say what cannot be of ops' own prices, as (field, sentence)."""
    pairs: set[tuple[str, str]] = set()
    for at, term in enumerate(terms):
        if not (term.per_gib.is_finite() and 0 <= term.per_gib <= MOST_PER_GIB):
            yield f"[{at}].per_gib", f"is not between 0 and {MOST_PER_GIB}"
        if (term.source, term.destination) in pairs:
            yield f"[{at}]", "is the price of the same pair as an earlier one"
        pairs.add((term.source, term.destination))


def begins(name: str, words: str) -> bool:
    """Whether these are the first whole words of a name; no words begin every name."""
    return not words or f"{name}-".startswith(f"{words}-")


def _precedence(term: EgressTerm) -> tuple[int, Decimal]:
    """Return how a price ranks among those that fit: by how much it names, then the dearest."""
    return len(term.source) + len(term.destination), term.per_gib
