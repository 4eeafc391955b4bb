"""What a run costs: one sum, whoever asks, of the machines that came while they were there.

The rule: a machine is paid from when it came until it is seen gone, at the price of its offer;
waiting in a queue and machines that never came cost nothing. Money is Decimal US dollars, each
phase rounded to a millionth, and a total is the sum of its phases. Read ``run_bill`` first.
"""

from decimal import ROUND_HALF_EVEN, Decimal

from broker.model.bill import Bill, Meter, NodesFrom, PaidTime, PhaseCost
from broker.model.metering import booked, gpus_per_node, told
from broker.model.moment import Moment
from broker.model.replacing import replace
from broker.model.run import PhaseSeconds, Placement, Purpose, Run, Site
from broker.model.states import PlacementState

MS_PER_HOUR = 3_600_000
_UNIT = Decimal("0.000001")


def run_bill(run: Run, now: Moment) -> Bill:
    """Return what the run was billed for so far, its live placements included."""
    return sum((placement_bill(p, now) for p in run.live_placements), run.bill)


def placement_bill(placement: Placement, now: Moment) -> Bill:
    """Return what the placement was billed for so far; of an ended one, what it was in the end."""
    if not placement.is_live:
        return placement.bill
    return _bill(placement.site, booked(placement.meter, placement.state, now.elapsed_s))


def final_bill(
    placement: Placement, nodes: tuple[NodesFrom, ...], now: Moment
) -> tuple[Bill, float | None]:
    """Return the bill of a placement that is over, and since when its machines are gone.

    ``nodes`` is how they came and went, as told; where no end is told they are paid until now,
    and the time is None.
    """
    meter = told(placement, nodes, now.elapsed_s)
    bill = _bill(placement.site, booked(meter, placement.state, now.elapsed_s))
    is_told = bool(nodes) and nodes[-1].nodes == 0
    return bill, min(nodes[-1].at_s, now.elapsed_s) if is_told else None


def live_cost(run: Run, now: Moment) -> Decimal:
    """Return US dollars that the run has cost so far, its live placements included."""
    return run_bill(run, now).cost.total


def hourly(run: Run) -> Decimal:
    """Return US dollars an hour of the machines that the run has now."""
    return sum((hourly_rate(p) for p in run.live_placements), Decimal(0))


def hourly_rate(placement: Placement) -> Decimal:
    """Return US dollars an hour of the machines that a live placement has now."""
    return placement.site.price_per_gpu_hour * gpus_here(placement)


def gpus_here(placement: Placement) -> int:
    """Return the accelerators of the machines that a live placement has now."""
    return placement.meter.nodes * gpus_per_node(placement.site)


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


def time_to_useful_work_s(run: Run) -> float | None:
    """Return the seconds from submit to the first training step, None before it."""
    if run.first_step_s is None:
        return None
    return max(0.0, run.first_step_s - run.created.elapsed_s)


def running_gpus(run: Run) -> int:
    """Return the GPUs that count against the team's running cap: granted or started, not gone.

    A promise: a gang counts whole from its grant on, whatever of it has come.
    """
    open_epoch = run.open_epoch
    granted = open_epoch.placement if open_epoch is not None else ""
    return sum(
        p.site.gpus
        for p in run.placements.values()
        if p.is_live and (p.state is PlacementState.RUNNING or p.id == granted)
    )


def gate_gpus(run: Run) -> int:
    """Return the GPUs that its ungranted legs hold, or may come to hold, in front of their gates.

    A promise, for a cap that is kept before machines are bought: a hedge or successor counts whole
    from the moment it is added, a first leg once its machines are on their way. What was spent of
    the minutes at gates is the truth: ``PaidTime.idle_ms``, of machines that came.
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


def _bill(site: Site, meter: Meter) -> Bill:
    time = meter.paid.times(gpus_per_node(site))
    return Bill(time=time, cost=_price(site, time))


def _price(site: Site, time: PaidTime) -> PhaseCost:
    return PhaseCost(
        provisioning=_dollars(site, time.provisioning_ms),
        at_gate=_dollars(site, time.at_gate_ms),
        running=_dollars(site, time.running_ms),
    )


def _dollars(site: Site, gpu_ms: int) -> Decimal:
    cost = site.price_per_gpu_hour * gpu_ms / MS_PER_HOUR
    return cost.quantize(_UNIT, rounding=ROUND_HALF_EVEN)
