"""When a gang on machines with a planned end leaves them, and when its successor is asked for.

The rule: a gang is asked to save early enough to be gone when its machines go, and a leg elsewhere
is asked for so much earlier as a start there takes. What comes early is handed over to at once:
machines that end anyway and are given back cost nothing, two gangs cost twice. Read ``leaves_at_s``
first, then ``due_at_s``.
"""

from dataclasses import replace

from broker.model.capacity import Offer
from broker.model.intent import CapacityType
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Epoch, Placement, Purpose, Run
from broker.model.states import PlacementState
from broker.placement.feasible import Question
from broker.placement.forecast import GATE_S, SPREAD, STARTUP_S
from broker.placement.patience import HOLDING
from broker.placement.rank import score
from broker.placement.view import View

LEAD_MIN_S = 120.0  # from being asked for to standing, where all goes well and nothing is measured
HELD_SHARE = 0.5  # of a gang's time that it has before its end, or a successor, is looked at
LOOKS_S = 10.0  # from an order in the log to what hears it, and back
SAVES_SPREAD = 1.5  # the next save may take longer than the longest that was measured
# A place as sure as this is waited for until its own time; a better one than that is never free.
SURE_CHANCE = 0.8


def planned_end_s(view: View, run: Run) -> float | None:
    """Return when the open epoch's machines are taken back as planned, None when they are not.

    What is told of the very machines counts, else how long a machine of their kind stays.
    """
    placement = _trains_on(run)
    if placement is None:
        return None
    if placement.machines_end_s is not None:
        return placement.machines_end_s
    flavor = view.flavors.get(placement.site.key)
    if flavor is None or flavor.max_run_s is None:
        return None
    return _came_s(placement) + flavor.max_run_s


def leaves_at_s(view: View, run: Run) -> float | None:
    """Return when a gang on machines with a planned end is asked to save, None for never.

    Before they go it has to save, to hear that it is to end, and to end; and a machine that is
    given back with a notice ends its processes when that begins.
    """
    ends_s, placement, epoch = planned_end_s(view, run), _trains_on(run), run.open_epoch
    if ends_s is None or placement is None or epoch is None or epoch.started_s is None:
        return None
    policy, flavor = view.region(epoch.region).policy, view.flavors.get(placement.site.key)
    notice_s = 0.0 if flavor is None else flavor.preemption_notice_s or 0.0
    margin_s = saves_within_s(view, run, epoch) + policy.fence_grace_s + notice_s + LOOKS_S
    # However short its machines are given for, half of what it has of them is for training.
    return ends_s - min(margin_s, HELD_SHARE * max(0.0, ends_s - epoch.started_s))


def saves_within_s(view: View, run: Run, epoch: Epoch) -> float:
    """Return the seconds that a gang gets for its last save: the policy's, or what it was seen to
    need, if that is more."""
    took = [
        one.closed_s - one.drain.ordered_s
        for one in run.epochs
        if one.drain is not None and one.drain.is_acked and one.closed_s is not None
    ]
    return max(view.region(epoch.region).policy.drain_s, SAVES_SPREAD * max(took, default=0.0))


def opens_at_s(view: View, run: Run) -> float | None:
    """Return from when on a successor may be asked for (broker seconds), None for never."""
    at_s, epoch = leaves_at_s(view, run), run.open_epoch
    if at_s is None or epoch is None or epoch.started_s is None:
        return None
    return at_s - HELD_SHARE * max(0.0, at_s - epoch.started_s)


def wants_successor(view: View, run: Run, legs: list[Placement], now: Moment) -> bool:
    """Return whether a run that trains is to look for the place that it goes on in.

    A second one is looked for while the first is no more than a place in a line.
    """
    opens_s, at_s = opens_at_s(view, run), leaves_at_s(view, run)
    if opens_s is None or at_s is None or now.elapsed_s < opens_s:
        return False
    return not any(_comes_in_time(leg, at_s, now) for leg in legs)


def due_at_s(view: View, run: Run, offer: Offer, at_s: float) -> float:
    """Return when a leg is to be asked for in a place so that it stands there by ``at_s``.

    What cannot be foreseen is taken to be as slow as machines of its kind usually are.
    """
    usual_s = SPREAD * (STARTUP_S[offer.capacity_type] + GATE_S)
    foreseen_s = usual_s if offer.forecast.p90_s is None else offer.forecast.p90_s
    return at_s - max(LEAD_MIN_S, foreseen_s, offer.preparation.wait_s)


