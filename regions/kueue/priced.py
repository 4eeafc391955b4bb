"""What a GPU of a flavor costs, and who says so. Pure.

The rule: a price that nobody knows is None, with a doubt for ops; where one is from a list, the
list's name and its age stand beside it. Read ``Priced``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from regions.capacity import KnownSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """US dollars for one GPU for an hour. ``words`` say what for and ``source`` is who said so,
    ``age_s`` ago, None where nobody listed it; ``doubt`` is for ops, empty for none."""

    per_gpu_hour: Decimal | None
    words: str = ""
    source: str = ""
    age_s: float | None = None
    doubt: str = ""

    def known(self, queue: str, flavor: str) -> KnownSeen | None:
        """Return it as what is known of a flavor, None where no list has it."""
        if self.age_s is None:
            return None
        return KnownSeen(
            queue=queue,
            flavor=flavor,
            what="price",
            words=self.words,
            source=self.source,
            age_s=self.age_s,
        )


PriceOf = Callable[[str, str, int], Priced]
"""Tells the price for a capacity type, an accelerator and how many a node has."""
