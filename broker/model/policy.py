"""What ops set: per region and per team. Plain values with their documented defaults.

Seconds are broker seconds, money is US dollars. A policy is replaced whole, guarded by an etag.
"""

from dataclasses import dataclass
from decimal import Decimal

from broker.model.intent import CapacityType


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long each cause of a wait is borne before the broker acts, in seconds.

    ``stockout_half_life_s`` is how fast news of capacity fades: a place that failed a run without
    newer evidence is a last resort for so long.
    """

    quota_s: float = 600.0
    capacity_s: float = 120.0
    partial_s: float = 60.0
    flex_silent_s: float = 1800.0
    image_pull_s: float = 300.0
    pods_s: float = 300.0
    wedged_s: float = 120.0
    cluster_silent_s: float = 60.0
    start_report_s: float = 120.0
    verdict_s: float = 10.0
    content_s: float = 1800.0
    stockout_half_life_s: float = 1800.0  # spot pools turn over in tens of minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionPolicy:
    """What a region allows. ``weight`` multiplies its attraction (1.0 neutral, 0 never first).

    ``replace_unreachable_after_s`` None: a gang in an unreachable region is never replaced
    without a person's word. Price caps are per GPU-hour and capacity type.
    """

    is_allowed: bool = True
    weight: float = 1.0
    capacity_types: tuple[CapacityType, ...] = tuple(CapacityType)
    price_caps: tuple[tuple[CapacityType, Decimal], ...] = ()
    patience: Patience = Patience()
    hedge_width: int = 2
    gate_timeout_s: float = 900.0
    fence_grace_s: float = 30.0
    drain_s: float = 60.0
    replace_unreachable_after_s: float | None = None
    checkpoint_copies: int = 2
    egress_budget_bytes_per_hour: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamCaps:
    """What a team may hold at once. None means no cap. Minutes at gates are per day.

    ``copies_usd_per_day``: what the copies of its runs' checkpoints that begin within 24 hours may
    cost, in US dollars. It is counted from the broker's start on.
    """

    running_gpus: int | None = None
    gate_gpus: int | None = None
    gate_gpu_minutes_per_day: float | None = None
    budget: Decimal | None = None
    copies_usd_per_day: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamStanding:
    """What a team holds now, read in the transaction that spends it."""

    caps: TeamCaps
    running_gpus: int
    gate_gpus: int
    gate_gpu_minutes_today: float
    spent: Decimal
