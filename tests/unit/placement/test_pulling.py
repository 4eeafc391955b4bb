"""What an image costs a start: a copy where it is not, and the pull by machines that are new."""

from dataclasses import replace
from decimal import Decimal

import pytest

from broker.history.commands import AcceptRun
from broker.history.lineage import resumable
from broker.model.capacity import Certainty
from broker.model.copying import CopyKind
from broker.model.image import PinnedImage
from broker.model.run import Run
from broker.placement.choices import AddLeg
from broker.placement.content import IMAGE_RATE, preparation, stakes
from broker.placement.explain import explain
from broker.placement.forecast import GATE_S, SPREAD
from broker.placement.plan import plan
from broker.placement.view import View
from tests.builders import Story, flat_egress
from tests.unit.placement.pictures import at, ids, make_cluster, make_flavor, make_view, waiting_run

IMAGE = PinnedImage(name=f"r.example/llm@sha256:{'a' * 64}", size_bytes=6_000_000_000)


def waiting(image: PinnedImage | None = IMAGE) -> tuple[Story, View]:
    """Return a run with an image, and a region with nodes free for it that pulls at 100 MB/s."""
    story, view = Story(), View(resumable, flat_egress)
    story.do(story.submit, AcceptRun(image=image))
    flavor = make_flavor("alpha", region="alpha", accelerator="h100", nodes_free=8)
    view.apply_cluster(make_cluster(flavor))
    view.apply_registry("alpha", 1e8)
    view.apply_run(story.run)
    return story, view


def copied_s(view: View, run: Run) -> float:
    return preparation(view, run, "alpha", stakes(view, "h100", 2, Decimal(2))).wait_s


def test_an_image_that_is_not_in_a_region_is_on_its_way_there_first() -> None:
    story, view = waiting()
    assert copied_s(view, story.run) == IMAGE.size_bytes / IMAGE_RATE
    view.rates.tell(CopyKind.IMAGE, "", "alpha", 1e9)
    assert copied_s(view, story.run) == 6.0
    view.apply_image(IMAGE.name, "alpha", is_there=True)
    assert copied_s(view, story.run) == 0.0
    view.apply_image(IMAGE.name, "alpha", is_there=False)
    assert copied_s(view, story.run) == 6.0


def test_a_start_takes_as_long_as_its_machines_pull() -> None:
    story, view = waiting()
    (offer,) = explain(view, story.run, story.now).offers
    assert (offer.forecast.p50_s, offer.forecast.p90_s) == (GATE_S + 60.0, GATE_S * SPREAD + 60.0)
    assert offer.forecast.certainty is Certainty.NODES_FREE
    assert "its image is pulled in 60 s" in offer.forecast.basis


def test_a_place_is_not_refused_for_an_image_that_is_nowhere_yet() -> None:
    story, view = waiting()
    view.rates.tell(CopyKind.IMAGE, "", "alpha", 1e5)
    (offer,) = explain(view, story.run, story.now).offers
    assert offer.preparation.wait_s > view.region("alpha").policy.patience.content_s


@pytest.mark.parametrize("region", ["alpha", "beta"])
def test_what_pulls_nothing_waits_for_nothing(region: str) -> None:
    story, view = waiting(None)
    assert (view.pull_s(story.run, region), view.lacks_image(story.run, region)) == (0.0, False)
    other, _ = waiting()
    assert (view.pull_s(other.run, "beta"), view.lacks_image(other.run, "beta")) == (0.0, False)


def test_runs_that_are_alike_but_for_their_image_are_each_told_of_their_own() -> None:
    flavor = make_flavor("alpha", region="alpha", nodes_free=8)
    large = replace(waiting_run("large", created_s=1.0), image=IMAGE)
    small = replace(waiting_run("small"), image=replace(IMAGE, size_bytes=1_000_000_000))
    view = make_view(make_cluster(flavor))
    view.apply_registry("alpha", 1e8)
    for run in (large, small):
        view.apply_run(run)
    made = plan(view, at(10.0), ids()).choices
    told = {name: leg.site.forecast_p50_s for name, leg in made if isinstance(leg, AddLeg)}
    assert told == {large.name: GATE_S + 60.0, small.name: GATE_S + 10.0}
