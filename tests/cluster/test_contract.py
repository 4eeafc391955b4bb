"""The contract of the port, on real Kueue: the very cases that the embedded cluster passes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.kueue_world import KueueWorld
from tests.cluster.rig.region import Region
from tests.contract.cluster.conftest import Set
from tests.contract.cluster.test_booking import *  # noqa: F403
from tests.contract.cluster.test_life import *  # noqa: F403
from tests.contract.cluster.test_trouble import *  # noqa: F403
from tests.contract.cluster.test_waiting import *  # noqa: F403
from tests.contract.cluster.test_withdrawing import *  # noqa: F403
from tests.contract.cluster.world import Shape, Stagehand

pytestmark = pytest.mark.cluster

PATIENCE_S = 120.0
"""A node that is gone is given 40 s to come back, and then up to 20 s pass until its pods go."""


@pytest.fixture
async def set_stage(region: Region, tmp_path: Path) -> AsyncIterator[Set]:
    """Make a world of a shape, and end it after the test, gangs and all."""
    worlds: list[KueueWorld] = []

    async def make(shape: Shape) -> Stagehand:
        world = KueueWorld(region, tmp_path, shape)
        worlds.append(world)
        await world.start()
        return Stagehand(world, patience_s=PATIENCE_S)

    yield make
    for world in worlds:
        await world.end()
