"""Max wait as a ladder: when the wait runs out, the last accepted rung is climbed in time.

The rule: the broker keeps enough of the wait in hand to start on the most certain capacity type
that the user accepts. It climbs before the bound, never at it, and keeps at most half of it, so
that a short wait is still spent on the cheaper rungs first.
"""

from collections.abc import Iterable

from broker.model.capacity import Offer
from broker.model.intent import CapacityType
from broker.model.run import Run
from broker.placement.wait import ends_s, limit_s

# From the least to the most certain way to capacity.
RUNGS = (CapacityType.SPOT, CapacityType.FLEX, CapacityType.ON_DEMAND, CapacityType.RESERVED)
RESERVE_MIN_S = 30.0
RESERVE_UNKNOWN_S = 900.0  # a start on nodes that must be bought, with a second try
MOST_OF_WAIT = 0.5


def last_rung(run: Run) -> CapacityType:
    """Return the most certain capacity type that the run accepts."""
    return max(run.terms.capacity_types, key=RUNGS.index)


def climbs_at_s(run: Run, reserve_s: float) -> float | None:
    """Return when the run climbs (broker seconds); None: it has no bound, or has climbed."""
    bound_s, until_s = limit_s(run), ends_s(run)
    if bound_s is None or until_s is None or run.climbed:
        return None
    return until_s - min(reserve_s, MOST_OF_WAIT * bound_s)


def reserve_s(run: Run, offers: Iterable[Offer]) -> float:
    """Return the seconds in which a start on the last rung comes nine times of ten."""
    rung = last_rung(run)
    slowest = [
        offer.forecast.p90_s
        for offer in offers
        if offer.capacity_type is rung and offer.forecast.p90_s is not None
    ]
    return max(RESERVE_MIN_S, min(slowest)) if slowest else RESERVE_UNKNOWN_S
