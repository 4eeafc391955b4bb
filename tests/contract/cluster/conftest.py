"""Every kind of cluster passes the same suite: a new kind joins ``KINDS``."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.contract.cluster.local_world import LocalWorld
from tests.contract.cluster.world import Shape, Stagehand

KINDS = {"local": LocalWorld}

Set = Callable[[Shape], Awaitable[Stagehand]]


@pytest.fixture(params=sorted(KINDS))
async def set_stage(request: pytest.FixtureRequest) -> AsyncIterator[Set]:
    """Make a world of a shape, and end it after the test, gangs and all."""
    root = Path(tempfile.mkdtemp(prefix="cluster-"))
    worlds: list[LocalWorld] = []

    async def make(shape: Shape) -> Stagehand:
        world = KINDS[request.param](root, shape)
        worlds.append(world)
        await world.start_control_plane()
        return Stagehand(world)

    yield make
    for world in worlds:
        await world.end()
    shutil.rmtree(root)
