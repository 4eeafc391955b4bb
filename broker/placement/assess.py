"""Every offer and every refusal for a run: feasibility, forecast and score put together.

The rule: what was found for a place is kept for its group until the place changes or time has made
it stale, so that a tick judges only what changed. Read ``assess``.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from broker.model.capacity import FlavorKey, Offer, Refusal
from broker.model.moment import Moment
from broker.model.run import Run
from broker.placement.feasible import Question, as_left, failed_for_s, refuse
from broker.placement.fit import NEVER
from broker.placement.forecast import forecast
from broker.placement.group import Assessment, Group, Place
from broker.placement.ladder import reserve_s
from broker.placement.nearest import describe, is_whole
from broker.placement.rank import score
from broker.placement.view import View
from broker.placement.wait import remaining_wait_s

WHOLE_S = 300.0  # a group that nothing touched for so long is judged anew as a whole
STALE_S = 10.0  # signals fade and waits shrink; a ten-minute wait by a sixtieth
REFRESHED = 4  # stale places judged again beside the changed ones: all of them come round


def assess(view: View, run: Run, now: Moment, group: Group | None) -> Assessment:
    """Judge each flavor with the right kind of accelerator for each hardware option.

    ``group`` is the one in which the run is first, None judges the run by itself.
    """
    if group is None:
        found = {place: _judge(view, run, place, now) for place in _places(view, run)}
        return _sorted_out(view, run, found.values())
    changed = _changed(view, run, group, now)
    for place in changed:
        group.found[place] = _judge(view, run, place, now)
        # Taken out first, so that the longest-judged stay in front.
        group.judged_s.pop(place, None)
        group.judged_s[place] = now.elapsed_s
    group.pulse, group.layout = view.pulse, view.layout
    if changed:
        group.assessment = _sorted_out(view, run, group.found.values())
    return group.assessment


def offers(view: View, run: Run, now: Moment) -> Iterator[Offer]:
    """Yield what could take the run by itself, in no order of worth; each is judged when asked."""
    for place in _places(view, run):
        found = _judge(view, run, place, now)
        if isinstance(found, Offer):
            yield found


def mismatches(view: View, run: Run, now: Moment) -> list[Refusal]:
    """Return the refusals of flavors whose accelerator no hardware option takes."""
    accepted = {option.accelerator for option in run.intent.workload.hardware}
    found = (
        _judge(view, run, (key, 0), now)
        for key, flavor in sorted(view.flavors.items())
        if flavor.accelerator not in accepted
    )
    return [one for one in found if isinstance(one, Refusal)]


def _places(view: View, run: Run) -> list[Place]:
    return [
        (key, index)
        for index, option in enumerate(run.intent.workload.hardware)
        for key in view.keys_of.get(option.accelerator, ())
    ]


def _changed(view: View, run: Run, group: Group, now: Moment) -> list[Place]:
    """Return the places that must be judged again for a group."""
    keys = view.touched_since(group.pulse)
    is_old = group.whole_s is None or now.since(group.whole_s) >= WHOLE_S
    if keys is None or is_old or group.layout != view.layout:
        group.found.clear()
        group.judged_s.clear()
        group.whole_s = now.elapsed_s
        return _places(view, run)
    touched = [place for key in keys for place in _of(view, run, key)]
    stale = (
        place
        for place, at_s in islice(group.judged_s.items(), REFRESHED)
        if now.since(at_s) >= STALE_S
    )
    return list(dict.fromkeys((*touched, *stale)))


def _of(view: View, run: Run, key: FlavorKey) -> list[Place]:
    accelerator = view.flavors[key].accelerator
    return [
        (key, index)
        for index, option in enumerate(run.intent.workload.hardware)
        if option.accelerator == accelerator
    ]


def _sorted_out(view: View, run: Run, found: Iterable[Offer | Refusal]) -> Assessment:
    offers: list[Offer] = []
    refusals: list[Refusal] = []
    for one in found:
        if isinstance(one, Offer):
            offers.append(one)
        else:
            refusals.append(one)
    could_pass = bool(offers) or any(one.reason not in NEVER for one in refusals)
    never = (
        ""
        if could_pass or not is_whole(view)
        else describe(view, run.intent.workload, run.terms).message
    )
    return Assessment(
        offers=offers, refusals=refusals, reserve_s=reserve_s(run, offers), never=never
    )


def _judge(view: View, run: Run, place: Place, now: Moment) -> Offer | Refusal:
    key, index = place
    flavor = view.flavors[key]
    question = Question(view=view, run=run, flavor=flavor, option_index=index, now=now)
    refusal = refuse(question)
    if refusal is not None:
        return refusal
    option, price = question.option, flavor.price_per_gpu_hour
    assert price is not None, "a flavor without a price was not refused"
    outlook = view.outlook(flavor, now.elapsed_s, option.gpus)
    pull_s = view.pull_s(run, flavor.region)
    left_s = remaining_wait_s(run, now)
    foreseen = forecast(as_left(question), outlook, option, left_s, pull_s=pull_s)
    return Offer(
        key=key,
        region=flavor.region,
        capacity_type=flavor.capacity_type,
        hardware_index=index,
        nodes=option.nodes,
        gpus=option.gpus,
        price_per_gpu_hour=price,
        forecast=foreseen,
        preparation=question.prepared,
        score=score(question, foreseen, question.prepared),
        failed_s=failed_for_s(question),
    )
