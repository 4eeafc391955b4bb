"""Why an offer stands where it does: what put it behind the one that is taken, in money.

The rule: the causes are the parts of the very score that offers are ordered by, so that what is
told is what decided. The part that puts an offer furthest behind is its cause. Read ``compared``.
"""

from dataclasses import dataclass

from broker.model.capacity import Comparison, Offer
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Placement, Run
from broker.placement.backoff import was_kept
from broker.placement.choose import Chosen, block_of, counted, ranked
from broker.placement.content import prepared_words
from broker.placement.feasible import Question
from broker.placement.fit import words_of
from broker.placement.ladder import last_rung
from broker.placement.rank import SPREAD_CROWD, SPREAD_USUAL, Parts, delay_cost, lot, parts
from broker.placement.share import Blocked, Tally
from broker.placement.view import View
from broker.placement.words import counted as count_of
from broker.placement.words import duration

_CENT = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """An offer and why it is first, or is not; ``reason`` is what holds it back, if anything."""

    offer: Offer
    comparison: Comparison
    reason: Reason | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """What an offer is worth to the run, in parts. Money is US dollars per hour of progress."""

    offer: Offer
    parts: Parts
    delay: float
    crowd: float
    lot: float

    def behind(self, first: "_Value") -> dict[Comparison, float]:
        """Return by how much each part puts the offer behind another; negative: ahead."""
        mine, other = self.parts, first.parts
        return {
            Comparison.DEARER: mine.machines - other.machines,
            Comparison.LATER: mine.waiting + self.delay - other.waiting - first.delay,
            Comparison.CONTENT: mine.content - other.content,
            Comparison.LESS_PREFERRED: mine.of_taste - other.of_taste,
            Comparison.LESS_WEIGHT: mine.of_weight - other.of_weight,
            Comparison.CROWDED: mine.total * self.crowd - other.total * first.crowd,
            Comparison.LOT: mine.total * self.lot - other.total * first.lot,
        }


def compared(
    view: View, tally: Tally, run: Run, offers: list[Offer], *, choice: Chosen, now: Moment
) -> tuple[Compared, ...]:
    """Return the offers, best first, each with its cause; ``choice`` is what was made of them.

    Those that do not count beside the others come last.
    """
    counts = {_place(offer) for offer in counted(run, offers, now)}
    in_order = [offer for _, offer in ranked(view, tally, run, offers, now)]
    in_order.sort(key=lambda offer: _place(offer) not in counts)
    values = [_value(view, run, offer, tally, now) for offer in in_order]
    blocks = {_place(block.offer): block for block in choice.blocked}
    taken = None if choice.offer is None else _place(choice.offer)
    if taken is None:
        # The choice asks no further than the first that is worth a wait: what follows it may be
        # dearer, and yet be kept from starting by the same cap.
        blocks |= _blocks(view, tally, run, [one for one in in_order if _place(one) in counts], now)
    # What is compared with is what is taken, else what would be if it might.
    first = next((v for v in values if _place(v.offer) == taken), None)
    first = first or next((v for v in values if _place(v.offer) in counts), None)
    found = []
    for value in values:
        place = _place(value.offer)
        if place == taken:
            found.append(_best(value, values))
        elif (block := blocks.get(place)) is not None:
            found.append(_held_back(value.offer, block.reason, block.message))
        elif place not in counts:
            found.append(_set_aside(run, value.offer))
        else:
            assert first is not None, "an offer that counts, and none that does"
            found.append(_behind(run, value, first, is_taken=taken is not None))
    return tuple(found)


def _blocks(
    view: View, tally: Tally, run: Run, offers: list[Offer], now: Moment
) -> dict[tuple[object, int], Blocked]:
    found = ((offer, block_of(view, tally, run, offer, now)) for offer in offers)
    return {_place(offer): block for offer, block in found if block is not None}


