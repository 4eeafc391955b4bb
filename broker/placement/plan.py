"""One tick of placing: who goes where, who climbs, who is told what.

The rule: ``plan`` changes nothing and looks only at what is marked: the groups and runs that a
change or the time could have helped. It reads as numbered steps, and every bound holds over the
choices of one plan together. Read ``plan``.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from broker.model.capacity import Certainty, Offer
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Purpose, Run, Site
from broker.model.states import RunState
from broker.placement.assess import assess
from broker.placement.backoff import ready_at_s
from broker.placement.choices import AddLeg, Choice, Climb, Plan, SayWait
from broker.placement.choose import Chosen, choose
from broker.placement.demand import Rank
from broker.placement.explain import (
    is_news,
    say_leg,
    say_no_place,
    say_survey,
    say_training,
    say_turn,
    why_there,
)
from broker.placement.group import Assessment, Group
from broker.placement.hedge import waiting_legs, wanted
from broker.placement.ladder import RESERVE_UNKNOWN_S, climbs_at_s
from broker.placement.share import Tally
from broker.placement.succession import opens_at_s, timely
from broker.placement.view import DUE_PER_TICK, View, is_in_line

GROUPS_PER_TICK = 64  # bounds a tick's time; the rest keep their marks for the next
OLDEST_PER_TICK = 16  # of them, those marked longest ago: no group starves behind higher ranks
LEGS_PER_TICK = 64
HEADS_PER_GROUP = 16
RUNS_PER_TICK = 256
MOVED_S = 60.0  # a planned end that moved by more is told again
AGAIN_S = 15.0  # how soon a run is looked at again that no mark would bring back


_WAITING = frozenset({RunState.QUEUED, RunState.STARTING})  # STARTING may never start


@dataclass(slots=True, kw_only=True)
class _Draft:
    """The plan as it grows."""

    view: View
    now: Moment
    ids: Iterator[str]
    tally: Tally
    choices: list[tuple[str, Choice]] = field(default_factory=list)
    looked: list[Group] = field(default_factory=list)
    met: dict[str, None] = field(default_factory=dict)
    looks: dict[str, float] = field(default_factory=dict)
    legs: int = 0
    is_whole: bool = True


def plan(view: View, now: Moment, ids: Iterator[str]) -> Plan:
    """Return what is to be done now; ``ids`` yields fresh placement ids.

    Hand the plan to ``View.settle``, then its choices to the log.
    """
    draft = _Draft(view=view, now=now, ids=ids, tally=Tally(view))
    # 1. What is due by the time, and what changed: runs by themselves, and groups by their heads.
    names = list(dict.fromkeys((*view.agenda.due(now.elapsed_s, DUE_PER_TICK), *view.attention)))
    draft.is_whole = len(names) <= RUNS_PER_TICK
    names = names[:RUNS_PER_TICK]
    # 2. Runs whose wait is nearly gone climb, and are planned as climbers at the next look.
    for name in names:
        _climb(draft, view.runs.get(name))
    # 3. Runs without a leg: heads of groups, in order of priority and age.
    _place_heads(draft, _marked(view, names, draft))
    # 4. Runs with legs: one more where the evidence asks for it.
    for name in names:
        run = view.runs.get(name)
        if run is not None and name not in draft.met:
            _look_at(draft, run)
        draft.met[name] = None
    # 5. What was not reached keeps its mark.
    return Plan(
        choices=tuple(draft.choices),
        looked=tuple(draft.looked),
        met=tuple(draft.met),
        looks=tuple(draft.looks.items()),
        is_whole=draft.is_whole,
    )


def _climb(draft: _Draft, run: Run | None) -> None:
    if run is None or run.ending is not None or run.state not in _WAITING:
        return
    group = draft.view.group_of(run.name)
    at_s = climbs_at_s(run, _reserve_s(group))
    if at_s is None or at_s > draft.now.elapsed_s:
        return
    message = "its wait is running out: every accepted place is tried, the dearest too"
    draft.choices.append((run.name, Climb(message=message)))
    draft.met[run.name] = None
    # The climbed run comes back as a change; should the log refuse it, it is looked at again.
    draft.looks[run.name] = draft.now.elapsed_s + 5.0


def _marked(view: View, names: list[str], draft: _Draft) -> list[Group]:
    """Return the groups to look at: the highest ranks, and the longest marked."""
    marked: dict[Group, None] = {}
    for name in names:
        group = view.group_of(name)
        if group is not None and group.line.head() == name:
            marked[group] = None
    groups = list(marked | view.dirty)
    if len(groups) <= GROUPS_PER_TICK:
        return groups
    draft.is_whole = False
    oldest, rest = groups[:OLDEST_PER_TICK], groups[OLDEST_PER_TICK:]
    highest = heapq.nsmallest(
        GROUPS_PER_TICK - OLDEST_PER_TICK, rest, key=lambda group: group.line.first(1)[0]
    )
    return oldest + highest


def _place_heads(draft: _Draft, groups: list[Group]) -> None:
    """Place heads over all groups in one order, until each group's next head finds no place."""
    heads: list[tuple[Rank, int]] = []
    lines = [list(group.line.first(HEADS_PER_GROUP)) for group in groups]
    for index, line in enumerate(lines):
        heapq.heappush(heads, (line.pop(0), index))
    while heads and draft.legs < LEGS_PER_TICK:
        rank, index = heapq.heappop(heads)
        group, run = groups[index], draft.view.runs[rank[2]]
        if run.name not in draft.met and not _place(draft, run, group):
            draft.looked.append(group)
        elif lines[index]:
            heapq.heappush(heads, (lines[index].pop(0), index))
        elif len(group.line) <= HEADS_PER_GROUP:
            draft.looked.append(group)
        else:
            draft.is_whole = False
    draft.is_whole = draft.is_whole and not heads


