"""Waits that are stuck: judged by their named cause, and given back when they hold for nothing.

The rule: each cause has its own patience and remedy, one row in ``placement.patience``. A verdict
is written down with its evidence; the placer answers it with a leg elsewhere. What holds machines
without being whole is given back after as long again (law 8); what only stands in line costs
nothing and stays, as long as the run has room for the leg that replaces it.
"""

from broker.history.charging import is_for_the_user
from broker.history.commands import JudgeStuck, RunCommand, StopEpoch, WithdrawPlacement
from broker.model.intent import CapacityType
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Placement, Run
from broker.model.states import PlacementState
from broker.placement.assess import assess
from broker.placement.content import image_word
from broker.placement.hedge import is_full, waiting_legs
from broker.placement.patience import (
    Remedy,
    Row,
    hold_s,
    remedy_for,
    row_for,
    stuck_at_s,
)
from broker.placement.remedy import action_for, given_back_at_s, is_whole
from broker.placement.view import View
from broker.placement.words import duration


def judge_waits(view: View, run: Run, now: Moment) -> tuple[RunCommand, ...]:
    """Return the verdicts on a run's legs, and the withdrawals that follow from earlier ones."""
    if run.ending is not None:
        return ()
    legs = waiting_legs(run)
    told: list[RunCommand] = []
    for leg in legs:
        verdict = _judge(view, run, leg, now)
        if verdict is not None:
            told.append(verdict)
        elif leg.stuck is not None and _is_given_up(view, run, legs, leg, now):
            told.append(_give_up(run, leg))
    return tuple(told)


def judged_at_s(view: View, run: Run, leg: Placement) -> float:
    """Return when a leg is judged, or given back once it was (broker seconds)."""
    if leg.stuck is None:
        return stuck_at_s(view, run, leg)
    return leg.stuck.since_s + hold_s(view, leg, leg.stuck.reason)


def _judge(view: View, run: Run, leg: Placement, now: Moment) -> JudgeStuck | None:
    silent = _silence(view, leg, now) if leg.stuck is None else None
    if silent is not None:
        return silent
    reason, told = _reason(view, run, leg)
    row = row_for(reason)
    if _is_judged(leg, row) or not _is_reported(view, leg):
        return None
    if now.elapsed_s < stuck_at_s(view, run, leg):
        return None
    waited = duration(now.since(leg.why.since_s))
    message = told.removeprefix(f"{leg.site.region}: ")
    said = f": {message}" if message else ""
    where = f"in {leg.site.region}{_nodes(leg)}"
    return JudgeStuck(
        placement=leg.id,
        cause=row.cause,
        evidence=f"{_words(reason)} for {waited} {where}{said}",
        action=action_for(view, run, leg, now),
    )


def _reason(view: View, run: Run, leg: Placement) -> tuple[Reason, str]:
    """Return what a leg waits for: of its content, the broker knows better than its last event."""
    if leg.state is PlacementState.PREPARING:
        return image_word(view, run, leg) or (leg.why.reason, leg.why.message)
    return leg.why.reason, leg.why.message


def _is_judged(leg: Placement, row: Row) -> bool:
    """Return whether a verdict on a leg holds still.

    Another cause than the one it was judged by is another verdict, for its remedy may be another.
    Where that gives machines back after a while, it is the same while: a cloud's causes take turns.
    """
    if leg.stuck is None:
        return False
    is_moved = remedy_for(leg.stuck.reason) is row.remedy is Remedy.MOVE
    return is_moved or leg.stuck.reason is row.cause


def _silence(view: View, leg: Placement, now: Moment) -> JudgeStuck | None:
    cluster = view.clusters.get(leg.site.key.cluster)
    if cluster is None or cluster.silent_since_elapsed_s is None:
        return None
    silent_s = now.since(cluster.silent_since_elapsed_s)
    if silent_s < view.region(leg.site.region).policy.patience.cluster_silent_s:
        return None
    return JudgeStuck(
        placement=leg.id,
        cause=Reason.CLUSTER_SILENT,
        evidence=f"{cluster.cluster} has not answered for {duration(silent_s)}",
        action="a leg in another place is added; this one is looked after when it answers",
    )


def _is_reported(view: View, leg: Placement) -> bool:
    """A clock that runs on an old report is no evidence: the cluster must answer now."""
    cluster = view.clusters.get(leg.site.key.cluster)
    is_content = leg.state is PlacementState.PREPARING
    return is_content or (cluster is not None and cluster.is_reachable)


def _is_given_up(view: View, run: Run, legs: list[Placement], leg: Placement, now: Moment) -> bool:
    assert leg.stuck is not None, "only a judged leg is given up"
    if is_whole(leg) and leg.stuck.reason is not Reason.GATE_TIMEOUT:
        return False
    remedy = remedy_for(leg.stuck.reason)
    if remedy is Remedy.LEAVE:
        return True
    back_s = given_back_at_s(view, leg)
    if back_s is not None:
        return now.elapsed_s >= back_s
    if now.elapsed_s < leg.stuck.since_s + hold_s(view, leg, leg.stuck.reason):
        return False
    # It stands in line for nothing but time; room for another try is the one reason to leave.
    is_next = all(one.stuck is not None for one in legs) and leg is _oldest_stuck(legs)
    return is_next and _makes_room(view, run, legs, leg, now)


def _makes_room(view: View, run: Run, legs: list[Placement], leg: Placement, now: Moment) -> bool:
    """Return whether another place could be tried once a leg has gone, and not before."""
    if is_full(view, legs):
        return bool(assess(view, run, now, None).offers)
    if leg.site.capacity_type is not CapacityType.FLEX:
        return False
    # No second booking stands beside it, so where all else is flex nothing would be tried.
    others = assess(view, run, now, None).offers
    return bool(others) and all(one.capacity_type is CapacityType.FLEX for one in others)


def _oldest_stuck(legs: list[Placement]) -> Placement:
    return min(legs, key=lambda leg: (leg.stuck.since_s if leg.stuck else 0.0, leg.id))


def _give_up(run: Run, leg: Placement) -> RunCommand:
    assert leg.stuck is not None, "only a judged leg is given up"
    reason, message = leg.stuck.reason, f"given back: {_words(leg.stuck.reason)}"
    if is_for_the_user(leg) or reason is leg.why.reason is Reason.REFUSED_BY_CLUSTER:
        message = leg.why.message  # what is to be mended: no other word says what was refused
    if leg.epoch is not None:
        # Its grant came with it: the start is revoked first, then the placement goes.
        return StopEpoch(reason=reason, message=message)
    return WithdrawPlacement(placement=leg.id, reason=reason, message=message)


def _nodes(leg: Placement) -> str:
    here, wanted = leg.arrival.nodes_here, leg.arrival.nodes_wanted
    if here is None or wanted is None:
        return ""
    return f", {here} of {wanted} nodes there"


def _words(reason: Reason) -> str:
    return _IN_WORDS.get(reason) or reason.value.lower().replace("_", " ")


_IN_WORDS = {Reason.CHECK_NOT_RERUN: "a check unanswered"}
