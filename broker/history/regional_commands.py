"""What someone wants of a region, a team, or the log itself: the commands of the small streams.

The rule is that of ``commands.py``, which offers these as well. Read ``SetPolicy`` first.
"""

from dataclasses import dataclass
from decimal import Decimal

from broker.model.copying import CopyKind
from broker.model.policy import RegionPolicy, TeamCaps
from broker.model.reasons import Reason


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimStore:
    """The region's store is the one that is called ``store``, and this broker's."""

    store: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtStore:
    """What answers as the region's store is not the one that the log knows, or not ours alone."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptStore:
    """Take what answers as the region's store from now on; what the former one held is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOrphan:
    """Something in a cluster says that it is of a run which the log does not know.

    ``is_ours``: it carries the mark of this log, so that this broker once put it there.
    """

    cluster: str
    object: str
    message: str
    is_ours: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOrphanGone:
    """A whole look at its cluster did not show an orphan any more."""

    cluster: str
    object: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrphan:
    """Remove an orphan that is ours. Only a person gives it."""

    cluster: str
    object: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCopyRate:
    """Copies into the region come from ``source`` at so many bytes a second, smoothed."""

    kind: CopyKind
    source: str
    bytes_per_s: float


RegionCommand = (
    SetPolicy
    | CordonRegion
    | UncordonRegion
    | DrainRegion
    | WaiveRegion
    | ClaimStore
    | DoubtStore
    | AcceptStore
    | RecordOrphan
    | RecordOrphanGone
    | RemoveOrphan
    | RecordCopyRate
)


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
    """Begin the log's first life, or the next after a restore.

    ``key`` is the log's own secret, drawn once: a later life keeps the first one's.
    """

    incarnation: int
    is_restored: bool
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSurvey:
    """A region was read whole after a restore."""

    region: str


BrokerCommand = BeginIncarnation | RecordSurvey