def timely(
    view: View, run: Run, offers: list[Offer], now: Moment
) -> tuple[list[Offer], float | None]:
    """Return the places to ask now for a successor, and when the next is to be asked.

    Where a start can still come in time, the wait for it costs nothing: the run trains meanwhile.
    A place that is better and sure enough is not forestalled by one that has to be asked earlier.
    """
    at_s = leaves_at_s(view, run)
    if at_s is None:
        return [], None
    left_s = max(0.0, at_s - now.elapsed_s)
    judged = [_without_wait(view, run, offer, left_s, now) for offer in offers]
    due: list[Offer] = []
    next_s: float | None = None
    for offer in sorted(judged, key=lambda one: (one.score, one.key, one.hardware_index)):
        due_s = due_at_s(view, run, offer, at_s)
        if due_s <= now.elapsed_s:
            due.append(offer)
            continue
        next_s = due_s if next_s is None else min(next_s, due_s)
        if offer.forecast.chance >= SURE_CHANCE:
            break
    return due, next_s


def stands_ready(run: Run) -> Placement | None:
    """Return the successor that stands whole at its gate, None while none does."""
    whole = [
        leg
        for leg in run.waiting_placements
        if leg.purpose is Purpose.SUCCESSOR
        and leg.state is PlacementState.AT_GATE
        and leg.why.reason is Reason.AT_GATE
        and leg.stuck is None
    ]
    return min(whole, key=lambda leg: (leg.entered_s, leg.id), default=None)


def flex_legs(view: View | None, run: Run) -> list[Placement]:
    """Return the legs that may come to bill flex capacity, beside the gang that trains.

    One that is withdrawn may, until it is seen gone; ``view`` None counts those as gone, and so
    does a cluster that is silent, where nobody sees it go.
    """
    return [
        leg
        for leg in run.live_placements
        if leg.site.capacity_type is CapacityType.FLEX
        and leg.state is not PlacementState.RUNNING
        and (leg.withdraw is None or (view is not None and _is_heard(view, leg)))
    ]


def _is_heard(view: View, leg: Placement) -> bool:
    facts = view.clusters.get(leg.site.key.cluster)
    return facts is not None and facts.is_reachable


def _trains_on(run: Run) -> Placement | None:
    epoch = run.open_epoch
    if epoch is None or epoch.started_s is None:
        return None
    return run.placements.get(epoch.placement)


def _came_s(placement: Placement) -> float:
    """Return when the first of its machines can have come: they are asked for from then on."""
    return placement.added_s + placement.phases.preparing + placement.phases.queued


def _comes_in_time(leg: Placement, at_s: float, now: Moment) -> bool:
    """Return whether a leg is likely to stand by ``at_s``: by its cluster's word, else by what was
    foreseen for it, as long as that has not turned out wrong."""
    if leg.stuck is not None:
        return False
    if leg.state in HOLDING:
        return True
    if leg.expected_s is not None:
        return leg.expected_s <= at_s
    p50_s, p90_s = leg.site.forecast_p50_s, leg.site.forecast_p90_s
    if p50_s is None or p90_s is None:
        return False
    waited_s = now.since(leg.added_s)
    return leg.added_s + p50_s <= at_s and waited_s <= max(LEAD_MIN_S, p90_s)


def _without_wait(view: View, run: Run, offer: Offer, left_s: float, now: Moment) -> Offer:
    """Return the offer, scored by what of its wait is left when the run has to leave."""
    question = Question(
        view=view,
        run=run,
        flavor=view.flavors[offer.key],
        option_index=offer.hardware_index,
        now=now,
    )
    soon_s = offer.forecast.p50_s
    later = replace(offer.forecast, p50_s=None if soon_s is None else max(0.0, soon_s - left_s))
    prepared = offer.preparation
    # What travels meanwhile is bundle, checkpoint and image alike.
    left = max(0.0, prepared.wait_s - left_s) / max(prepared.wait_s, 1e-9)
    prepared = replace(prepared, saved_s=prepared.saved_s * left, image_s=prepared.image_s * left)
    return replace(offer, score=score(question, later, prepared))
