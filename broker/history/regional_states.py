"""What the small streams fold into: a region, a team, the broker itself. Frozen values.

The rule: one that nobody has spoken of is its fresh state. Read ``RegionState`` first.
"""

import hashlib
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache

from broker.model.copying import CopyKind, CopyRate
from broker.model.moment import Moment
from broker.model.policy import RegionPolicy, TeamCaps
from broker.model.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionDrain:
    """Ops asked what runs in the region to leave, each gang within ``grace_s`` seconds."""

    message: str
    grace_s: float
    began: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDoubt:
    """Why what answers as a region's store is not believed."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownOrphan:
    """Something in a cluster that is of no run. ``is_to_go``: a person said to remove it."""

    cluster: str
    object: str
    message: str
    is_ours: bool
    since: Moment
    is_to_go: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionState:
    """What ops said of a region, and what the log must know of it.

    ``waived_incarnation``: it need not be read after that restore. ``store`` is what its store was
    called when it was claimed, empty before. ``doubt`` None: nothing is known against its store.
    ``copy_rates`` are how fast copies into it were seen to come, the latest measured last.
    """

    id: str
    policy: RegionPolicy = field(default_factory=RegionPolicy)
    generation: int = 1
    is_cordoned: bool = False
    cordon_message: str = ""
    drain: RegionDrain | None = None
    waived_incarnation: int = 0
    store: str = ""
    doubt: StoreDoubt | None = None
    orphans: tuple[KnownOrphan, ...] = ()
    copy_rates: tuple[CopyRate, ...] = ()
    stream_version: int = 0

    def copy_rate(self, kind: CopyKind, source: str) -> float | None:
        """Return how fast copies from a region come, None where nobody has measured it."""
        found = (one for one in self.copy_rates if (one.kind, one.source) == (kind, source))
        return next((one.bytes_per_s for one in found), None)

    def orphan(self, cluster: str, object_: str) -> KnownOrphan | None:
        """Return an orphan by its cluster and what it is called there."""
        return next(
            (one for one in self.orphans if (one.cluster, one.object) == (cluster, object_)), None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamState:
    """What ops said of a team, and what is left of its runs that are no longer in the log.

    ``carried_usd`` is what those ``carried_runs`` had spent.
    """

    id: str
    caps: TeamCaps = field(default_factory=TeamCaps)
    generation: int = 1
    carried_usd: Decimal = Decimal(0)
    carried_runs: int = 0
    stream_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """Which life of the log this is. ``surveyed`` are the regions read whole in this life."""

    incarnation: int = 0
    is_restored: bool = False
    surveyed: frozenset[str] = frozenset()
    began: Moment | None = None
    key: str = ""
    stream_version: int = 0

    @property
    def mark(self) -> str:
        """What all that this log puts into clusters is marked with; it gives nothing of the key."""
        return _mark(self.key)


@lru_cache(maxsize=8)  # a log has one key, and each tick of a converger asks
def _mark(key: str) -> str:
    return hashlib.sha256(f"mark {key}".encode()).hexdigest()[:16]
