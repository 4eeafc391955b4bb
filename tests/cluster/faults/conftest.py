"""What the tests of faults are given: one region, and corners of it in which things go wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from regions.capacity import FlavorSeen
from regions.cluster import Cause, EpochKey, PlacementSeen, Queue
from tests.cluster.faults.corner import Corner, Terms
from tests.cluster.rig import fleet
from tests.cluster.rig.region import Region
from tests.cluster.rig.rig import Rig
from tests.contract.cluster.world import Stagehand, World, make_withdraw

PATIENCE_S = 120.0
PODS_S, SOON_S = 300, 25
"""For how long Kueue bears that not all processes are up: so long that no other fault is taken for
this one on a busy machine, and so short that a test can wait for it."""
GATES = {"AdmissionGatedBy": True}
"""What later releases of Kueue have without being told."""


class Scene(Stagehand):
    """A stagehand in a corner."""

    def __init__(self, corner: Corner) -> None:
        # What goes wrong in a corner is done to it by its own methods, not by those of a world.
        super().__init__(cast(World, corner), patience_s=PATIENCE_S)
        self.corner = corner

    async def caused(self, cause: Cause, placement: str = "p1") -> PlacementSeen:
        """Wait until a gang is said to be where it is for a cause."""
        return await self.placed(placement, lambda seen: seen.cause is cause)

    async def given_back(self, queue: Queue, epoch: EpochKey | None = None) -> PlacementSeen:
        """Withdraw a gang, and wait until nothing of any gang is held."""
        seen = (await self.see()).placements[queue.placement]
        is_closed = epoch is not None
        await self.done(make_withdraw(queue, uid=seen.uid, epoch=epoch, is_closed=is_closed))
        ended = await self.ended(queue.placement)
        await self.corner.nothing_is_left()
        return ended

    async def flavor(self) -> FlavorSeen:
        """Return its one flavor as it is seen now."""
        [queue] = (await self.see()).queues
        [flavor] = queue.flavors
        return flavor


Set = Callable[[Terms], Awaitable[Scene]]


@pytest.fixture(scope="package")
def region() -> Iterator[Region]:
    """One region of its own: Kueue is stopped in it."""
    with Rig(("west",)) as made:
        [found] = made.regions.values()
        found.api.apply(*fleet.everything())
        bear(found, PODS_S)
        yield found


def bear(region: Region, pods_s: int) -> None:
    """Have Kueue bear for so long that not all processes of a gang are up."""
    given = {"timeout": f"{pods_s}s", "recoveryTimeout": f"{pods_s}s", "blockAdmission": False}
    region.kueue_down()
    region.kueue_up(waitForPodsReady=given, featureGates=GATES)


@pytest.fixture
def impatient(region: Region) -> Iterator[int]:
    """Have Kueue bear it for a short while only, in this test, and return for how many seconds."""
    bear(region, SOON_S)
    yield SOON_S
    bear(region, PODS_S)


@pytest.fixture
async def set_stage(region: Region, tmp_path: Path) -> AsyncIterator[Set]:
    """Make a corner with its terms, and end it after the test, gangs and all."""
    corners: list[Corner] = []

    async def make(terms: Terms) -> Scene:
        corner = Corner(region, tmp_path, terms)
        corners.append(corner)
        await corner.start()
        return Scene(corner)

    yield make
    for corner in corners:
        await corner.end()
