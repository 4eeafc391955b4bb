"""Which flavors could run an intent, and for each that could not, the reason.

The rule: a refusal is data. Each check answers a reason and a sentence in the user's words, or
None; the first that answers is the one kept, so the checks stand from what can never change to
what passes by itself. Read ``refuse``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property

from broker.model.billing import live_cost
from broker.model.capacity import ClusterFacts, FlavorFacts, Refusal
from broker.model.intent import HardwareOption
from broker.model.moment import Moment
from broker.model.preparing import Preparation
from broker.model.reasons import Reason
from broker.model.run import Placement, Run
from broker.model.states import PlacementEnd, PlacementState
from broker.placement import backoff
from broker.placement.backoff import was_kept
from broker.placement.content import is_too_dear, preparation, stakes
from broker.placement.fit import Answer, misfit
from broker.placement.patience import STUCK_CAUSES, was_put_out
from broker.placement.standing import RegionStanding
from broker.placement.view import View
from broker.placement.words import duration, money


@dataclass(frozen=True, kw_only=True)
class Question:
    """Could this run start on this flavor with this hardware option, now?"""

    view: View
    run: Run
    flavor: FlavorFacts
    option_index: int
    now: Moment

    @property
    def option(self) -> HardwareOption:
        """The hardware option that is asked about."""
        return self.run.intent.workload.hardware[self.option_index]

    @property
    def standing(self) -> RegionStanding:
        """The flavor's region as ops set it."""
        return self.view.region(self.flavor.region)

    @property
    def cluster(self) -> ClusterFacts:
        """The flavor's cluster as last seen."""
        return self.view.clusters[self.flavor.key.cluster]

    @cached_property
    def prepared(self) -> Preparation:
        """What a start there takes first."""
        flavor, price = self.flavor, self.flavor.price_per_gpu_hour or Decimal(0)
        at_stake = stakes(self.view, flavor.accelerator, self.option.gpus, price)
        return preparation(self.view, self.run, flavor.region, at_stake)


def refuse(question: Question) -> Refusal | None:
    """Return why the flavor is no offer for the run, or None when it is one."""
    for check in _CHECKS:
        answer = check(question)
        if answer is not None:
            flavor = question.flavor
            return Refusal(
                key=flavor.key,
                region=flavor.region,
                capacity_type=flavor.capacity_type,
                hardware_index=question.option_index,
                reason=answer[0],
                message=answer[1],
            )
    return None


def remaining_work_s(run: Run) -> float | None:
    """Return how much of the expected duration is left, in seconds at the reference speed."""
    expected_s = run.terms.expected_duration_s
    if expected_s is None:
        return None
    done_s = run.bill.time.running_ms / 1000.0 / max(1, run.intent.workload.hardware[0].gpus)
    return max(0.1 * expected_s, expected_s - done_s)


def _fits(ask: Question) -> Answer:
    run = ask.run
    return misfit(run.intent.workload, run.terms, ask.option, ask.flavor, ask.standing.policy)


def _price(ask: Question) -> Answer:
    flavor, price = ask.flavor, ask.flavor.price_per_gpu_hour
    if price is None:
        return Reason.PRICE_UNKNOWN, "its price is not known"
    for capacity_type, cap in ask.standing.policy.price_caps:
        if capacity_type is flavor.capacity_type and price > cap:
            return (
                Reason.PRICE_ABOVE_CAP,
                f"it costs {money(price)} a GPU-hour, the cap is {money(cap)}",
            )
    return None


def _region(ask: Question) -> Answer:
    standing, flavor = ask.standing, ask.flavor
    if standing.is_draining:
        return Reason.REGION_DRAINING, f"{flavor.region} is being drained{standing.because}"
    if standing.is_cordoned:
        return Reason.REGION_CORDONED, f"{flavor.region} is cordoned{standing.because}"
    if not standing.is_surveyed:
        return (
            Reason.NOT_SEEN_SINCE_RESTORE,
            f"{flavor.region} has not been seen whole since the log was restored",
        )
    return None


