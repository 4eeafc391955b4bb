"""Whether a copy of a checkpoint may be paid: by its run, and by its team. Pure but for the books.

The rule: a copy that would go beyond what is left is not begun, and says so. What is on its way is
paid for already. Read ``Purse.refusal``.
"""

from decimal import Decimal

from broker.loops.egress import Egress
from broker.model.run import Run
from broker.placement.view import View
from broker.placement.words import money


class Purse:
    """What copies may still cost: of a run over its whole life, of a team within a day."""

    def __init__(self, egress: Egress, view: View) -> None:
        self._egress = egress
        self._view = view

    def refusal(self, run: Run, usd: Decimal, *, coming_usd: Decimal) -> str:
        """Return why a copy at this price may not be made, empty when it may.

        ``coming_usd`` is what the run's copies cost that are on their way.
        """
        left = run.copies_left
        if left is not None and coming_usd + usd > left:
            return _beyond(usd, max(Decimal(0), left - coming_usd), "the run's budget for copies")
        team = run.intent.team
        standing = self._view.teams.get(team)
        cap = None if standing is None else standing.caps.copies_usd_per_day
        if cap is None:
            return ""
        rest = max(Decimal(0), cap - self._egress.charged_usd(team))
        return _beyond(usd, rest, f"team {team}'s budget for copies of a day") if usd > rest else ""


def _beyond(usd: Decimal, left: Decimal, whose: str) -> str:
    return f"a copy costs about {money(usd)}, and {money(left)} of {whose} is left"
