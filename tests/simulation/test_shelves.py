"""Images in the simulator: an alarm for each way in which one could be wrong, and copies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.loops.orders import order
from broker.model.policy import RegionPolicy
from regions.cluster import Queue
from tests.builders import Story
from tests.simulation.play import play
from tests.simulation.shelves import law_4_an_image_is_whole_and_the_same

DIGEST, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
WITH_REGISTRIES = 4
"""A seed whose runs have images, some of which are copied while things go wrong."""


def ordered(image: str) -> Queue:
    story = Story().accepted().placed()
    (leg,) = story.run.placements.values()
    made = order(story.run, leg.id, leg.site, RegionPolicy(), "mark", book=None)
    return replace(made, image=image)


@pytest.mark.parametrize(
    ("image", "were", "told", "breaches"),
    [
        (f"alpha.example/team/llm@{DIGEST}", {("alpha", DIGEST)}, DIGEST, 0),
        (f"alpha.example/team/llm@{DIGEST}", {("beta", DIGEST)}, DIGEST, 1),
        (f"alpha.example/team/llm@{DIGEST}", {("alpha", OTHER)}, DIGEST, 1),
        (f"alpha.example/team/llm@{DIGEST}", {("alpha", DIGEST)}, OTHER, 1),
        (f"beta.example/team/llm@{DIGEST}", {("alpha", DIGEST)}, DIGEST, 1),
        ("source.example/team/llm:v1", set(), OTHER, 3),
    ],
)
def test_an_image_that_is_not_whole_there_or_another_is_noticed(
    image: str, were: set[tuple[str, str]], told: str, breaches: int
) -> None:
    made = ordered(image)
    found = law_4_an_image_is_whole_and_the_same("alpha", made, were, {made.run_key: told})
    assert len(list(found)) == breaches


def test_images_are_copied_while_things_go_wrong() -> None:
    outcome = play(WITH_REGISTRIES)
    assert outcome.breaches == ()
    assert outcome.counts["images brought"] > 0