def _reach(ask: Question) -> Answer:
    cluster, key = ask.cluster, ask.flavor.key
    if not cluster.is_reachable:
        return Reason.CLUSTER_UNREACHABLE, f"{key.cluster} does not answer"
    if cluster.doubt is not None:
        return cluster.doubt
    if not cluster.is_store_reachable:
        return Reason.STORE_UNREACHABLE, f"the store of {ask.flavor.region} does not answer"
    if key.queue in cluster.stopped_queues:
        return Reason.QUEUE_STOPPED, f"queue {key.queue} is stopped"
    return None


def _budget(ask: Question) -> Answer:
    team = ask.view.teams.get(ask.run.intent.team)
    if team is not None and team.caps.budget is not None and team.spent >= team.caps.budget:
        return Reason.TEAM_BUDGET_SPENT, f"the team's budget of {money(team.caps.budget)} is spent"
    budget, price = ask.run.terms.budget, ask.flavor.price_per_gpu_hour
    work_s = remaining_work_s(ask.run)
    if budget is None or price is None:
        return None
    left = budget - live_cost(ask.run, ask.now)
    hours = Decimal((work_s or 0.0) / ask.option.relative_speed / 3600.0)
    need = price * ask.option.gpus * hours
    if left <= 0 or need > left:
        return (
            Reason.BUDGET_TOO_SMALL,
            f"the rest of the run would cost about {money(need)}, {money(left)} is left",
        )
    return None


def _time(ask: Question) -> Answer:
    run, now = ask.run, ask.now
    work_s = (remaining_work_s(run) or 0.0) / ask.option.relative_speed
    deadline_s = run.terms.deadline_wall_s
    if deadline_s is not None and now.wall_s + work_s > deadline_s:
        return (
            Reason.DEADLINE_TOO_NEAR,
            (
                f"it needs about {duration(work_s)}, the deadline is in "
                f"{duration(max(0.0, deadline_s - now.wall_s))}"
            ),
        )
    return _content(ask)


def _content(ask: Question) -> Answer:
    prepared = ask.prepared
    # An image may be on no region's registry yet: who asks for it is what brings it to one.
    if prepared.saved_s > ask.standing.policy.patience.content_s:
        return (
            Reason.CONTENT_TOO_LATE,
            f"copying its checkpoint there takes about {duration(prepared.saved_s)}",
        )
    if is_too_dear(ask.run, prepared):
        return (
            Reason.BUDGET_TOO_SMALL,
            (
                f"copying its checkpoint there costs about {money(prepared.checkpoint_usd)}, "
                f"{money(ask.run.copies_left or Decimal(0))} of its budget for copies is left"
            ),
        )
    return None


def _own_past(ask: Question) -> Answer:
    leg = _last_leg(ask)
    if leg is None:
        return None
    if leg.is_live and leg.state is not PlacementState.RUNNING:
        return Reason.ALREADY_WAITING_HERE, "the run is there already"
    if leg.is_live:
        return None  # it trains there; a successor may come anew to the same place
    if not _is_failure(leg):
        return None
    age_s, pause_s = ask.now.since(leg.entered_s), PAUSE_MIN_S
    if was_kept(leg):
        if _is_another_to_decide(ask.run):
            return (
                Reason.RECENTLY_FAILED_HERE,
                f"it was tried there in vain{_why(leg)}, and another place is to decide now",
            )
        pause_s = max(pause_s, backoff.pause_s(_tries_in_vain(ask)))
    elif failed_for_s(ask) is not None:
        outlook = ask.view.outlook(ask.flavor, ask.now.elapsed_s, ask.option.gpus)
        pause_s = max(pause_s, outlook.look_again_s)
    if age_s >= pause_s:
        return None
    return (
        Reason.RECENTLY_FAILED_HERE,
        (
            f"its last try there was given up {duration(age_s)} ago{_why(leg)}; "
            f"it may try again in {duration(pause_s - age_s)}"
        ),
    )


def failed_for_s(ask: Question) -> float | None:
    """Return how long ago the place failed this run, None when that says nothing now.

    That it gave no nodes says nothing once as many are seen free, or came to others that asked
    later. Where nobody was let in, free nodes say nothing; what only the run's user can mend no
    news of the cluster tells. All of it says nothing once it has faded to half its weight.
    """
    leg = _last_leg(ask)
    if leg is None or leg.is_live:
        return None
    age_s, flavor = ask.now.since(leg.entered_s), ask.flavor
    if age_s >= ask.standing.policy.patience.stockout_half_life_s:
        return None
    if was_kept(leg):
        return age_s
    cause = _cause(leg)
    if cause not in _NO_NODES | _NO_WAY_IN:
        return None
    is_free = (flavor.ranks_free(ask.option) or 0) >= ask.option.nodes
    if is_free and cause in _NO_NODES:
        return None
    if ask.view.has_come_since(flavor, leg.entered_s, ask.option.gpus):
        return None
    return age_s


