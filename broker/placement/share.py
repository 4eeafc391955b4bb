"""Who may go now: caps of the team, places in a cluster's queue, and no passing that delays.

The rule: only as many gangs as will soon start are put into a queue: those that fit into its free
quota beside all of ours that wait there, and a few more so that a freed place is taken at once.
A later small gang may pass a larger one that waits only if it does not delay it: it fits beside
it, or it will have ended before the larger one is expected to start.

``Tally`` counts what one plan gives away, so that its choices together keep every bound.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from broker.model.capacity import Certainty, FlavorFacts, FlavorKey, Offer
from broker.model.moment import Moment
from broker.model.reasons import TURNS, Reason
from broker.model.run import Run
from broker.placement.demand import rank_of
from broker.placement.forecast import STARTUP_S
from broker.placement.load import LineSum, WaitingGang
from broker.placement.view import View

CROWD = 3  # runs that lost their place together and do not all rush to the same one
QUEUE_AHEAD = 2  # gangs beyond the free quota: the next two starts, and no crowd to take back


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Why a feasible offer is not taken now, and about how long that lasts, in seconds.

    ``patience_s`` is how long that is waited for before a dearer place is taken, None for ever: a
    team's cap counts everywhere.
    """

    offer: Offer
    reason: Reason
    message: str
    lasts_s: float
    patience_s: float | None = None