def _place(draft: _Draft, run: Run, group: Group) -> bool:
    """Give a run its leg; False when it finds no place, and its wait was explained."""
    found = assess(draft.view, run, draft.now, group)
    not_before_s = ready_at_s(run)
    is_ready = not_before_s is None or not_before_s <= draft.now.elapsed_s
    choice = _choose(draft, run, found) if is_ready else Chosen(offer=None, blocked=())
    draft.met[run.name] = None
    if choice.offer is None:
        if any(one.reason is Reason.RECENTLY_FAILED_HERE for one in found.refusals):
            draft.looks[run.name] = draft.now.elapsed_s + AGAIN_S
        wait = say_no_place(draft.view, run, found, choice, draft.now)
        if wait.reason is Reason.NEVER_FITS and run.why.reason is not wait.reason:
            # What is true of the first is true of all: none waits its turn for the same verdict.
            for name in group.line.names():
                draft.looks[name] = draft.now.elapsed_s
        _say(draft, run, wait, found.reserve_s)
        return False
    _add(draft, run, choice.offer, Purpose.REQUEUE if run.has_started else Purpose.FIRST)
    return True


def _look_at(draft: _Draft, run: Run) -> None:
    """Look at one run by itself: a waiting one behind others, or one with legs."""
    view, now = draft.view, draft.now
    group = view.group_of(run.name)
    if group is not None:
        if is_in_line(run):
            found = group.assessment
            wait = say_turn(run, len(group.line) - 1, found.reserve_s, now)
            if found.never:
                wait = say_no_place(view, run, found, Chosen(offer=None, blocked=()), now)
            _say(draft, run, wait, found.reserve_s)
        return
    purpose = wanted(view, run, now)
    if purpose is not None:
        offers, next_s = assess(view, run, now, None).offers, None
        if purpose is Purpose.SUCCESSOR:
            offers, next_s = timely(view, run, offers, now)
        choice = choose(view, draft.tally, run, offers, now)
        if choice.offer is not None and draft.legs < LEGS_PER_TICK:
            # What it waits for then is told when the leg is there.
            _add(draft, run, choice.offer, purpose)
            return
        # It wants another place and there is none: news of clusters marks groups, not this run.
        draft.looks[run.name] = min(now.elapsed_s + AGAIN_S, next_s or float("inf"))
    legs = waiting_legs(run)
    epoch = run.open_epoch
    is_waiting = epoch is None or (epoch.started_s is None and epoch.stop is None)
    if legs and run.ending is None and is_waiting:
        _say(draft, run, say_leg(view, run, legs, now), RESERVE_UNKNOWN_S)
    training = say_training(view, run, now) if run.why.reason is Reason.TRAINING else None
    if training is not None and _is_told_anew(run, training, now):
        draft.choices.append((run.name, training))
    at_s = opens_at_s(view, run)
    if at_s is not None and at_s > now.elapsed_s:
        draft.looks[run.name] = at_s


