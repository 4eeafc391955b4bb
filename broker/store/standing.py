"""What each team holds now, kept up to date by the runs that changed.

The rule: a limit that spans runs is checked against these numbers in the transaction that spends
them (law 7). A holding is a value: a batch makes new ones, and a batch that fails leaves no trace.
Read ``account`` first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from broker.model.billing import (
    MS_PER_HOUR,
    gate_gpus,
    gpus_here,
    hourly_rate,
    running_gpus,
)
from broker.model.metering import gpus_per_node
from broker.model.moment import Moment
from broker.model.policy import TeamCaps, TeamStanding
from broker.model.run import Placement, Run
from broker.model.states import PlacementState

DAY_S = 86_400.0
_UNIT = Decimal("0.000001")
DAYS_KEPT = 2  # today, and yesterday for a clock that is set back over midnight


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What grows evenly: ``base`` at zero of the elapsed axis, and ``rate`` a millisecond."""

    base: Decimal = Decimal(0)
    rate: Decimal = Decimal(0)

    def at(self, now: Moment) -> Decimal:
        """Return how much it is at a moment."""
        return self.base + self.rate * round(now.elapsed_s * 1000)

    def __add__(self, other: "Line") -> "Line":
        return Line(base=self.base + other.base, rate=self.rate + other.rate)

    def __sub__(self, other: "Line") -> "Line":
        return Line(base=self.base - other.base, rate=self.rate - other.rate)


NOTHING = Line()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One team's sums.

    ``spent`` is of ended placements; ``live`` is what the live ones cost, ``idle`` the
    GPU-milliseconds that they stand at gates and that are not in ``gate_ms`` yet. ``gate_ms`` are
    GPU-milliseconds at gates by day (days since 1970, UTC). Sums are of whole numbers and
    Decimals, so that the order of adding changes nothing.
    """

    running_gpus: int = 0
    gate_gpus: int = 0
    spent: Decimal = Decimal(0)
    live: Line = NOTHING
    idle: Line = NOTHING
    gate_ms: Mapping[int, int] = field(default_factory=dict)


def account(holding: Holding, before: Run | None, after: Run | None, at: Moment) -> Holding:
    """Return a team's sums after one of its runs changed; None is a run that is not there."""
    if not _has_changed(before, after):
        return holding
    was, has = _share(before), _share(after)
    if was == has:
        return holding
    return Holding(
        running_gpus=holding.running_gpus + has.running_gpus - was.running_gpus,
        gate_gpus=holding.gate_gpus + has.gate_gpus - was.gate_gpus,
        spent=holding.spent + has.spent - was.spent,
        live=holding.live + has.live - was.live,
        idle=holding.idle + has.idle - was.idle,
        gate_ms=_add_to_day(holding.gate_ms, has.gate_ms - was.gate_ms, at),
    )


def standing(holding: Holding, caps: TeamCaps, now: Moment) -> TeamStanding:
    """Return what the team holds at this moment, in the form that decisions read."""
    idle_ms = holding.gate_ms.get(day_of(now), 0) + int(holding.idle.at(now))
    live = (holding.live.at(now) / MS_PER_HOUR).quantize(_UNIT)
    return TeamStanding(
        caps=caps,
        running_gpus=holding.running_gpus,
        gate_gpus=holding.gate_gpus,
        gate_gpu_minutes_today=max(0, idle_ms) / 60_000.0,
        spent=holding.spent + max(Decimal(0), live),
    )


def day_of(moment: Moment) -> int:
    """Return the day since 1970, UTC."""
    return int(moment.wall_s // DAY_S)


def gate_ms_of(run: Run | None) -> int:
    """Return the GPU-milliseconds of machines at gates, as far as the run has them booked."""
    if run is None:
        return 0
    live_ms = (p.meter.paid.idle_ms * gpus_per_node(p.site) for p in run.live_placements)
    return run.bill.time.idle_ms + sum(live_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """What one run adds to its team's sums."""

    running_gpus: int = 0
    gate_gpus: int = 0
    spent: Decimal = Decimal(0)
    live: Line = NOTHING
    idle: Line = NOTHING
    gate_ms: int = 0


_NOTHING = _Share()


def _has_changed(before: Run | None, after: Run | None) -> bool:
    # Most events touch no placement and no epoch; evolve then leaves the very same objects.
    if before is None or after is None:
        return True
    return before.placements is not after.placements or before.epochs is not after.epochs


def _share(run: Run | None) -> _Share:
    if run is None or not run.placements:
        return _NOTHING
    return _Share(
        running_gpus=running_gpus(run),
        gate_gpus=gate_gpus(run),
        spent=run.spent,
        live=sum((_cost_of(p) for p in run.live_placements), NOTHING),
        idle=sum((_idle_of(p) for p in run.live_placements), NOTHING),
        gate_ms=gate_ms_of(run),
    )


def _cost_of(placement: Placement) -> Line:
    """Return what a live placement costs, in US dollars times the milliseconds of an hour."""
    site, meter, rate = placement.site, placement.meter, hourly_rate(placement)
    booked = site.price_per_gpu_hour * gpus_per_node(site) * meter.paid.total_ms
    return Line(base=booked - rate * meter.since_ms, rate=rate)


def _idle_of(placement: Placement) -> Line:
    """Return the GPU-milliseconds at its gate that a live placement has not booked yet."""
    if placement.state is PlacementState.RUNNING:
        return NOTHING
    gpus = Decimal(gpus_here(placement))
    return Line(base=-gpus * placement.meter.since_ms, rate=gpus)


def _add_to_day(gate_ms: Mapping[int, int], added: int, at: Moment) -> Mapping[int, int]:
    if added == 0:
        return gate_ms
    today = day_of(at)
    kept = {day: ms for day, ms in gate_ms.items() if day > today - DAYS_KEPT}
    return kept | {today: kept.get(today, 0) + added}
