"""Clusters and prices as Google tells them, found with the machine's own credentials.

The rule: Google's clients are imported and its credentials looked for only when something is asked;
where they are not there it is said, and asked again later. Read ``find_endpoint``.
"""

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType

from broker.fleet.fleet import Work
from regions.gcp.errors import AccessError, GoogleError
from regions.gcp.fleet.clusters import ClusterKey
from regions.gcp.prices.book import Book
from regions.gcp.prices.filing import PriceFile
from regions.gcp.prices.keeping import PriceKeeper
from regions.gcp.prices.shipped import shipped
from regions.gcp.prices.terms import Terms
from regions.kueue import errors as kueue
from regions.kueue.clock import SystemClock
from regions.kueue.credentials import Endpoint

LOOK_S = 60.0
"""How often it is looked whether the catalog is due; the keeper knows when it is."""


def find_endpoint(name: str) -> Callable[[], Awaitable[Endpoint]]:
    """Return who looks up how a GKE cluster is reached, by its full name."""
    _, project, _, location, _, cluster = name.split("/")
    key = ClusterKey(project=project, location=location, name=cluster)

    async def find() -> Endpoint:
        try:
            return await _find(key)
        except GoogleError as error:
            raise kueue.AccessError(f"{name}: {error}") from error

    return find


async def _find(key: ClusterKey) -> Endpoint:
    entering = _needed("regions.gcp.entering")
    listing = _needed("regions.gcp.fleet.listing")
    channels, identity = _needed("regions.gcp.channels"), _needed("regions.gcp.identity")
    found = await asyncio.to_thread(identity.find_identity)
    client = channels.fleet_client(found)
    try:
        fleet = await listing.FleetLister(client, key.project).look()
    finally:
        await client.transport.close()
    cluster = fleet.clusters.get(key)
    if cluster is None:
        silent = sorted(fleet.missing_zones)
        why = f"; {', '.join(silent)} did not answer" if silent else ""
        raise AccessError(f"project {key.project} has no such cluster{why}")
    tokens = identity.Tokens(found.credentials, time.time)
    told: Endpoint = entering.endpoint(cluster, tokens.token)
    return told


def google_prices(terms: Terms, path: Path) -> tuple[PriceKeeper, Work]:
    """Return the keeper of Google's list prices, and what keeps them up to date."""
    clock = SystemClock()
    keeper = PriceKeeper(file=PriceFile(path), base=shipped(), terms=terms, fetch=_fetch)

    async def work() -> None:
        await keeper.load(time.time())
        while True:
            await keeper.refresh(time.time(), ())
            await clock.pause(LOOK_S)

    return keeper, work


async def _fetch(now_s: float) -> Book:
    catalog = _needed("regions.gcp.prices.catalog")
    channels, identity = _needed("regions.gcp.channels"), _needed("regions.gcp.identity")
    client = channels.catalog_client(await asyncio.to_thread(identity.find_identity))
    try:
        book: Book = await catalog.read_book(client, SystemClock().pause, now_s)
    finally:
        await client.transport.close()
    return book


def _needed(module: str) -> ModuleType:
    """Import one that needs Google's libraries. Raises AccessError."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise AccessError(
            f"Google's libraries are not installed here ({error.name}): pip install"
            " 'capacity-broker[gcp]' brings them"
        ) from error
