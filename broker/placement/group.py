"""Runs of one demand, in order of rank, with what was found for them."""

from dataclasses import dataclass

from broker.model.capacity import FlavorFacts, FlavorKey, Offer, Refusal
from broker.placement.demand import Demand
from broker.placement.ladder import RESERVE_UNKNOWN_S
from broker.placement.line import Line

Place = tuple[FlavorKey, int]  # a flavor, and the index of a hardware option


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What was found for one run, unordered. ``reserve_s`` is what its ladder keeps in hand.

    ``never`` says why no place can ever take it, empty while one could or that is not known.
    """

    offers: list[Offer]
    refusals: list[Refusal]
    reserve_s: float
    never: str = ""


class Group:
    """Alike runs, and what each place is to them.

    ``found`` is as of the view's ``pulse`` and ``layout`` then; ``judged_s`` says when each place
    was judged, the longest ago first, and ``whole_s`` when all were (broker seconds).
    """

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self.line = Line()
        self.found: dict[Place, Offer | Refusal] = {}
        self.judged_s: dict[Place, float] = {}
        self.whole_s: float | None = None
        self.pulse = 0
        self.layout = 0
        self.assessment = Assessment(offers=[], refusals=[], reserve_s=RESERVE_UNKNOWN_S)

    def could_use(self, flavor: FlavorFacts) -> bool:
        """Return whether the demand's own terms accept a flavor, whatever its state."""
        demand = self.demand
        return flavor.capacity_type in demand.capacity_types and (
            not demand.regions or flavor.region in demand.regions
        )
