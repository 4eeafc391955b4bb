"""The store's half of what is shown of a gang: who of it stands at its gate. Pure.

The rule: whose gate shows nothing new is shown as it was. Read ``GateView.joined``.
"""

from dataclasses import dataclass, replace

from regions import observing
from regions.cluster import PlacementSeen
from regions.store_eye import Look


@dataclass(frozen=True, slots=True)
class GateView:
    """One look at the store, at ``monotonic_s``; a count proves something for ``fresh_s``."""

    look: Look
    monotonic_s: float
    fresh_s: float

    def joined(self, seen: PlacementSeen, ranks: int) -> PlacementSeen:
        """Add who of so many ranks stands at the gate."""
        gate = observing.at_gate(
            seen.placement,
            self.look.runs.get(seen.run_key),
            self.look.epochs,
            ranks=ranks,
            alive={one.member for one in seen.members if one.is_alive},
            now_s=self.monotonic_s,
            fresh_s=self.fresh_s,
        )
        shown = (seen.standing, seen.is_whole_at_gate, seen.is_granted)
        if (gate.standing, gate.is_whole, gate.is_granted) == shown:
            return seen
        return replace(
            seen,
            standing=gate.standing,
            is_whole_at_gate=gate.is_whole,
            is_granted=gate.is_granted,
        )
