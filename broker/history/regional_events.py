"""What happened to a region, a team, or the log itself: the events of the small streams.

The rule is that of ``events.py``, whose ``Event`` takes these in. Read ``PolicySet`` first.
"""

from dataclasses import dataclass
from decimal import Decimal

from broker.model.copying import CopyKind
from broker.model.policy import RegionPolicy, TeamCaps
from broker.model.reasons import Reason


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreClaimed:
    """The region's store was found to be the one of this name, and this broker's."""

    store: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDoubted:
    """What answers as the region's store is another one, or somebody else's; nothing starts."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAccepted:
    """A person said to go on with what answers as the store; ``lost`` is what it was before."""

    lost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanSeen:
    """Something in a cluster looks like ours and is of no run of the log (law 10)."""

    cluster: str
    object: str
    message: str
    is_ours: bool
    reason: Reason = Reason.ORPHAN_SEEN


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanGone:
    """An orphan is no longer there."""

    cluster: str
    object: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanRemovalOrdered:
    """A person said to remove an orphan, which carries this log's mark."""

    cluster: str
    object: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRateMeasured:
    """Copies into the region were seen to come from ``source`` at another rate than known."""

    kind: CopyKind
    source: str
    bytes_per_s: float


RegionEvent = (
    PolicySet
    | RegionCordoned
    | RegionUncordoned
    | RegionDrainBegan
    | RegionWaived
    | StoreClaimed
    | StoreDoubted
    | StoreAccepted
    | OrphanSeen
    | OrphanGone
    | OrphanRemovalOrdered
    | CopyRateMeasured
)


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
    """The log began a life: 1 when created, a higher one at each restore.

    ``key`` is the log's own secret: what a life writes into stores is signed with it.
    """

    incarnation: int
    is_restored: bool
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSurveyed:
    """A restored broker has read a region's cluster and store whole (R1)."""

    region: str
    incarnation: int


BrokerEvent = IncarnationBegan | RegionSurveyed
