"""brokerd as a process on real Kueue: a run from its submit to its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.conftest import ZONES
from tests.cluster.rig.rig import Rig
from tests.cluster.scene import Scene, scene_of
from tests.killed import laws

pytestmark = pytest.mark.cluster


@pytest.fixture
def scene(rig: Rig) -> Iterator[Scene]:
    """A brokerd on the first two regions."""
    with scene_of(rig, list(ZONES)[:2]) as made:
        yield made


def test_a_run_trains_on_real_kueue_and_succeeds(scene: Scene) -> None:
    name = scene.submit("first")
    scene.wait_for(name, "SUCCEEDED", "FAILED", "REJECTED")
    assert laws.finished(scene.lines(name)) == {scene.run(name).uid: {0, 1}}
