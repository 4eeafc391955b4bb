"""Clusters and prices as Google tells them, found with the machine's own credentials.

The rule: Google's clients are imported and its credentials looked for only when something is asked;
where they are not there it is said, and asked again later. Read ``find_endpoint``.
"""

import asyncio
import importlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from broker.fleet.fleet import Work
from regions.gcp.entering import endpoint
from regions.gcp.errors import AccessError, GoogleError
from regions.gcp.fleet.clusters import ClusterKey
from regions.gcp.prices.book import Book
from regions.gcp.prices.filing import PriceFile
from regions.gcp.prices.keeping import PriceKeeper
from regions.gcp.prices.shipped import shipped
from regions.gcp.prices.terms import Terms
from regions.gcp.survey import Survey
from regions.gcp.watch import ProjectWatch
from regions.kueue import errors as kueue
from regions.kueue.clock import SystemClock
from regions.kueue.credentials import Endpoint
from regions.kueue.scout import Scout

LOOK_S = 60.0
"""How often it is looked whether the catalog is due; the keeper knows when it is."""


class Doors(Protocol):
    """Who we are to Google, and its clients made from that; each may raise GoogleError."""

    async def identity(self) -> Any:
        """Return credentials, as ``regions.gcp.identity`` finds them."""
        ...

    def fleet(self, identity: Any) -> Any:
        """Return a client of GKE's ClusterManager."""
        ...

    def catalog(self, identity: Any) -> Any:
        """Return a client of the billing catalog."""
        ...


class OwnDoors:
    """The machine's own credentials, and Google's clients."""

    async def identity(self) -> Any:
        """Find Application Default Credentials; that may ask the metadata server."""
        return await asyncio.to_thread(needed("regions.gcp.identity").find_identity)

    def fleet(self, identity: Any) -> Any:
        """Return a client of GKE's ClusterManager."""
        return needed("regions.gcp.channels").fleet_client(identity)

    def catalog(self, identity: Any) -> Any:
        """Return a client of the billing catalog."""
        return needed("regions.gcp.channels").catalog_client(identity)


class Projects:
    """The projects that clusters are of, each of them surveyed once."""

    def __init__(self) -> None:
        self._watches: dict[str, ProjectWatch] = {}

    @property
    def works(self) -> tuple[tuple[str, Work], ...]:
        """What keeps that up to date which Google tells of each project."""
        return tuple((f"survey {name}", watch.run) for name, watch in self._watches.items())

    def scout(self, name: str) -> Scout:
        """Return who tells what Google knows of a cluster's capacity, by its full name."""
        key = _key(name)
        if key.project not in self._watches:
            connect = partial(_surveyed, key.project)
            self._watches[key.project] = ProjectWatch(connect, SystemClock())
        return self._watches[key.project].scout(key)


@asynccontextmanager
async def _surveyed(project: str) -> AsyncIterator[Survey]:
    async with needed("regions.gcp.surveying").surveying(project) as survey:
        yield survey


def _key(name: str) -> ClusterKey:
    _, project, _, location, _, cluster = name.split("/")
    return ClusterKey(project=project, location=location, name=cluster)


def find_endpoint(name: str, doors: Doors) -> Callable[[], Awaitable[Endpoint]]:
    """Return who looks up how a GKE cluster is reached, by its full name."""
    key = _key(name)

    async def find() -> Endpoint:
        try:
            return await _find(key, doors)
        except GoogleError as error:
            raise kueue.AccessError(f"{name}: {error}") from error

    return find


async def _find(key: ClusterKey, doors: Doors) -> Endpoint:
    listing, own = needed("regions.gcp.fleet.listing"), needed("regions.gcp.identity")
    identity = await doors.identity()
    client = doors.fleet(identity)
    try:
        fleet = await listing.FleetLister(client, key.project).look()
    finally:
        await client.transport.close()
    cluster = fleet.clusters.get(key)
    if cluster is None:
        silent = sorted(fleet.missing_zones)
        why = f"; {', '.join(silent)} did not answer" if silent else ""
        raise AccessError(f"the project has no such cluster{why}")
    return endpoint(cluster, own.Tokens(identity.credentials, time.time).token)


def google_prices(terms: Terms, path: Path, doors: Doors) -> tuple[PriceKeeper, Work]:
    """Return the keeper of Google's list prices, and what keeps them up to date."""
    clock = SystemClock()

    async def fetch(now_s: float) -> Book:
        catalog = needed("regions.gcp.prices.catalog")
        client = doors.catalog(await doors.identity())
        try:
            book: Book = await catalog.read_book(client, clock.pause, now_s)
        finally:
            await client.transport.close()
        return book

    keeper = PriceKeeper(file=PriceFile(path), base=shipped(), terms=terms, fetch=fetch)

    async def work() -> None:
        await keeper.load(time.time())
        while True:
            await keeper.refresh(time.time())
            await clock.pause(LOOK_S)

    return keeper, work


def needed(module: str) -> ModuleType:
    """Import one that needs Google's libraries. Raises AccessError."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise AccessError(
            f"Google's libraries are not installed here ({error.name}): pip install"
            " 'capacity-broker[gcp]' brings them"
        ) from error
