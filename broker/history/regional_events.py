"""What happened to a region, a team, or the log itself: the events of the small streams.

The rule is that of ``events.py``, whose ``Event`` takes these in. Read ``PolicySet`` first.
"""

from dataclasses import dataclass
from decimal import Decimal

from broker.model.policy import RegionPolicy, TeamCaps


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySet:
    """Ops replaced a region's policy."""

    policy: RegionPolicy
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCordoned:
    """No new placement goes there."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionUncordoned:
    """New placements may go there again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionDrainBegan:
    """What runs there is asked to leave; cordoned as well."""

    message: str
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionWaived:
    """A person said by name that a restored broker may go on without this region (R1)."""

    incarnation: int


RegionEvent = PolicySet | RegionCordoned | RegionUncordoned | RegionDrainBegan | RegionWaived


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsSet:
    """Ops replaced a team's caps."""

    caps: TeamCaps
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendCarried:
    """Ended runs left the log; what they had spent, in US dollars, stays with their team."""

    usd: Decimal
    runs: int


TeamEvent = CapsSet | SpendCarried


@dataclass(frozen=True, slots=True, kw_only=True)
class IncarnationBegan:
    """The log began a life: 1 when created, one more at each restore."""

    incarnation: int
    is_restored: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSurveyed:
    """A restored broker has read a region's cluster and store whole (R1)."""

    region: str
    incarnation: int


BrokerEvent = IncarnationBegan | RegionSurveyed
