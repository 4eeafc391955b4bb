"""The port over a server of one test, and the store of its region; and looks through it."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from regions.cluster import ClusterObservation, ClusterUnreachableError
from regions.kueue.cluster import KueueCluster
from regions.kueue.profiles import Profiles
from regions.kueue.queue_view import QueueSettings
from regions.kueue.scout import Scout
from regions.kueue.sites import KueueSettings
from regions.launcher.store import DirectoryStore
from tests.unit.regions.kueue.making import make_profile
from tests.unit.regions.kueue.servers import Server
from tests.unit.regions.kueue.test_sight import OURS, Cluster, Patient

QUEUES = QueueSettings(namespace=OURS)


def make_settings(queues: QueueSettings = QUEUES) -> KueueSettings:
    """A member without profiles of its own."""
    return KueueSettings(
        cluster="west",
        region="eu-west4",
        queues=queues,
        profiles=Profiles(default=make_profile(), flavors={}),
    )


@contextlib.asynccontextmanager
async def ported(
    server: Server,
    cluster: Cluster,
    root: Path,
    scout: Scout | None = None,
    *,
    queues: QueueSettings = QUEUES,
    wall_s: Callable[[], float] = lambda: 1_000_000.0,
) -> AsyncIterator[KueueCluster]:
    """The port to what a server answers for a cluster, followed; its store is below ``root``."""
    server.answer = cluster.answer
    port = KueueCluster(
        server.api(),
        DirectoryStore.create(str(root / "store")),
        make_settings(queues),
        clock=Patient(server),
        chance=random.Random(3),
        scout=scout,
        wall_s=wall_s,
    )
    running = asyncio.create_task(port.run())
    try:
        yield port
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def seen(port: KueueCluster) -> ClusterObservation:
    """Look until the first lists have come; the clock of these tests runs ahead of them."""
    for _ in range(3_000):
        with contextlib.suppress(ClusterUnreachableError):
            return await port.observe()
        await asyncio.sleep(0.01)
    raise AssertionError("it is never seen")
