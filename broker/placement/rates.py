"""How fast copies go between regions of late, for forecasts of the next.

The rule: each pair of regions has a rate of its own, in bytes a second. Read ``Rates.foreseen``.
"""

from collections.abc import Iterable

from broker.model.copying import CopyKind, CopyRate


class Rates:
    """What was measured, by whoever copies, in this life of the broker and in former ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[CopyKind, str, str], float] = {}

    def tell(self, kind: CopyKind, source: str, destination: str, bytes_per_s: float) -> None:
        """Take in how fast copies go of late from a region, or from none, into another."""
        self._known[kind, source, destination] = bytes_per_s

    def keep(self, destination: str, rates: Iterable[CopyRate]) -> None:
        """Take in the rates that the log has kept; what was measured since is nearer the truth."""
        for rate in rates:
            self._known.setdefault((rate.kind, rate.source, destination), rate.bytes_per_s)

    def between(self, kind: CopyKind, source: str, destination: str) -> float | None:
        """Return how fast copies went between the two, None where none did."""
        return self._known.get((kind, source, destination))

    def foreseen(self, kind: CopyKind, source: str, destination: str) -> float | None:
        """Return how fast a copy between the two would go, None for unknown.

        Where none went between the two, the slowest that came from elsewhere stands for it.
        """
        known = self.between(kind, source, destination)
        if known is not None:
            return known
        into = (
            rate for (what, _, to), rate in self._known.items() if (what, to) == (kind, destination)
        )
        return min(into, default=None)
