"""When a run gets one more leg, and what bounds it.

The rule: a hedge costs GPUs that stand at a gate, so it needs evidence: every leg so far is judged
stuck, the chance that any of them comes within the wait is low, or the ladder was climbed. Bounds:
the policies' width, one flex leg, and the team's GPUs and minutes at gates.
"""

from math import prod

from broker.model.capacity import Offer
from broker.model.intent import CapacityType
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Placement, Purpose, Run
from broker.model.states import PlacementState, RunState
from broker.placement.forecast import STARTUP_S
from broker.placement.ladder import last_rung
from broker.placement.share import Blocked, Tally
from broker.placement.view import View

ENOUGH_CHANCE = 0.5  # a second leg is bought when the first is more likely to miss the wait
SUCCESSOR_TRIES = 3.0  # times the start-up of nodes: a successor is there when its time comes
SUCCESSOR_LEAD_MIN_S = 120.0
_OUT_OF_STOCK = frozenset({Reason.STOCKOUT, Reason.PARTIAL_ARRIVAL})


def waiting_legs(run: Run) -> list[Placement]:
    """Return the legs that the run's start may come from, oldest first.

    A leg whose grant came with its placement may never start, so it is one of them.
    """
    epoch = run.open_epoch
    early = epoch.placement if epoch is not None and epoch.started_s is None else ""
    return [
        leg
        for leg in run.placements.values()
        if leg.is_waiting or (leg.id == early and leg.withdraw is None and leg.is_live)
    ]


def wanted(view: View, run: Run, now: Moment) -> Purpose | None:
    """Return for what purpose the run wants one more leg, or None."""
    legs = waiting_legs(run)
    if run.ending is not None:
        return None
    epoch = run.open_epoch
    if epoch is not None and epoch.stop is not None:
        return None
    if epoch is not None and epoch.started_s is not None:
        at_s = successor_at_s(view, run)
        is_due = at_s is not None and now.elapsed_s >= at_s
        return Purpose.SUCCESSOR if is_due and not legs else None
    if run.state not in (RunState.QUEUED, RunState.STARTING):
        return None
    if not legs:
        return Purpose.REQUEUE if run.has_started else Purpose.FIRST
    return Purpose.HEDGE if _is_doubtful(run, legs) else None


def successor_at_s(view: View, run: Run) -> float | None:
    """Return when a running gang on bounded nodes wants a successor (broker seconds)."""
    ends_s, epoch = planned_end_s(view, run), run.open_epoch
    if ends_s is None or epoch is None:
        return None
    flavor = view.flavors[run.placements[epoch.placement].site.key]
    startup_s = flavor.startup_s or STARTUP_S[flavor.capacity_type]
    policy = view.region(epoch.region).policy
    lead_s = max(SUCCESSOR_LEAD_MIN_S, SUCCESSOR_TRIES * startup_s)
    # Whole too soon, it would leave its gate before its predecessor does.
    return ends_s - policy.drain_s - min(lead_s, 0.8 * policy.gate_timeout_s)


def planned_end_s(view: View, run: Run) -> float | None:
    """Return when the open epoch's nodes are taken back as planned, None when they are not."""
    epoch = run.open_epoch
    if epoch is None or epoch.started_s is None:
        return None
    placement = run.placements.get(epoch.placement)
    flavor = None if placement is None else view.flavors.get(placement.site.key)
    if placement is None or flavor is None or flavor.max_run_s is None:
        return None
    phases = placement.phases
    return placement.added_s + phases.preparing + phases.queued + flavor.max_run_s


def is_full(view: View, legs: list[Placement]) -> bool:
    """Return whether a run has as many legs as the policies of their regions allow."""
    return len(legs) >= min(view.region(leg.site.region).policy.hedge_width for leg in legs)


def bounds(
    view: View, tally: Tally, run: Run, legs: list[Placement], offer: Offer
) -> Blocked | None:
    """Return why the offer may not be one more leg of a run that has ``legs``, or None."""
    regions = {leg.site.region for leg in legs} | {offer.region}
    width = min(view.region(region).policy.hedge_width for region in regions)
    if len(legs) >= width:
        return _blocked(offer, Reason.HEDGE_LIMIT, f"the run has its {width} legs already")
    if offer.capacity_type is CapacityType.FLEX and any(
        leg.site.capacity_type is CapacityType.FLEX for leg in legs
    ):
        return _blocked(offer, Reason.HEDGE_LIMIT, "the run has a flex leg already")
    return _gate(view, tally, run, offer)


def _gate(view: View, tally: Tally, run: Run, offer: Offer) -> Blocked | None:
    standing = view.teams.get(run.intent.team)
    if standing is None:
        return None
    caps, team = standing.caps, run.intent.team
    waiting = tally.waiting_gpus(team)
    if caps.gate_gpus is not None and waiting + offer.gpus > caps.gate_gpus:
        return _blocked(
            offer,
            Reason.TEAM_GATE_GPUS_SPENT,
            f"team {team} may have {caps.gate_gpus} GPUs at gates and waits for {waiting}",
        )
    minutes = caps.gate_gpu_minutes_per_day
    if minutes is not None and standing.gate_gpu_minutes_today >= minutes:
        return _blocked(
            offer,
            Reason.TEAM_GATE_MINUTES_SPENT,
            f"team {team} has spent its {minutes:g} GPU-minutes at gates of today",
        )
    return None


def _is_doubtful(run: Run, legs: list[Placement]) -> bool:
    if any(leg.state is PlacementState.AT_GATE and leg.stuck is None for leg in legs):
        # It stands whole and passes as soon as it may: what was foreseen for it is no matter now.
        return False
    if all(leg.stuck is not None for leg in legs):
        return True
    if run.climbed:
        # What is left of the wait is not spent in front of a place that has nothing.
        return all(
            leg.site.capacity_type is not last_rung(run) or leg.why.reason in _OUT_OF_STOCK
            for leg in legs
        )
    has_bound = run.terms.max_wait_s is not None or run.terms.max_requeue_wait_s is not None
    misses = prod(1.0 - leg.site.forecast_chance for leg in legs if leg.stuck is None)
    return has_bound and misses > ENOUGH_CHANCE


def _blocked(offer: Offer, reason: Reason, message: str) -> Blocked:
    return Blocked(offer=offer, reason=reason, message=message, lasts_s=60.0)
