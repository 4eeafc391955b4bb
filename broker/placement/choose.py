"""The one offer to take now, or why none is.

The rule: a dearer offer with a free place is taken before a cheaper one without only if it is
still the better buy once the wait for the cheaper one's place is counted.
"""

from dataclasses import dataclass

from broker.model.capacity import Offer
from broker.model.intent import AfterMaxWait
from broker.model.moment import Moment
from broker.model.run import Run
from broker.placement.hedge import bounds, waiting_legs
from broker.placement.ladder import last_rung
from broker.placement.rank import order, spread
from broker.placement.share import Blocked, Tally
from broker.placement.view import View
from broker.placement.wait import ends_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """``offer`` to take now, or None; ``blocked`` are the better ones that may not be taken."""

    offer: Offer | None
    blocked: tuple[Blocked, ...]


def choose(view: View, tally: Tally, run: Run, offers: list[Offer], now: Moment) -> Chosen:
    """Return the best offer that may be taken now."""
    crowd = view.crowd(now.elapsed_s) if run.has_started else 0
    blocked: list[Blocked] = []
    bar = float("inf")
    for offer in order(run, _on_rung(run, offers, now), crowd):
        worth = offer.score * spread(run, offer.key, crowd)
        if worth > bar:
            break
        block = bounds(view, tally, run, offer) or tally.blocks(run, offer, now)
        if block is None:
            return Chosen(offer=offer, blocked=tuple(blocked))
        blocked.append(block)
        bar = min(bar, worth + _delay_cost(view, run, block))
    return Chosen(offer=None, blocked=tuple(blocked))


def _on_rung(run: Run, offers: list[Offer], now: Moment) -> list[Offer]:
    """Return the offers that count: past max wait with LAST_RUNG, those of that rung alone."""
    until_s = ends_s(run)
    is_past = until_s is not None and now.elapsed_s >= until_s
    if not is_past or run.terms.after_max_wait is not AfterMaxWait.LAST_RUNG:
        return offers
    rung = last_rung(run)
    return [offer for offer in offers if offer.capacity_type is rung] or offers


def _delay_cost(view: View, run: Run, block: Blocked) -> float:
    """Return what waiting for a blocked offer's place adds to its score, in the score's unit."""
    if waiting_legs(run):
        return float("inf")  # a bound on legs is no queue: the next best may be within it
    flavor = view.flavors[block.offer.key]
    dearest = float(view.dearest.get(flavor.accelerator, 0)) or 1.0
    work_s = run.terms.expected_duration_s or 4 * 3600.0
    return dearest * block.offer.gpus * block.lasts_s / max(60.0, work_s)
