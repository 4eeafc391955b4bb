"""What follows a leg's wait, in the words and at the time that will be kept.

The rule: a leg in another place is promised only while one is open to the run, and what is held
for nothing is given back even when none is. Read ``what_follows``.
"""

from typing import assert_never

from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Placement, Run
from broker.model.states import PlacementState
from broker.placement.assess import offers
from broker.placement.hedge import bounds, is_full, waiting_legs
from broker.placement.patience import HOLDING, Remedy, hold_s, remedy_for, row_for, stuck_at_s
from broker.placement.share import Tally
from broker.placement.view import View

_NO_OTHER = "no other place is open to it now; all are looked at again"


def what_follows(view: View, run: Run, leg: Placement, now: Moment) -> tuple[str, float]:
    """Return what follows a wait that was not judged yet, and when (broker seconds)."""
    row, at_s = row_for(leg.why.reason), stuck_at_s(view, run, leg)
    if _leads_on(view, run, leg, now):
        return row.next_action, at_s
    if row.remedy is Remedy.MOVE and leg.state in HOLDING:
        # The verdict comes first and brings nothing; the machines are kept as long again.
        at_s += hold_s(view, leg, row.cause)
    return _alone(row.remedy, leg), at_s


def action_for(view: View, run: Run, leg: Placement, now: Moment) -> str:
    """Return what follows a leg's present wait once its patience is over."""
    row = row_for(leg.why.reason)
    return row.next_action if _leads_on(view, run, leg, now) else _alone(row.remedy, leg)


def given_back_at_s(view: View, leg: Placement) -> float | None:
    """Return when a stuck leg's machines are given back (broker seconds), None: not by time."""
    if leg.stuck is None or leg.state not in HOLDING or is_whole(leg):
        return None
    if remedy_for(leg.stuck.reason) is not Remedy.MOVE:
        return None
    return leg.stuck.since_s + hold_s(view, leg, leg.stuck.reason)


def is_whole(leg: Placement) -> bool:
    """Return whether a gang stands at its gate, where it passes as soon as it may."""
    return leg.state is PlacementState.AT_GATE and leg.why.reason is Reason.AT_GATE


def _leads_on(view: View, run: Run, leg: Placement, now: Moment) -> bool:
    """Return whether what usually follows a leg's wait can: it mostly takes another place."""
    return leg.why.reason is Reason.AT_GATE or _is_another_open(view, run, leg, now)


def _alone(remedy: Remedy, leg: Placement) -> str:
    """Return what follows where there is no other place."""
    match remedy:
        case Remedy.MOVE if leg.state in HOLDING:
            return f"this one is given back, though {_NO_OTHER}"
        case Remedy.MOVE | Remedy.WIDEN:
            return f"this one keeps its place, for {_NO_OTHER}"
        case Remedy.LEAVE:
            return f"this one is withdrawn, though {_NO_OTHER}"
        case _:
            assert_never(remedy)


def _is_another_open(view: View, run: Run, leg: Placement, now: Moment) -> bool:
    """Return whether a place could take one more leg; whose turn it is there changes by itself."""
    # One that is withdrawn at once makes room before another is added.
    is_first_out = row_for(leg.why.reason).remedy is Remedy.LEAVE
    legs = [one for one in waiting_legs(run) if not (is_first_out and one.id == leg.id)]
    if legs and is_full(view, legs):
        return False
    tally = Tally(view)
    return any(bounds(view, tally, run, legs, offer) is None for offer in offers(view, run, now))
