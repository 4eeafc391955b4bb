"""What follows a leg's wait, in the words and at the time that will be kept.

The rule: a leg in another place is promised only while one is open to the run, and what is held
for nothing is given back even when none is. Read ``what_follows``.
"""

from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Placement, Run
from broker.model.states import PlacementState
from broker.placement.assess import offers
from broker.placement.hedge import bounds, is_full, waiting_legs
from broker.placement.patience import (
    HOLDING,
    Remedy,
    hold_s,
    remedy_for,
    row_for,
    stuck_at_s,
)
from broker.placement.share import Tally
from broker.placement.view import View

_NO_OTHER = "no other place is open to it now; all are looked at again"
_KEEPS = f"this one keeps its place, for {_NO_OTHER}"
_LEAVES = f"this one is withdrawn, though {_NO_OTHER}"
# What follows where there is no other place, by whether the leg holds machines.
_ALONE = {
    (Remedy.WIDEN, True): _KEEPS,
    (Remedy.WIDEN, False): _KEEPS,
    (Remedy.MOVE, True): f"this one is given back, though {_NO_OTHER}",
    (Remedy.MOVE, False): _KEEPS,
    (Remedy.LEAVE, True): _LEAVES,
    (Remedy.LEAVE, False): _LEAVES,
}


def what_follows(view: View, run: Run, leg: Placement, now: Moment) -> tuple[str, float]:
    """Return what follows a wait that was not judged yet, and when (broker seconds)."""
    at_s = stuck_at_s(view, leg)
    row = row_for(leg.why.reason)
    action = action_for(view, run, leg, now)
    if row.remedy is Remedy.MOVE and action != row.next_action and leg.state in HOLDING:
        # The verdict comes first and brings nothing; the machines are kept as long again.
        at_s += hold_s(view, leg, row.cause)
    return action, at_s


def action_for(view: View, run: Run, leg: Placement, now: Moment) -> str:
    """Return what follows a leg's present wait once its patience is over."""
    row = row_for(leg.why.reason)
    if leg.why.reason is Reason.AT_GATE or _is_another_open(view, run, now):
        return row.next_action
    return _ALONE[row.remedy, leg.state in HOLDING]


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


def _is_another_open(view: View, run: Run, now: Moment) -> bool:
    """Return whether a place could take one more leg; whose turn it is there changes by itself."""
    legs, tally = waiting_legs(run), Tally(view)
    if is_full(view, legs):
        return False
    return any(bounds(view, tally, run, legs, offer) is None for offer in offers(view, run, now))
