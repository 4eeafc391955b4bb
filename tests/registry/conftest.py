"""What a test of real registries is given: four of them for the session, and names of its own.

The rule: registries are shared, repositories are not: what a test puts, no other one sees.
"""

import itertools
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

import pytest

from replicator.oci.copies import Copied, Place, Progress
from replicator.oci.copying import Copier
from replicator.oci.login import Login, LoginSource, nobody
from replicator.oci.manifest import Platform
from replicator.oci.registry import Endpoint, Registry, UploadMode
from replicator.oci.wire import Bounds, Wire, open_wire
from tests.registry.servers import PASSWORD, USER, Server, Servers
from tests.registry.tokens import TokenServer

NUMBERS = itertools.count(1)
AMD64 = Platform(os="linux", architecture="amd64", variant="")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.registry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Town:
    """The registries: two that everybody may use, one behind a password, one behind tokens."""

    near: Server
    far: Server
    locked: Server
    gated: Server
    tokens: TokenServer
    servers: Servers


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("registries")
    servers, tokens = Servers(folder), TokenServer(folder)
    try:
        yield Town(
            near=servers.start("near"),
            far=servers.start("far"),
            locked=servers.start(
                "locked", auth={"htpasswd": {"realm": "r", "path": str(servers.htpasswd())}}
            ),
            gated=servers.start("gated", auth=tokens.config()),
            tokens=tokens,
            servers=servers,
        )
    finally:
        servers.close()
        tokens.close()
        # A gigabyte, of which pytest would keep three.
        shutil.rmtree(folder)


@pytest.fixture
def repository() -> Callable[[], str]:
    """Returns the name of a repository that nobody used before."""
    return lambda: f"team/train-{next(NUMBERS)}"


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    async with open_wire(Bounds(connect_s=10, call_s=60, silence_s=60, commit_s=120)) as wire:
        yield wire


@pytest.fixture
async def copier() -> AsyncIterator[Copier]:
    async with Copier(max_parallel=4) as copier:
        yield copier


async def ours() -> Login:
    """The login that the registries know."""
    return Login(user=USER, secret=PASSWORD)


def place(
    wire: Wire,
    server: Server,
    repository: str,
    *,
    mode: UploadMode = UploadMode.WHOLE,
    login: LoginSource = nobody,
    realm_hosts: frozenset[str] = frozenset(),
) -> Place:
    """Return a repository as ``replicator.oci`` knows it."""
    endpoint = Endpoint(
        name=server.name,
        login=login,
        upload_mode=mode,
        is_plain=True,
        realm_hosts=realm_hosts,
    )
    return Place(registry=Registry(endpoint, wire), repository=repository)


async def copy(
    copier: Copier,
    source: Place,
    destination: Place,
    digest: str,
    *,
    platform: Platform | None = None,
    tag: str | None = None,
    progress: Progress | None = None,
) -> Copied:
    """Copy; what is left out is none."""
    return await copier.copy(
        source, destination, digest, platform=platform, tag=tag, progress=progress or Progress()
    )
