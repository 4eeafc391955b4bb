"""What lies in a registry: manifests by tag and digest, blobs by digest.

The rule: what was asked for by digest has that digest, or is an error, also where the registry
itself says so. Read ``manifest`` first.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import aiohttp

from replicator.errors import Corrupt, RegistryRefused
from replicator.oci import headers
from replicator.oci.manifest import (
    ACCEPT,
    MAX_MANIFEST_BYTES,
    Descriptor,
    Manifest,
    read,
    require_digest,
)
from replicator.oci.reference import is_digest
from replicator.oci.registry import REDIRECTS, Call, Registry
from replicator.oci.wire import whole


async def manifest(
    registry: Registry, repository: str, wanted: str, *, limit_bytes: int = MAX_MANIFEST_BYTES
) -> Manifest:
    """Return a manifest by its tag or digest.

    Raises ImageMissing, ImageRefused, TooLarge, Corrupt when it is not that of its digest, and
    RegistryError.
    """
    call = _manifest_call(registry, "GET", repository, wanted)
    name = call.name
    async with registry.reading(call) as answer:
        body = await whole(answer, name, limit_bytes)
        said = answer.headers.get("Docker-Content-Digest")
        content_type = answer.headers.get("Content-Type", "")
    for digest in (wanted, said):
        if is_digest(digest):
            assert digest is not None
            require_digest(name, body, digest)
    return read(name, body, content_type)


async def has_manifest(registry: Registry, repository: str, digest: str) -> bool:
    """Whether a manifest answers by its digest. Raises RegistryError when it cannot be told."""
    call = _manifest_call(registry, "HEAD", repository, digest)
    async with registry.reading(call, absent=True) as answer:
        if answer.status == 404:
            return False
        said = answer.headers.get("Docker-Content-Digest")
    if said is not None and said != digest:
        raise Corrupt(call.name, f"the registry has {ascii(said)[:80]} in its place")
    return True


async def put_manifest(
    registry: Registry, repository: str, manifest: Manifest, wanted: str
) -> None:
    """Create a manifest by its digest, or have a tag name it. Raises RegistryError, Corrupt."""
    call = registry.call(
        "PUT",
        repository,
        wanted,
        url=registry.url_of(repository, "manifests", wanted),
        headers={
            "Content-Type": manifest.media_type,
            "Content-Length": str(len(manifest.body)),
        },
        body=lambda: manifest.body,
    )
    async with registry.asking(call) as answer:
        await registry.require(call, answer, 201)
        said = answer.headers.get("Docker-Content-Digest")
    if said is not None and said != manifest.digest:
        raise Corrupt(call.name, f"the registry has {ascii(said)[:80]} in its place")


async def has_blob(registry: Registry, repository: str, blob: Descriptor) -> bool:
    """Whether a blob is there, of its size. Raises RegistryError when it cannot be told."""
    call = _blob_call(registry, "HEAD", repository, blob, {})
    async with registry.reading(call, absent=True, away=True) as answer:
        if answer.status in REDIRECTS:
            # It sends nobody away for what it has not. What it signed may be for fetching only.
            return True
        if answer.status == 404:
            return False
        said = headers.length(answer.headers.get("Content-Length"))
    return said is None or said == blob.size_bytes


@asynccontextmanager
async def open_blob(
    registry: Registry, repository: str, blob: Descriptor, offset: int
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Hand on the answer that brings a blob, from ``offset`` on if the registry can do that.

    Its status is 206 when it can, and 200 when it begins at the beginning.
    """
    asked = {"Range": f"bytes={offset}-"} if offset else {}
    call = replace(
        _blob_call(registry, "GET", repository, blob, asked),
        within_s=registry.bounds.transfer_s(blob.size_bytes),
    )
    async with registry.reading(call) as answer:
        first = headers.first_byte(answer.headers.get("Content-Range"))
        if answer.status == 206 and first != offset:
            raise RegistryRefused(call.name, "the registry sends another part than was asked")
        yield answer


def _manifest_call(registry: Registry, method: str, repository: str, wanted: str) -> Call:
    url = registry.url_of(repository, "manifests", wanted)
    return registry.call(method, repository, wanted, url=url, headers={"Accept": ACCEPT})


def _blob_call(
    registry: Registry, method: str, repository: str, blob: Descriptor, asked: Mapping[str, str]
) -> Call:
    url = registry.url_of(repository, "blobs", blob.digest)
    return registry.call(method, repository, blob.digest, url=url, headers=asked)
