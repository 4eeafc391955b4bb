"""Who was refused the priority that a gang gets with its grant. Pure but for its memory.

The rule: the grant stands whatever comes of it; what the cluster refuses is shown with the gang for
as long as it is so, for it can be preempted as one that only waits. Silence is no refusal: it is
tried again. Read ``Refusals.take_in``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from regions.cluster import Outcome, PlacementSeen
from regions.kueue.words import cleaned


class Refusals:
    """What was refused, by a gang's uid."""

    def __init__(self) -> None:
        self._refused: dict[str, str] = {}

    def take_in(self, uid: str, outcome: Outcome) -> None:
        """Remember what became of raising a gang."""
        if outcome.is_done:
            self._refused.pop(uid, None)
        elif outcome.retry_after_s is None:
            self._refused[uid] = (
                "it is granted, and runs with the priority that it waited with, for its cluster"
                f" refuses to raise it: {cleaned(outcome.message)}"
            )

    def forget(self, uids: Iterable[str]) -> None:
        """Show these no longer: what was refused to us was done by somebody else since."""
        for uid in uids:
            self._refused.pop(uid, None)

    def shown(self, seen: Iterable[PlacementSeen]) -> Mapping[str, PlacementSeen]:
        """Return placements by their id, with what was refused to them; others are forgotten."""
        found = {each.placement: each for each in seen}
        here = {each.uid: each.placement for each in found.values()}
        self._refused = {uid: why for uid, why in self._refused.items() if uid in here}
        for uid, why in self._refused.items():
            found[here[uid]] = replace(found[here[uid]], warning=why)
        return found
