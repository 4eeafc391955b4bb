"""Which book of prices is in force.

The rule: a catalog that was read whole takes the place of the former one; one that could not be
read, or that has lost most of its prices, changes nothing, and the prices in force grow old, which
is said. What a new catalog does not tell any more has no price from then on, and is said if it was
asked for; what is doubtful in it is of interest only where somebody gets no price. Read
``PriceKeeper.refresh``.
"""

import asyncio
from collections.abc import Awaitable, Callable

from regions.gcp.errors import BrokenError, GoogleError
from regions.gcp.prices.book import DAY_S, OLD_S, Ask, Book, Quote, vanished
from regions.gcp.prices.filing import PriceFile, UnusableFileError
from regions.gcp.prices.terms import Terms, listed

REFRESH_S = 12 * 3600.0
"""Google says that its catalog may be this old itself."""
RETRY_S = 900.0
LEAST_KEPT = 0.5
MAX_ASKED = 1_000
MAX_DOUBTS_SAID = 20


class PriceKeeper:
    """Prices for whoever asks, without a call; ``refresh`` is for a loop to call now and then.

    ``fetch`` reads a book from the cloud, as of a Unix time; ``base`` holds until there is one.
    """

    def __init__(
        self,
        *,
        file: PriceFile,
        base: Book,
        terms: Terms,
        fetch: Callable[[float], Awaitable[Book]],
    ) -> None:
        self._file = file
        self._base = base
        self._terms = terms
        self._fetch = fetch
        self._book: Book | None = None
        self._next_s = 0.0
        self._troubles: tuple[str, ...] = ()
        self._answered: set[Ask] = set()
        self._unanswered: set[Ask] = set()

    @property
    def troubles(self) -> tuple[str, ...]:
        """Sentences for ops: as of the last refresh, and what may be why a price is missing."""
        doubts = self._in_force().doubts if self._unanswered else ()
        return (*self._troubles, *doubts[:MAX_DOUBTS_SAID])

    async def load(self, now_s: float) -> None:
        """Take up what a former life left on disk."""
        try:
            self._book = await asyncio.to_thread(self._file.load, now_s)
        except UnusableFileError as error:
            self._troubles = (f"{error}; the catalog is read anew",)
        if self._book is not None and self._book.prices:
            self._next_s = _read_at(self._book) + REFRESH_S

    def quote(self, ask: Ask, now_s: float) -> Quote:
        """Answer from what is in force, with the contract over it."""
        quote, wanted = self._terms.quote(self._in_force(), ask, now_s), listed(ask)
        self._unanswered.discard(wanted)
        if len(self._answered | self._unanswered) < MAX_ASKED:
            if quote.per_gpu_hour is None:
                self._unanswered.add(wanted)
            elif quote.source:
                self._answered.add(wanted)
        return quote

    async def refresh(self, now_s: float) -> bool:
        """Read the catalog if it is due; return whether the prices in force are others now."""
        if now_s < self._next_s:
            return False
        try:
            book = await self._fetch(now_s)
            self._check(book, now_s)
        except GoogleError as error:
            self._next_s = now_s + RETRY_S
            old_s = now_s - _read_at(self._in_force())
            age = f"; those in force are {old_s / DAY_S:.0f} days old" if old_s > OLD_S else ""
            self._troubles = (f"prices could not be read: {error}{age}",)
            return False
        before, self._book = self._in_force(), book
        self._next_s = now_s + REFRESH_S
        gone = vanished(before, book, sorted(self._answered, key=str))
        self._answered.clear()
        self._troubles = (*gone, *await self._save(book))
        return True

    def _in_force(self) -> Book:
        # A catalog that does not tell a price any more is not overruled by an older list.
        return self._base if self._book is None else self._book

    def _check(self, book: Book, now_s: float) -> None:
        if not book.prices:
            raise BrokenError("the catalog makes no price of a whole machine")
        if self._book is None or now_s - _read_at(self._book) > OLD_S:
            return  # after a week it is the world that has changed
        known = len(self._book.prices)
        if len(book.prices) < known * LEAST_KEPT:
            raise BrokenError(f"the catalog has {len(book.prices)} prices and had {known}")

    async def _save(self, book: Book) -> tuple[str, ...]:
        try:
            await asyncio.to_thread(self._file.save, book)
        except OSError as error:
            return (f"prices are not kept for a restart: {error}",)
        return ()


def _read_at(book: Book) -> float:
    return min((each.as_of_s for each in book.prices), default=0.0)
