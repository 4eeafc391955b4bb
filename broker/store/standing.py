"""What each team holds now, kept up to date by the runs that changed.

The rule: a limit that spans runs is checked against these numbers in the transaction that spends
them (law 7). A holding is a value: a batch makes new ones, and a batch that fails leaves no trace.
Read ``account`` first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from broker.history.billing import gate_gpus, running_gpus
from broker.model.moment import Moment
from broker.model.policy import TeamCaps, TeamStanding
from broker.model.run import Run
from broker.model.states import PlacementState

DAY_S = 86_400.0
DAYS_KEPT = 2  # today, and yesterday for a clock that is set back over midnight


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One team's sums.

    ``at_gate`` maps a gang that stands at a gate to (GPUs, since when on the elapsed axis).
    ``gate_ms`` are GPU-milliseconds at gates by day (days since 1970, UTC), of gangs that left
    them; whole numbers, so that the order of adding changes nothing.
    """

    running_gpus: int = 0
    gate_gpus: int = 0
    spent: Decimal = Decimal(0)
    at_gate: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    gate_ms: Mapping[int, int] = field(default_factory=dict)


def account(holding: Holding, before: Run | None, after: Run | None, at: Moment) -> Holding:
    """Return a team's sums after one of its runs changed; None is a run that is not there."""
    if not _has_changed(before, after):
        return holding
    was, has = _share(before), _share(after)
    if was == has:
        return holding
    at_gate = holding.at_gate
    if was.at_gate != has.at_gate:
        at_gate = {k: v for k, v in at_gate.items() if k not in was.at_gate}
        at_gate |= has.at_gate
    return Holding(
        running_gpus=holding.running_gpus + has.running_gpus - was.running_gpus,
        gate_gpus=holding.gate_gpus + has.gate_gpus - was.gate_gpus,
        spent=holding.spent + has.spent - was.spent,
        at_gate=at_gate,
        gate_ms=_add_to_day(holding.gate_ms, has.gate_ms - was.gate_ms, at),
    )


def standing(holding: Holding, caps: TeamCaps, now: Moment) -> TeamStanding:
    """Return what the team holds at this moment, in the form that decisions read."""
    live_s = sum(gpus * now.since(since_s) for gpus, since_s in holding.at_gate.values())
    return TeamStanding(
        caps=caps,
        running_gpus=holding.running_gpus,
        gate_gpus=holding.gate_gpus,
        gate_gpu_minutes_today=(holding.gate_ms.get(day_of(now), 0) / 1000.0 + live_s) / 60.0,
        spent=holding.spent,
    )


def day_of(moment: Moment) -> int:
    """Return the day since 1970, UTC."""
    return int(moment.wall_s // DAY_S)


def gate_ms_of(run: Run | None) -> int:
    """Return the GPU-milliseconds that a run's gangs stood at gates which they have left."""
    if run is None:
        return 0
    live_s = sum(p.phases.at_gate * p.site.gpus for p in run.live_placements)
    return round((run.gpu_seconds.at_gate + live_s) * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """What one run adds to its team's sums."""

    running_gpus: int = 0
    gate_gpus: int = 0
    spent: Decimal = Decimal(0)
    at_gate: Mapping[str, tuple[int, float]] = field(default_factory=dict)
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
        at_gate={
            f"{run.uid}/{p.id}": (p.site.gpus, p.entered_s)
            for p in run.live_placements
            if p.state is PlacementState.AT_GATE
        },
        gate_ms=gate_ms_of(run),
    )


def _add_to_day(gate_ms: Mapping[int, int], added: int, at: Moment) -> Mapping[int, int]:
    if added == 0:
        return gate_ms
    today = day_of(at)
    kept = {day: ms for day, ms in gate_ms.items() if day > today - DAYS_KEPT}
    return kept | {today: kept.get(today, 0) + added}
