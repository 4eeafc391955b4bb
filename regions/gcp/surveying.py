"""Opens the way to all that Google tells of one project.

The rule: what was opened is closed again, whatever happens within. Read ``surveying``.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from regions.gcp import channels, identity
from regions.gcp.compute import ComputeApi
from regions.gcp.fleet.listing import FleetLister
from regions.gcp.survey import Survey


@asynccontextmanager
async def surveying(project: str) -> AsyncIterator[Survey]:
    """Survey a project with the identity of this machine, for the length of a block.

    Raises GoogleError when there is none.
    """
    found = await asyncio.to_thread(identity.find_identity)
    tokens = identity.Tokens(found.credentials, time.time)
    client = channels.fleet_client(found)
    try:
        async with aiohttp.ClientSession() as session:
            compute = ComputeApi(session, tokens.token, project)
            yield Survey(FleetLister(client, project), compute, time.monotonic)
    finally:
        await client.transport.close()  # type: ignore[no-untyped-call]