def _is_told_anew(run: Run, training: SayWait, now: Moment) -> bool:
    known_s = run.why.next_at_s
    is_moved = known_s is None or abs(known_s - training.next_at_s) > MOVED_S
    return is_moved or is_news(run.why, training, now)


def _choose(draft: _Draft, run: Run, found: Assessment) -> Chosen:
    return choose(draft.view, draft.tally, run, found.offers, draft.now)


def _add(draft: _Draft, run: Run, chosen: Offer, purpose: Purpose) -> None:
    offer = _delayed(chosen, draft.tally.crowding_s(chosen))
    draft.tally.take(run, offer, draft.now)
    draft.legs += 1
    leg = AddLeg(
        placement=next(draft.ids), purpose=purpose, site=site_of(offer), message=why_there(offer)
    )
    draft.choices.append((run.name, leg))
    draft.looks[run.name] = draft.now.elapsed_s + 5.0


def _delayed(offer: Offer, crowding_s: float) -> Offer:
    """Return the offer as it is once our own gangs have taken the nodes that are free."""
    foreseen = offer.forecast
    if crowding_s == 0.0 or foreseen.p50_s is None or foreseen.p90_s is None:
        return offer
    later = replace(
        foreseen,
        p50_s=foreseen.p50_s + crowding_s,
        p90_s=foreseen.p90_s + crowding_s,
        certainty=Certainty.QUOTA_ONLY,
        basis="free nodes are taken by runs before it; more must come",
    )
    return replace(offer, forecast=later)


def _say(draft: _Draft, run: Run, usual: SayWait, reserve_s: float) -> None:
    wait = say_survey(draft.view, draft.now) or usual
    at_s = wait.next_at_s
    if is_news(run.why, wait, draft.now):
        draft.choices.append((run.name, wait))
    elif run.why.next_at_s is not None:
        # The time that was promised stays, however often it was looked at meanwhile.
        at_s = min(at_s, run.why.next_at_s)
    climb_s = climbs_at_s(run, reserve_s)
    if climb_s is not None and climb_s > draft.now.elapsed_s:
        at_s = min(at_s, climb_s)
    earliest_s = draft.now.elapsed_s + 1.0
    draft.looks[run.name] = max(earliest_s, min(at_s, draft.looks.get(run.name, at_s)))


def site_of(offer: Offer) -> Site:
    """Return the offer as the log keeps it."""
    return Site(
        key=offer.key,
        region=offer.region,
        capacity_type=offer.capacity_type,
        hardware_index=offer.hardware_index,
        nodes=offer.nodes,
        gpus=offer.gpus,
        price_per_gpu_hour=offer.price_per_gpu_hour,
        forecast_p50_s=offer.forecast.p50_s,
        forecast_p90_s=offer.forecast.p90_s,
        forecast_chance=offer.forecast.chance,
    )


def _reserve_s(group: Group | None) -> float:
    return RESERVE_UNKNOWN_S if group is None else group.assessment.reserve_s
