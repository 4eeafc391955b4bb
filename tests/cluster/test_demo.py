"""The demo on real control planes: its story happens, with the same weights; nothing is left."""

from __future__ import annotations

from pathlib import Path
from signal import SIGTERM

import pytest

from broker.demo.__main__ import INTERRUPTED
from tests.demo.onlooker import STORY, looking_on

pytestmark = pytest.mark.cluster

# The home stays: in its cache is the rig, which was built there.
MODULE = "tests.cluster.rig.demo"
LEASES = "capacity-broker-rig-"
"""Of ports: files that all rigs of a user share, and that stay."""
TOLD = (*STORY, "as of the same run left alone")


def test_the_story_of_the_demo_happens_on_real_kueue_with_the_same_weights() -> None:
    with looking_on(module=MODULE, home=Path.home()) as demo:
        demo.wait_for("The cloud takes the machines back")
        assert demo.end() == 0, demo.said
        assert [words for words in TOLD if words not in demo.said] == [], demo.said
        assert "Traceback" not in demo.said
        demo.eventually_nothing_is_left(shared=LEASES)


def test_an_interrupted_demo_leaves_nothing_of_its_clusters() -> None:
    with looking_on(module=MODULE, home=Path.home()) as demo:
        demo.wait_for("5 of 8 machines")
        demo.signal(SIGTERM)
        assert demo.end() == INTERRUPTED, demo.said
        assert "Traceback" not in demo.said
        demo.eventually_nothing_is_left(shared=LEASES)
