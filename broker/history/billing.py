"""Where the GPU-seconds went, and what they cost.

The rule: a GPU is paid from the moment its nodes are bought (PROVISIONING) until it is seen gone;
waiting in a queue costs nothing. Money is Decimal US dollars, rounded to a millionth. Read
``placement_cost`` first.
"""

from decimal import ROUND_HALF_EVEN, Decimal

from broker.model.moment import Moment
from broker.model.replacing import replace
from broker.model.run import PhaseSeconds, Placement, Purpose, Run
from broker.model.states import PlacementState

_CENTS = Decimal("0.000001")
_MS_PER_HOUR = Decimal(3_600_000)


def spend_phase(placement: Placement, until_s: float) -> PhaseSeconds:
    """Return the phases with the present state's time added, up to ``until_s`` (broker time)."""
    spent_s = max(0.0, until_s - placement.entered_s)
    phases = placement.phases
    match placement.state:
        case PlacementState.PREPARING:
            return replace(phases, preparing=phases.preparing + spent_s)
        case PlacementState.QUEUED:
            return replace(phases, queued=phases.queued + spent_s)
        case PlacementState.PROVISIONING:
            return replace(phases, provisioning=phases.provisioning + spent_s)
        case PlacementState.AT_GATE:
            return replace(phases, at_gate=phases.at_gate + spent_s)
        case PlacementState.RUNNING:
            return replace(phases, running=phases.running + spent_s)
        case PlacementState.ENDED:
            return phases


def billed_seconds(phases: PhaseSeconds) -> float:
    """Return the seconds that are paid for."""
    return phases.provisioning + phases.at_gate + phases.running


def billed_gpu_seconds(placement: Placement, now: Moment) -> float:
    """Return the accelerator seconds paid for so far."""
    return billed_seconds(spend_phase(placement, now.elapsed_s)) * placement.site.gpus


def placement_cost(placement: Placement, now: Moment) -> Decimal:
    """Return what the placement has cost so far: price per GPU-hour times billed GPU-hours."""
    if not placement.is_live:
        return placement.cost
    # Whole milliseconds: a float's last bits would make two replicas of a log disagree.
    gpu_ms = round(billed_gpu_seconds(placement, now) * 1000)
    cost = placement.site.price_per_gpu_hour * gpu_ms / _MS_PER_HOUR
    return cost.quantize(_CENTS, rounding=ROUND_HALF_EVEN)


def live_cost(run: Run, now: Moment) -> Decimal:
    """Return what the run has cost so far, its live placements included."""
    live = (placement_cost(p, now) for p in run.placements.values() if p.is_live)
    return run.spent + sum(live, Decimal(0))


def live_gpu_seconds(run: Run, now: Moment) -> PhaseSeconds:
    """Return accelerator seconds by phase so far, live placements included."""
    total = run.gpu_seconds
    for placement in run.placements.values():
        if placement.is_live:
            phases = spend_phase(placement, now.elapsed_s)
            total = add_phases(total, phases, placement.site.gpus)
    return total


def add_phases(total: PhaseSeconds, phases: PhaseSeconds, gpus: int) -> PhaseSeconds:
    """Return the total plus a placement's seconds times its GPUs."""
    return PhaseSeconds(
        preparing=total.preparing + phases.preparing * gpus,
        queued=total.queued + phases.queued * gpus,
        provisioning=total.provisioning + phases.provisioning * gpus,
        at_gate=total.at_gate + phases.at_gate * gpus,
        running=total.running + phases.running * gpus,
    )


def time_to_useful_work_s(run: Run) -> float | None:
    """Return the seconds from submit to the first training step, None before it."""
    if run.first_step_s is None:
        return None
    return max(0.0, run.first_step_s - run.created.elapsed_s)


def running_gpus(run: Run) -> int:
    """Return the GPUs that count against the team's running cap: granted or started, not gone."""
    open_epoch = run.open_epoch
    granted = open_epoch.placement if open_epoch is not None else ""
    return sum(
        p.site.gpus
        for p in run.placements.values()
        if p.is_live and (p.state is PlacementState.RUNNING or p.id == granted)
    )


def gate_gpus(run: Run) -> int:
    """Return the GPUs that its ungranted legs hold, or may come to hold, in front of their gates.

    A hedge or successor counts from the moment it is added, for its nodes come when they will.
    """
    return sum(
        p.site.gpus
        for p in run.placements.values()
        if p.is_waiting
        and (
            p.purpose in (Purpose.HEDGE, Purpose.SUCCESSOR)
            or p.state in (PlacementState.PROVISIONING, PlacementState.AT_GATE)
        )
    )


def gate_gpu_seconds(run: Run, now: Moment) -> float:
    """Return the accelerator seconds that the run's legs have stood at gates, over its life."""
    return live_gpu_seconds(run, now).at_gate
