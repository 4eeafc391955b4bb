"""Which offer is worth most: expected dollars for an hour of progress, waiting included.

The rule: lower is better, and everything in a score is money. An hour of waiting costs what an
hour of the dearest machine of the kind would, for that is what the user could have bought with
it. A region's weight divides the score; weight 0 is never first.

    score = (price x gpus / speed x hours + dearest x gpus x wait + content) / hours / weight

``content`` is what bringing the run's content there costs, and doing again what is lost.
"""

import zlib
from dataclasses import dataclass

from broker.model.capacity import FlavorKey, Forecast, Offer
from broker.model.preparing import Preparation
from broker.model.run import Run
from broker.placement.feasible import Question, remaining_work_s
from broker.placement.view import View
from broker.placement.wait import remaining_wait_s

WORK_S = 4 * 3600.0  # where the user expects no duration: a wait is weighed against half a shift
UNLUCKY_S = 4 * 3600.0  # what a start that does not come costs in waiting, where no wait is named
CLIMBED_HASTE = 10.0  # with the wait nearly gone, time is what is bought
TASTE = 0.02  # how much dearer a less preferred option may be found: ties go by preference
SPREAD_USUAL = 0.02
SPREAD_CROWD = 0.5  # a reclaim frees no capacity: many that move at once must not meet again


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A score in its parts: US dollars per hour of progress, then the factors on them."""

    machines: float
    waiting: float
    content: float
    taste: float
    weight: float

    @property
    def paid(self) -> float:
        """What is paid, and lost by waiting."""
        return self.machines + self.waiting + self.content

    @property
    def of_taste(self) -> float:
        """What the place of the hardware option among the accepted adds."""
        return self.paid * (self.taste - 1.0)

    @property
    def of_weight(self) -> float:
        """What the policy's weight adds; negative where it draws."""
        return self.total - self.paid * self.taste

    @property
    def total(self) -> float:
        """The score."""
        return self.paid * self.taste / max(self.weight, 1e-9)


def score(question: Question, forecast: Forecast, prepared: Preparation) -> float:
    """Return an offer's score in US dollars per hour of progress at the reference speed."""
    return parts(question, forecast, prepared).total


def parts(question: Question, forecast: Forecast, prepared: Preparation) -> Parts:
    """Return what an offer's score is made of."""
    run, flavor, option = question.run, question.flavor, question.option
    hours = max(60.0, remaining_work_s(run) or WORK_S) / 3600.0
    price = float(flavor.price_per_gpu_hour or 0)
    dearest = float(question.view.dearest.get(flavor.accelerator, 0)) or 1.0
    wait_cost = dearest * option.gpus * wait_hours(question, forecast, prepared)
    haste = CLIMBED_HASTE if run.climbed else 1.0
    return Parts(
        machines=price * option.gpus / option.relative_speed,
        waiting=haste * wait_cost / hours,
        content=float(prepared.usd) / hours,
        taste=1.0 + TASTE * question.option_index,
        weight=question.standing.policy.weight,
    )


def wait_hours(question: Question, forecast: Forecast, prepared: Preparation) -> float:
    """Return the expected hours until the run is where it was, no start at all included."""
    remaining_s = remaining_wait_s(question.run, question.now)
    unlucky_s = min(UNLUCKY_S, UNLUCKY_S if remaining_s is None else max(remaining_s, 60.0))
    soon_s = UNLUCKY_S if forecast.p50_s is None else forecast.p50_s
    # Content travels while the queue moves.
    lucky_s = max(soon_s, prepared.wait_s) + prepared.redone_s
    return (forecast.chance * lucky_s + (1.0 - forecast.chance) * (lucky_s + unlucky_s)) / 3600.0


def spread(run: Run, key: FlavorKey, share: float) -> float:
    """Return a factor of 1 and a little more, by which runs that would choose alike choose apart.

    ``share`` (0 to 1) of the runs that lost their place together went to this region already: a
    place that takes all of them is found dearer by half. What is left is chance, the same for this
    run and flavor for ever.
    """
    return 1.0 + SPREAD_USUAL * lot(run, key) + SPREAD_CROWD * share


def lot(run: Run, key: FlavorKey) -> float:
    """Return the run's own lot for a flavor, 0 to 1, the same for ever."""
    return zlib.crc32(f"{run.uid}/{key.cluster}/{key.queue}/{key.flavor}".encode()) / 2**32


def worth(run: Run, offer: Offer, share: float, delay: float) -> float:
    """Return the score by which a run chooses, ``delay`` (see ``delay_cost``) included."""
    return offer.score * spread(run, offer.key, share) + delay


def delay_cost(view: View, run: Run, offer: Offer, delay_s: float) -> float:
    """Return what a delay in seconds adds to an offer's score, in the score's unit."""
    if delay_s == 0.0:
        return 0.0
    flavor = view.flavors[offer.key]
    dearest = float(view.dearest.get(flavor.accelerator, 0)) or 1.0
    work_s = max(60.0, remaining_work_s(run) or WORK_S)
    haste = CLIMBED_HASTE if run.climbed else 1.0
    return haste * dearest * offer.gpus * delay_s / work_s
