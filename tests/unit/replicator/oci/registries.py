"""Two registries of our own to copy between, and what tests ask of them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp.test_utils import BaseTestServer, TestServer

from replicator.oci.copies import Copied, Place, Progress
from replicator.oci.copying import Copier
from replicator.oci.login import LoginSource, nobody
from replicator.oci.manifest import Platform
from replicator.oci.registry import Endpoint, Registry, UploadMode
from replicator.oci.wire import Bounds, open_wire
from tests.fakes.registry import FakeRegistry
from tests.unit.replicator.oci.images import CONFIG, LAYER, child, encoded, index

HERE, THERE = "team/here", "team/there"
AMD64 = Platform(os="linux", architecture="amd64", variant="")
# No test of the truth may fail for a machine that is busy.
PATIENT = Bounds(connect_s=60.0, call_s=120.0, silence_s=120.0, commit_s=120.0)


@dataclass(slots=True, kw_only=True)
class Town:
    """A source and a destination, each a server, what it holds, and the way to ask it.

    The ``stranger``, at ``elsewhere``, is neither, unless it is asked as ``other_source``.
    """

    here: FakeRegistry
    there: FakeRegistry
    source: Place
    destination: Place
    other_source: Place
    elsewhere: BaseTestServer
    stranger: FakeRegistry
    copier: Copier

    async def copy(self, digest: str, **more: Any) -> Copied:
        """Copy from here to there."""
        given: dict[str, Any] = {"platform": None, "tag": None, "progress": Progress()} | more
        return await self.copier.copy(self.source, self.destination, digest, **given)


@asynccontextmanager
async def town(
    *,
    bounds: Bounds = PATIENT,
    mode: UploadMode = UploadMode.WHOLE,
    login: LoginSource = nobody,
    realm_hosts: frozenset[str] = frozenset(),
    at_once: int = 4,
) -> AsyncIterator[Town]:
    """Have two registries, and a third server that is neither."""
    here, there, stranger = FakeRegistry(), FakeRegistry(), FakeRegistry()
    async with AsyncExitStack() as stack:
        wire = await stack.enter_async_context(open_wire(bounds))
        copier = await stack.enter_async_context(Copier(max_parallel=at_once))
        servers = [
            await stack.enter_async_context(TestServer(each.app))
            for each in (here, there, stranger)
        ]
        source, destination, other = (
            Registry(
                Endpoint(
                    name=f"127.0.0.1:{server.port}",
                    login=login,
                    upload_mode=mode,
                    is_plain=True,
                    realm_hosts=realm_hosts,
                ),
                wire,
            )
            for server in servers
        )
        yield Town(
            here=here,
            there=there,
            source=Place(registry=source, repository=HERE),
            destination=Place(registry=destination, repository=THERE),
            other_source=Place(registry=other, repository=HERE),
            elsewhere=servers[2],
            stranger=stranger,
            copier=copier,
        )


def add_image(
    registry: FakeRegistry, *layers: bytes, architecture: str = "amd64", tag: str = "v1"
) -> str:
    """Have a registry hold an image of these layers; return its digest."""
    config = encoded({"os": "linux", "architecture": architecture, "layers": len(layers)})
    body = encoded(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _held(registry, config, CONFIG),
            "layers": [_held(registry, layer, LAYER) for layer in layers],
        }
    )
    return registry.put_manifest(HERE, body, tag)


def add_index(registry: FakeRegistry, *platforms: str) -> str:
    """Have a registry hold an index of one image for each platform; return its digest."""
    children = []
    for platform in platforms:
        architecture = platform.split("/")[1]
        digest = add_image(
            registry, b"base", platform.encode(), architecture=architecture, tag=architecture
        )
        children.append(child(registry.manifests[HERE, digest][1], platform))
    return registry.put_manifest(HERE, index(*children), "all")


def _held(registry: FakeRegistry, content: bytes, media_type: str) -> dict[str, Any]:
    digest = registry.put(HERE, content)
    return {"mediaType": media_type, "digest": digest, "size": len(content)}