class Tally:
    """What a plan has given away so far, on top of the view."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._gangs: dict[FlavorKey, list[WaitingGang]] = {}
        self._committed: dict[str, int] = {}
        self._waiting: dict[str, int] = {}
        self._moved: list[str] = []

    def take(self, run: Run, offer: Offer, now: Moment) -> None:
        """Count an offer as given to a run."""
        team = run.intent.team
        p50_s = offer.forecast.p50_s
        gang = WaitingGang(
            placement="",
            rank=rank_of(run),
            gpus=offer.gpus,
            is_admitted=False,
            expected_s=None if p50_s is None else now.elapsed_s + p50_s,
        )
        self._gangs.setdefault(offer.key, []).append(gang)
        self._committed[team] = self._committed.get(team, 0) + _more(run, offer)
        self._waiting[team] = self._waiting.get(team, 0) + offer.gpus
        if run.has_started:
            self._moved.append(offer.region)

    def blocks(self, run: Run, offer: Offer, now: Moment) -> Blocked | None:
        """Return why the offer may not be taken now, or None."""
        answer = self._cap(run, offer) or self._turn(run, offer, now)
        if answer is None:
            return None
        p50_s = offer.forecast.p50_s or 0.0
        line = self._sum(offer.key).waiting
        return Blocked(
            offer=offer,
            reason=answer[0],
            message=answer[1],
            lasts_s=max(60.0, p50_s) * (1 + line),
            patience_s=self._patience_s(offer, answer[0], now),
        )

    def _patience_s(self, offer: Offer, reason: Reason, now: Moment) -> float | None:
        """Return the patience of the cause that keeps a gang from its turn."""
        if reason not in TURNS:
            return None
        patience = self._view.region(offer.region).policy.patience
        flavor = self._view.flavors[offer.key]
        is_out = self._view.outlook(flavor, now.elapsed_s, offer.gpus).outage_s is not None
        return patience.capacity_s if is_out else patience.quota_s

    def crowding_s(self, offer: Offer) -> float:
        """Return the seconds that an offer's free nodes lose to our own gangs on their way there.

        0 while there are enough for all of them; else the gang's own nodes must be brought up.
        """
        if offer.forecast.certainty is not Certainty.NODES_FREE:
            return 0.0
        waiting_gpus = self._sum(offer.key).waiting_gpus
        if not waiting_gpus:
            return 0.0
        flavor = self._view.flavors[offer.key]
        free = (flavor.nodes_free or 0) * flavor.accelerators_per_node
        if offer.gpus <= free - waiting_gpus:
            return 0.0
        return flavor.startup_s or STARTUP_S[flavor.capacity_type]

    def crowd_shares(self, now: Moment) -> dict[str, float]:
        """Return by region which share of the runs that lost their place of late went there.

        Empty while they are too few to be a crowd. They end one by one, and each is placed in a
        plan of its own: what counts is where those before it went, in this plan or an earlier one.
        """
        crowd = self._view.crowd(now.elapsed_s)
        if crowd < CROWD:
            return {}
        went = Counter([*self._view.moved(now.elapsed_s), *self._moved])
        return {region: min(1.0, gangs / crowd) for region, gangs in went.items()}

    def waiting_gpus(self, team: str) -> int:
        """Return the GPUs of all the team's waiting legs, this plan's included."""
        return self._view.load.team(team).waiting_gpus + self._waiting.get(team, 0)

    def _cap(self, run: Run, offer: Offer) -> tuple[Reason, str] | None:
        standing = self._view.teams.get(run.intent.team)
        cap = None if standing is None else standing.caps.running_gpus
        if cap is None:
            return None
        team = run.intent.team
        held = self._view.load.held(team) + self._committed.get(team, 0)
        if held + _more(run, offer) <= cap:
            return None
        return (
            Reason.TEAM_GPUS_SPENT,
            f"team {team} holds {held} of its {cap} GPUs, the gang takes {offer.gpus}",
        )

    def _turn(self, run: Run, offer: Offer, now: Moment) -> tuple[Reason, str] | None:
        flavor = self._view.flavors[offer.key]
        total = self._sum(offer.key)
        in_line, waiting_gpus = total.in_line, total.in_line_gpus
        headroom = flavor.headroom
        if headroom is not None and offer.gpus <= headroom - waiting_gpus:
            return self._stock(flavor, offer, now)
        if headroom is not None and offer.gpus <= headroom:
            larger = self._larger(run, offer)
            if larger:
                return _passing(run, offer, larger, now)
        if self._beyond(offer.key, headroom) < QUEUE_AHEAD:
            return self._stock(flavor, offer, now)
        return (
            Reason.WAITING_FOR_TURN,
            (
                f"{in_line} gangs with {waiting_gpus} {flavor.accelerator} are in line in "
                f"{offer.region} before it"
            ),
        )

    def _stock(self, flavor: FlavorFacts, offer: Offer, now: Moment) -> tuple[Reason, str] | None:
        """Hold back where nodes do not come: more gangs would bring none."""
        outage_s = self._view.outlook(flavor, now.elapsed_s, offer.gpus).outage_s
        waiting = self._sum(offer.key).waiting
        if outage_s is None or waiting < QUEUE_AHEAD:
            return None
        return (
            Reason.WAITING_FOR_TURN,
            f"{offer.region} is out of stock, and {waiting} gangs wait for it already",
        )

    def _beyond(self, key: FlavorKey, headroom: int | None) -> int:
        """Return how many of our gangs in line there do not fit into the free quota."""
        line = self._line(key)
        if headroom is None:
            return len(line)
        free, fitting = headroom, 0
        for gang in sorted(line, key=lambda some: some.rank):
            if gang.gpus > free:
                break
            free -= gang.gpus
            fitting += 1
        return len(line) - fitting

    def _line(self, key: FlavorKey) -> list[WaitingGang]:
        return [*self._view.load.in_line(key), *self._gangs.get(key, ())]

    def _larger(self, run: Run, offer: Offer) -> list[WaitingGang]:
        rank = rank_of(run)
        return [
            gang for gang in self._line(offer.key) if gang.gpus > offer.gpus and gang.rank < rank
        ]

    def _sum(self, key: FlavorKey) -> LineSum:
        """Return our gangs there that do not stand yet, this plan's included."""
        held, taken = self._view.load.sums.get(key), self._gangs.get(key)
        if taken is None:
            return held or _NOBODY
        total = LineSum() if held is None else replace(held)
        for gang in taken:
            total.count(gang, 1)
        return total


def _passing(
    run: Run, offer: Offer, larger: Iterable[WaitingGang], now: Moment
) -> tuple[Reason, str] | None:
    """Let a small gang pass larger ones only if it ends before any of them could start."""
    work_s = run.terms.expected_duration_s
    ends_s = None if work_s is None else now.elapsed_s + (offer.forecast.p90_s or 0.0) + work_s
    soonest = min((gang for gang in larger), key=lambda gang: gang.expected_s or now.elapsed_s)
    expected_s = soonest.expected_s or now.elapsed_s
    if ends_s is not None and ends_s <= expected_s:
        return None
    return (
        Reason.WOULD_DELAY_LARGER,
        f"a gang of {soonest.gpus} GPUs waits in {offer.region} before it, and would be delayed",
    )


def _more(run: Run, offer: Offer) -> int:
    """Return the GPUs that an offer adds to what the run may come to hold: only one leg wins."""
    if run.open_epoch is not None:
        # A successor runs after its predecessor is closed, never beside it.
        held = [p.site.gpus for p in run.live_placements if p.epoch is not None]
    else:
        held = [leg.site.gpus for leg in run.live_placements if leg.is_waiting]
    return max(0, offer.gpus - max(held, default=0))


_NOBODY = LineSum()
