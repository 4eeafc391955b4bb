"""Every offer and every refusal for a run: feasibility, forecast and score put together.

The rule: what was found for a flavor is kept for its group until the flavor changes or time has
made it stale, so that a tick judges only what changed.
"""

from broker.model.capacity import FlavorKey, Offer, Refusal
from broker.model.moment import Moment
from broker.model.run import Run
from broker.placement.content import content_s
from broker.placement.feasible import Question, price_of, refuse
from broker.placement.forecast import forecast
from broker.placement.group import Assessed, Assessment, Group
from broker.placement.ladder import reserve_s
from broker.placement.rank import score
from broker.placement.view import View
from broker.placement.wait import remaining_wait_s

REUSE_S = 1.0  # the heads of one tick, and of the next, share one list
STALE_S = 60.0  # signals fade and waits shrink: a thirtieth of the signals' half-life


def assess(view: View, run: Run, now: Moment, group: Group | None) -> Assessment:
    """Judge each flavor with the right kind of accelerator for each hardware option.

    ``group`` None judges the run by itself, and keeps nothing.
    """
    if group is not None and _is_fresh(view, group, now):
        return group.found
    offers: list[Offer] = []
    refusals: list[Refusal] = []
    for index, option in enumerate(run.intent.workload.hardware):
        for key in view.keys_of.get(option.accelerator, ()):
            found = _known(view, key, index, group, now)
            if found is None:
                found = _judge(view, run, key, index, now)
                _keep(view, group, found, now)
            if isinstance(found, Offer):
                offers.append(found)
            else:
                refusals.append(found)
    whole = Assessment(offers=offers, refusals=refusals, reserve_s=reserve_s(run, offers))
    if group is not None:
        group.found, group.found_at_s, group.found_pulse = whole, now.elapsed_s, view.pulse
    return whole


def mismatches(view: View, run: Run, now: Moment) -> list[Refusal]:
    """Return the refusals of flavors whose accelerator no hardware option takes."""
    accepted = {option.accelerator for option in run.intent.workload.hardware}
    found = (
        _judge(view, run, key, 0, now)
        for key, flavor in sorted(view.flavors.items())
        if flavor.accelerator not in accepted
    )
    return [one for one in found if isinstance(one, Refusal)]


def _is_fresh(view: View, group: Group, now: Moment) -> bool:
    at_s = group.found_at_s
    return at_s is not None and group.found_pulse == view.pulse and now.since(at_s) < REUSE_S


def _known(
    view: View, key: FlavorKey, index: int, group: Group | None, now: Moment
) -> Offer | Refusal | None:
    known = None if group is None else group.assessed.get((key, index))
    if known is None or known.stamp != view.stamps.get(key, 0):
        return None
    return known.found if now.since(known.at_s) < STALE_S else None


def _keep(view: View, group: Group | None, found: Offer | Refusal, now: Moment) -> None:
    if group is not None:
        group.assessed[found.key, found.hardware_index] = Assessed(
            stamp=view.stamps.get(found.key, 0), at_s=now.elapsed_s, found=found
        )


def _judge(view: View, run: Run, key: FlavorKey, index: int, now: Moment) -> Offer | Refusal:
    flavor = view.flavors[key]
    question = Question(view=view, run=run, flavor=flavor, option_index=index, now=now)
    refusal = refuse(question)
    if refusal is not None:
        return refusal
    option, price = question.option, price_of(flavor)
    assert price is not None, "a flavor without a price was not refused"
    outlook = view.outlook(flavor, now.elapsed_s)
    foreseen = forecast(flavor, outlook, option, remaining_wait_s(run, now))
    copy_s = content_s(view, run, flavor.region)
    return Offer(
        key=key,
        region=flavor.region,
        capacity_type=flavor.capacity_type,
        hardware_index=index,
        nodes=option.nodes,
        gpus=option.gpus,
        price_per_gpu_hour=price,
        forecast=foreseen,
        content_s=copy_s,
        score=score(question, foreseen, copy_s),
    )
