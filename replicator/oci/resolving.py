"""Which image a name means now, and whether it runs on the machines that it is for.

A tag is looked up once; what it named then is kept by digest. Read ``resolve`` first.
"""

from contextlib import aclosing
from dataclasses import dataclass

from replicator.errors import ImageRefused
from replicator.oci.contents import manifest
from replicator.oci.download import download
from replicator.oci.manifest import Image, Index, Manifest, Platform, read_platform
from replicator.oci.plan import choose, require_platform
from replicator.oci.registry import Registry

MAX_CONFIG_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """``digest`` is what the name means: an index, where there is one; ``image`` what would run.

    ``size_bytes`` is what a machine without any of it fetches.
    """

    digest: str
    image: str
    size_bytes: int


async def resolve(registry: Registry, repository: str, wanted: str, platform: Platform) -> Resolved:
    """Look up a tag or digest, and check that it is there for a platform.

    Raises ImageMissing, PlatformMissing, ImageRefused, Corrupt, RegistryError.
    """
    root = await manifest(registry, repository, wanted)
    image = await for_platform(registry, repository, root, platform)
    assert isinstance(image.content, Image), "for_platform returns no index"
    parts = {part.digest: part for part in (image.content.config, *image.content.layers)}
    size_bytes = sum(part.size_bytes for part in parts.values())
    return Resolved(digest=root.digest, image=image.digest, size_bytes=size_bytes)


async def for_platform(
    registry: Registry, repository: str, root: Manifest, platform: Platform
) -> Manifest:
    """Return the image for a platform out of what a name means. Raises as ``resolve``."""
    name = registry.name_of(repository, root.digest)
    if isinstance(root.content, Index):
        child = choose(name, root.content, platform)
        found = await manifest(registry, repository, child.digest, limit_bytes=child.size_bytes)
        if isinstance(found.content, Index):
            raise ImageRefused(name, f"what it has for {platform} is an index again")
        return found
    # An index says what its images are for. One image says it in its configuration alone.
    require_platform(name, platform, await _platform(registry, repository, name, root.content))
    return root


async def _platform(registry: Registry, repository: str, name: str, image: Image) -> Platform:
    if image.config.size_bytes > MAX_CONFIG_BYTES:
        raise ImageRefused(name, f"its configuration has {image.config.size_bytes} bytes")
    config = bytearray()
    async with aclosing(download(registry, repository, image.config)) as chunks:
        async for chunk in chunks:
            config += chunk
    return read_platform(name, bytes(config))
