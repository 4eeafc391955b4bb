"""Runs of one demand, in order of rank, with what was found for them."""

from dataclasses import dataclass

from broker.model.capacity import FlavorFacts, FlavorKey, Offer, Refusal
from broker.placement.demand import Demand
from broker.placement.ladder import RESERVE_UNKNOWN_S
from broker.placement.line import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessed:
    """What a flavor is to a demand, at a stamp of the flavor and a broker time."""

    stamp: int
    at_s: float
    found: Offer | Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What was found for one run, unordered. ``reserve_s`` is what its ladder keeps in hand."""

    offers: list[Offer]
    refusals: list[Refusal]
    reserve_s: float


class Group:
    """Alike runs. ``assessed`` is a cache by flavor and hardware option.

    ``found`` is the whole of it, as of ``found_at_s`` and the view's pulse then.
    """

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self.line = Line()
        self.assessed: dict[tuple[FlavorKey, int], Assessed] = {}
        self.found = Assessment(offers=[], refusals=[], reserve_s=RESERVE_UNKNOWN_S)
        self.found_at_s: float | None = None
        self.found_pulse = 0

    def could_use(self, flavor: FlavorFacts) -> bool:
        """Return whether the demand's own terms accept a flavor, whatever its state."""
        demand = self.demand
        return flavor.capacity_type in demand.capacity_types and (
            not demand.regions or flavor.region in demand.regions
        )
