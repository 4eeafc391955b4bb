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
from broker.placement.ladder import last_rung
from broker.placement.share import Blocked, Tally
from broker.placement.succession import flex_legs, wants_successor
from broker.placement.view import View

ENOUGH_CHANCE = 0.5  # a second leg is bought when the first is more likely to miss the wait
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
        return Purpose.SUCCESSOR if wants_successor(view, run, legs, now) else None
    if run.state not in (RunState.QUEUED, RunState.STARTING):
        return None
    if not legs:
        return Purpose.REQUEUE if run.has_started else Purpose.FIRST
    return Purpose.HEDGE if _is_doubtful(run, legs) else None


def is_full(view: View, legs: list[Placement]) -> bool:
    """Return whether a run has as many legs as the policies of their regions allow."""
    return len(legs) >= min(view.region(leg.site.region).policy.hedge_width for leg in legs)


def bounds(
    view: View, tally: Tally, run: Run, legs: list[Placement], offer: Offer
) -> Blocked | None:
    """Return why the offer may not be one more leg of a run that has ``legs``, or None.

    ``legs`` may be none: one that is on its way out may bind the run, too.
    """
    regions = {leg.site.region for leg in legs} | {offer.region}
    width = min(view.region(region).policy.hedge_width for region in regions)
    if len(legs) >= width:
        return _blocked(offer, Reason.HEDGE_LIMIT, f"the run has its {width} legs already")
    # Its first leg is no hedge, and is under no bound on what stands at gates.
    is_beside = bool(legs) or is_training(run)
    return _flex(view, run, legs, offer) or (_gate(view, tally, run, offer) if is_beside else None)


def is_training(run: Run) -> bool:
    """Return whether a gang of the run has started, so that any leg beside it is one more."""
    epoch = run.open_epoch
    return epoch is not None and epoch.started_s is not None


def _flex(view: View, run: Run, legs: list[Placement], offer: Offer) -> Blocked | None:
    """A booking that comes bills at once, whole gang or not: there is never a second."""
    if offer.capacity_type is not CapacityType.FLEX:
        return None
    held = [leg for leg in flex_legs(view, run) if leg in legs or not leg.is_waiting]
    if not held:
        return None
    going = "" if held[0].withdraw is None else ", which is not seen gone yet"
    message = f"the run has a flex leg already, in {held[0].site.region}{going}"
    return _blocked(offer, Reason.HEDGE_LIMIT, message)


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