def as_left(ask: Question) -> FlavorFacts:
    """Return the flavor as it is once whoever put the run out there has what it left.

    Between the two a picture of the cluster shows that as free, and the run would go back to it.
    """
    flavor, leg = ask.flavor, _last_leg(ask)
    if leg is None or not was_put_out(leg) or ask.now.since(leg.entered_s) >= PAUSE_MIN_S:
        return flavor
    ahead = flavor.pending_ahead_gpus or 0
    if flavor.headroom is None or flavor.headroom - ahead < ask.option.gpus:
        return flavor  # it is seen to be taken
    return replace(flavor, pending_ahead_gpus=ahead + leg.site.gpus)


def _is_another_to_decide(run: Run) -> bool:
    """Return whether another place has the last word on a run that has no restart left.

    One that is on its way out may be it, too: what it came to is counted when it has gone.
    """
    return run.user_failures >= run.terms.limits.user_restarts and bool(run.live_placements)


def _tries_in_vain(ask: Question) -> int:
    return sum(1 for leg in _legs_here(ask) if was_kept(leg))


def _last_leg(ask: Question) -> Placement | None:
    return next(_legs_here(ask), None)


def _legs_here(ask: Question) -> Iterator[Placement]:
    """Yield the run's legs at the place that is asked about, the newest first."""
    key, index = ask.flavor.key, ask.option_index
    for leg in reversed(ask.run.placements.values()):
        if leg.site.key == key and leg.site.hardware_index == index:
            yield leg


def _why(leg: Placement) -> str:
    """Return in brackets why a leg was left, empty where nothing was said."""
    found = leg.withdraw or leg.why
    return f" ({found.message})" if found.message else ""


def _is_failure(leg: Placement) -> bool:
    """Return whether a leg came to no start there: the same again at once would end the same."""
    # A cluster that refused it or put it out, or whose gate it left, would do so again at once.
    is_turned_away = leg.end is PlacementEnd.FAILED or leg.why.reason is Reason.EVICTED
    has_failed = is_turned_away and leg.phases.running == 0.0
    return has_failed or was_kept(leg) or leg.end in _NO_STARTS or _cause(leg) is not None


def _cause(leg: Placement) -> Reason | None:
    """Return the cause of the wait in which a leg was left, None when it was left for no such."""
    if leg.phases.running > 0.0:
        return None  # it trained there: what ended that is no wait
    if leg.withdraw is not None and leg.withdraw.reason in STUCK_CAUSES:
        return leg.withdraw.reason
    if not leg.is_live and leg.why.reason in _BOOKING_ENDS:
        return leg.why.reason
    # Judged stuck, and then beaten by a leg elsewhere.
    return leg.stuck.reason if leg.stuck is not None and leg.phases.at_gate == 0.0 else None


PAUSE_MIN_S = 60.0  # between two tries of one run at one place, whatever was heard
_NO_STARTS = frozenset({PlacementEnd.LOST, PlacementEnd.REVOKED})
# By these its cluster itself ends a leg, without being asked.
_BOOKING_ENDS = frozenset({Reason.FLEX_FAILED, Reason.BOOKING_EXPIRED, Reason.CAPACITY_REVOKED})
_NO_NODES = frozenset(
    {Reason.STOCKOUT, Reason.PARTIAL_ARRIVAL, Reason.NODES_DO_NOT_COME, Reason.FLEX_SILENT}
    | _BOOKING_ENDS
)
# The cluster itself stood in the way, and does so for whoever comes.
_NO_WAY_IN = frozenset({Reason.WEDGED, Reason.CHECK_NOT_RERUN})


_CHECKS: tuple[Callable[[Question], Answer], ...] = (
    _fits,
    _price,
    _region,
    _reach,
    _budget,
    _time,
    _own_past,
)
