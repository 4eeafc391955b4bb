"""The registries that a configuration names, as the agents ask them (imports the HTTP client).

The rule: a registry that is not named is never asked, whatever a run's image is called, so that
nobody sends brokerd's requests where they like; and a login goes to the registry that it is for.
Every call has a deadline. Read ``KnownRegistries`` first.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from broker.config_registry import Registry as Entry
from broker.fleet.google import OwnDoors, needed
from broker.fleet.registry_checks import examined
from broker.loops.image_book import ImageBook, Shelf, Spot, digest_of
from broker.loops.journeys import OnDone
from broker.model.check import ClusterCheck
from broker.model.image import PinnedImage
from regions.gcp.errors import GoogleError
from replicator.errors import LoginRefused, RegistryUnreachable
from replicator.oci.contents import has_manifest
from replicator.oci.copies import Place, Progress
from replicator.oci.copying import Copier
from replicator.oci.docker_config import from_file
from replicator.oci.login import GOOGLE_USER, Login, LoginSource, nobody
from replicator.oci.manifest import Platform
from replicator.oci.prefix import Prefix
from replicator.oci.reference import parse
from replicator.oci.registry import Endpoint, Registry, UploadMode
from replicator.oci.resolving import resolve
from replicator.oci.wire import Bounds, Wire, open_wire

OURS = Platform(os="linux", architecture="amd64", variant="")
"""What all machines with GPUs are that clusters here have."""
RESOLVE_S = 45.0  # an index, a manifest and a configuration, with a token for each
LOOK_S = 15.0  # one HEAD, and perhaps a token
BLOBS_AT_ONCE = 4


class KnownRegistries:
    """Asks registries by their place in the book."""

    def __init__(self, book: ImageBook, registries: Mapping[Prefix, Registry], copier: Copier):
        self._book = book
        self._registries = registries
        self._copier = copier

    async def resolve(self, image: str) -> PinnedImage:
        """Look up an image by its own name, and check that machines here run it."""
        spot = self._book.source(image)
        assert spot is not None, "only what lies in a known registry is asked for"
        async with _within(RESOLVE_S, image):
            registry = self._registries[spot.shelf.prefix]
            found = await resolve(registry, spot.path, parse(image).wanted, OURS)
        return PinnedImage(name=spot.name_of(found.digest), size_bytes=found.size_bytes)

    async def is_there(self, image: str, region: str) -> bool:
        """Whether an image answers by its digest where the region pulls from."""
        place = self._place(self._book.spot_in(image, region))
        async with _within(LOOK_S, image):
            return await has_manifest(place.registry, place.repository, digest_of(image))

    async def bring(self, image: str, origin: str, region: str, on_done: OnDone) -> int:
        """Copy an image, all that its digest names, to a region's registry."""
        source = self._book.spot_in(image, origin) if origin else self._book.source(image)
        copied = await self._copier.copy(
            self._place(source),
            self._place(self._book.spot_in(image, region)),
            digest_of(image),
            platform=None,
            tag=None,
            progress=Progress(on_done),
        )
        return copied.sent_bytes

    async def examine(self, region: str) -> tuple[ClusterCheck, ...]:
        """Ask a region's registry, and those that images come from, what the login may do there."""
        own = self._book.shelf_of(region)
        shelves = [shelf for shelf in self._book.shelves if shelf is own or not shelf.region]
        checks = (
            examined(self._registries[one.prefix], one.prefix, is_own=one is own) for one in shelves
        )
        return tuple(await asyncio.gather(*checks))

    def _place(self, spot: Spot | None) -> Place:
        assert spot is not None, "only what lies in a known registry is asked for"
        return Place(registry=self._registries[spot.shelf.prefix], repository=spot.path)


@asynccontextmanager
async def open_registries(
    entries: Iterable[Entry], book: ImageBook
) -> AsyncIterator[KnownRegistries]:
    """Hold the ways to all registries for as long as the block lasts."""
    async with open_wire(Bounds()) as wire, Copier(max_parallel=BLOBS_AT_ONCE) as copier:
        yield KnownRegistries(book, {one.place: _registry(one, wire) for one in entries}, copier)


def make_book(entries: Iterable[Entry], pulling: frozenset[str]) -> ImageBook:
    """Return what images are called where; ``pulling`` are regions that run images only."""
    return ImageBook(
        (
            Shelf(
                prefix=one.place,
                region=one.region,
                pull_bytes_per_s=float(one.pull_bytes_per_s),
                login=one.login,
                upload=one.upload,
            )
            for one in entries
        ),
        pulling=pulling,
    )


def _registry(entry: Entry, wire: Wire) -> Registry:
    name = entry.place.registry
    endpoint = Endpoint(
        name=name,
        login=_login(entry, name),
        upload_mode=UploadMode(entry.upload),
        is_plain=entry.plain_http,
        realm_hosts=frozenset(entry.token_hosts),
    )
    return Registry(endpoint, wire)


def _login(entry: Entry, registry: str) -> LoginSource:
    match entry.login:
        case "file":
            return from_file(Path(entry.login_file), registry)
        case "google":
            return _Google(registry).login
        case "none":
            return nobody


class _Google:
    """The machine's own credentials as Artifact Registry takes them, looked for when it asks."""

    def __init__(self, registry: str) -> None:
        self._registry = registry
        self._turn = asyncio.Lock()
        self._tokens: Any = None  # of a module that is imported when it is needed

    async def login(self) -> Login:
        try:
            async with self._turn:
                own = needed("regions.gcp.identity")
                if self._tokens is None:
                    identity = await OwnDoors().identity()
                    self._tokens = own.Tokens(identity.credentials, time.time)
            return Login(user=GOOGLE_USER, secret=await self._tokens.token())
        except GoogleError as error:
            raise LoginRefused(self._registry, f"Google's credentials: {error}") from error


@asynccontextmanager
async def _within(seconds: float, name: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise RegistryUnreachable(name, f"the registry did not answer in {seconds:g} s") from None
