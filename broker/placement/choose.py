"""The one offer to take now, or why none is.

The rule: a dearer offer with a free place is taken before a cheaper one without only if it is
still the better buy once the wait for the cheaper one's place is counted; or once that wait, which
nothing else bounds, has outlived the patience of its cause.
"""

from dataclasses import dataclass

from broker.model.capacity import Offer
from broker.model.intent import AfterMaxWait
from broker.model.moment import Moment
from broker.model.reasons import TURNS
from broker.model.run import Run
from broker.placement.hedge import bounds, is_training, waiting_legs
from broker.placement.ladder import last_rung
from broker.placement.rank import delay_cost, worth
from broker.placement.share import Blocked, Tally
from broker.placement.view import View
from broker.placement.wait import ends_s, limit_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """``offer`` to take now, or None; ``blocked`` are the better ones that may not be taken.

    ``dearer`` is taken instead of them at ``dearer_at_s`` (broker seconds), if nothing changes.
    """

    offer: Offer | None
    blocked: tuple[Blocked, ...]
    dearer: Offer | None = None
    dearer_at_s: float | None = None


def choose(view: View, tally: Tally, run: Run, offers: list[Offer], now: Moment) -> Chosen:
    """Return the best offer that may be taken now."""
    blocked: list[Blocked] = []
    legs = waiting_legs(run)
    bars: list[tuple[float, float]] = []  # what is dearer than this is not taken before then
    for price, offer in ranked(view, tally, run, counted(run, offers, now), now):
        at_s = max((until_s for bar, until_s in bars if price > bar), default=now.elapsed_s)
        if at_s == float("inf"):
            break
        is_now = at_s <= now.elapsed_s
        block = block_of(view, tally, run, offer, now)
        if block is None and is_now:
            return Chosen(offer=offer, blocked=tuple(blocked))
        if block is None:
            return Chosen(offer=None, blocked=tuple(blocked), dearer=offer, dearer_at_s=at_s)
        if is_now:
            blocked.append(block)
        over_s = _outwaited_s(run, block, now)
        if not legs and not is_training(run) and over_s > now.elapsed_s:
            # A bound on a run's legs is no queue, and the next best may be within it. Nor does a
            # run wait that trains: it is to leave at a time of its own.
            bars.append((price + delay_cost(view, run, offer, block.lasts_s), over_s))
    return Chosen(offer=None, blocked=tuple(blocked))


def block_of(view: View, tally: Tally, run: Run, offer: Offer, now: Moment) -> Blocked | None:
    """Return why a feasible offer may not be taken now, or None."""
    block = bounds(view, tally, run, waiting_legs(run), offer)
    return block or tally.blocks(run, offer, now)


def _outwaited_s(run: Run, block: Blocked, now: Moment) -> float:
    """Return when a wait for a turn has been borne long enough (broker seconds, or infinity).

    A wait with a bound of its own has its ladder, which keeps enough of it for the dearer place.
    """
    if block.patience_s is None or limit_s(run) is not None:
        return float("inf")
    is_waiting = run.why.reason in TURNS
    return (run.why.since_s if is_waiting else now.elapsed_s) + block.patience_s


def ranked(
    view: View, tally: Tally, run: Run, offers: list[Offer], now: Moment
) -> list[tuple[float, Offer]]:
    """Return the offers with what each is worth to the run now, the best (lowest) first."""
    shares = tally.crowd_shares(now) if run.has_started else {}
    valued = [
        (
            worth(
                run,
                offer,
                shares.get(offer.region, 0.0),
                delay_cost(view, run, offer, tally.crowding_s(offer)),
            ),
            offer,
        )
        for offer in offers
    ]
    valued.sort(key=lambda some: (some[0], some[1].key, some[1].hardware_index))
    return valued


def counted(run: Run, offers: list[Offer], now: Moment) -> list[Offer]:
    """Return the offers that count: those of the rung, and of them those that did not fail it.

    A place that failed this run is gone back to only on newer evidence, or as a last resort.
    """
    found = _on_rung(run, offers, now)
    return [offer for offer in found if offer.failed_s is None] or found


def _on_rung(run: Run, offers: list[Offer], now: Moment) -> list[Offer]:
    """Return the offers that count: past max wait with LAST_RUNG, those of that rung alone."""
    until_s = ends_s(run)
    is_past = until_s is not None and now.elapsed_s >= until_s
    if not is_past or run.terms.after_max_wait is not AfterMaxWait.LAST_RUNG:
        return offers
    rung = last_rung(run)
    return [offer for offer in offers if offer.capacity_type is rung] or offers
