"""What someone wants of a region, a team, or the log itself: the commands of the small streams.

The rule is that of ``commands.py``, which offers these as well. Read ``SetPolicy`` first.
"""

from dataclasses import dataclass
from decimal import Decimal

from broker.model.policy import RegionPolicy, TeamCaps


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPolicy:
    """Replace a region's policy."""

    policy: RegionPolicy
    expected_generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonRegion:
    """Send no new placement there."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncordonRegion:
    """Allow new placements, and end a drain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRegion:
    """Cordon, and ask what runs there to leave."""

    message: str
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiveRegion:
    """Let a restored broker go on without having seen the region."""


RegionCommand = SetPolicy | CordonRegion | UncordonRegion | DrainRegion | WaiveRegion


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCaps:
    """Replace a team's caps."""

    caps: TeamCaps
    expected_generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CarrySpend:
    """Keep what ended runs spent, in US dollars, while they leave the log in this transaction."""

    usd: Decimal
    runs: int


TeamCommand = SetCaps | CarrySpend


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginIncarnation:
    """Begin the log's first life, or the next after a restore."""

    incarnation: int
    is_restored: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSurvey:
    """A region was read whole after a restore."""

    region: str


BrokerCommand = BeginIncarnation | RecordSurvey