def _value(view: View, run: Run, offer: Offer, tally: Tally, now: Moment) -> _Value:
    shares = tally.crowd_shares(now) if run.has_started else {}
    flavor, index = view.flavors[offer.key], offer.hardware_index
    question = Question(view=view, run=run, flavor=flavor, option_index=index, now=now)
    return _Value(
        offer=offer,
        parts=parts(question, offer.forecast, offer.preparation),
        delay=delay_cost(view, run, offer, tally.crowding_s(offer)),
        crowd=SPREAD_CROWD * shares.get(offer.region, 0.0),
        lot=SPREAD_USUAL * lot(run, offer.key),
    )


def _best(value: _Value, values: list[_Value]) -> Compared:
    mine, waiting = value.parts, value.parts.waiting + value.delay
    message = (
        f"the best buy: {_dollars(mine.paid + value.delay)} an hour of progress, "
        f"{_dollars(waiting)} of it for waiting"
    )
    if mine.content >= _CENT:
        message += f" and {_dollars(mine.content)} for its content"
    alike = sum(
        1 for other in values if other is not value and _cause(other, value)[0] is Comparison.LOT
    )
    if alike:
        message += f"; {count_of(alike, 'other')} as good, and the run's own lot decided"
    return Compared(offer=value.offer, comparison=Comparison.BEST, reason=None, message=message)


def _held_back(offer: Offer, reason: Reason, message: str) -> Compared:
    return Compared(
        offer=offer, comparison=Comparison.HELD_BACK, reason=reason, message=f"not now: {message}"
    )


def _set_aside(run: Run, offer: Offer) -> Compared:
    """Say why an offer does not count beside others: it failed the run, or is of another rung."""
    if offer.failed_s is None:
        kind = words_of(last_rung(run))
        message = f"max wait has passed, and only {kind} is tried from then on"
        return _held_back(offer, Reason.MAX_WAIT_PASSED, message)
    ago = f"{duration(offer.failed_s)} ago"
    here = [leg for leg in run.placements.values() if _place_of(leg) == _place(offer)]
    message = (
        f"it gave the run no nodes {ago}, and nothing newer says that "
        f"{count_of(offer.gpus, 'GPU')} come"
    )
    if here and was_kept(here[-1]):
        message = f"it was tried there in vain {ago}, for what only its user can mend"
    return Compared(
        offer=offer,
        comparison=Comparison.LAST_RESORT,
        reason=Reason.RECENTLY_FAILED_HERE,
        message=message,
    )


def _cause(value: _Value, first: _Value) -> tuple[Comparison, float]:
    found = value.behind(first)
    cause = max(found, key=lambda one: found[one])
    return cause, found[cause]


def _behind(run: Run, value: _Value, first: _Value, *, is_taken: bool) -> Compared:
    cause, dollars = _cause(value, first)
    offer = value.offer
    if cause is Comparison.DEARER:
        message = f"its machines cost {_dollars(dollars)} more for an hour of progress"
    elif cause is Comparison.LATER:
        chance = f"{offer.forecast.chance:.0%}"
        message = f"waiting costs {_dollars(dollars)} more for an hour of progress, chance {chance}"
    elif cause is Comparison.CONTENT:
        message = f"its content costs {_dollars(dollars)} more for an hour of progress"
        if told := prepared_words(offer.preparation):
            message += f": {told}"
    elif cause is Comparison.LESS_PREFERRED:
        number = offer.hardware_index + 1
        message = f"it is option {number} of the {len(run.intent.workload.hardware)} accepted"
    elif cause is Comparison.LESS_WEIGHT:
        message = f"ops give {offer.region} a weight of {value.parts.weight:g}"
    elif cause is Comparison.CROWDED:
        share = value.crowd / SPREAD_CROWD
        message = f"{share:.0%} of the runs that lost their place of late went there"
    else:
        message = "as good, and the run's own lot decided"
    if not is_taken:
        message += f"; waiting for a place in {first.offer.region} is the better buy"
    return Compared(offer=offer, comparison=cause, reason=None, message=message)


def _place(offer: Offer) -> tuple[object, int]:
    return offer.key, offer.hardware_index


def _place_of(leg: Placement) -> tuple[object, int]:
    return leg.site.key, leg.site.hardware_index


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}"
