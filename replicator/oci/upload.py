"""One blob into a registry: whole in one request, or in chunks that are taken up where they broke.

A registry publishes a blob when it was told its digest and has those bytes; what was cut off
before is nothing to anybody. So an upload that fails needs no undoing, and one that is begun again
begins anew. Read ``upload`` first.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from yarl import URL

from replicator.errors import RegistryRefused
from replicator.oci import locations
from replicator.oci.manifest import Descriptor
from replicator.oci.registry import Registry, UploadMode
from replicator.oci.session import Session, about_body

# Held in memory until the registry has it. Object stores behind registries take no less than 5 MiB.
CHUNK_BYTES = 5 << 20

# Makes the stream of a blob's bytes anew; each ends with an error unless they were the right ones.
Source = Callable[[], AsyncGenerator[bytes, None]]
# Called with how many of the blob's bytes were handed over by now. It can shrink.
OnSent = Callable[[int], None]


async def mount(registry: Registry, repository: str, blob: Descriptor, origin: str) -> URL | None:
    """Have a registry take a blob from another of its repositories; None when that is done.

    Else return the upload that it began instead. Raises RegistryError.
    """
    query = {"mount": blob.digest, "from": origin}
    return await _begin(registry, repository, blob, query, (f"repository:{origin}:pull",))


async def begin(registry: Registry, repository: str, blob: Descriptor) -> URL:
    """Begin an upload. Raises RegistryError."""
    location = await _begin(registry, repository, blob, {}, ())
    if location is None:
        name = registry.name_of(repository, blob.digest)
        raise RegistryRefused(name, "the registry has it before it was sent")
    return location


async def upload(
    registry: Registry,
    repository: str,
    blob: Descriptor,
    source: Source,
    *,
    location: URL,
    on_sent: OnSent,
) -> None:
    """Send a blob to an upload that was begun, and have it published.

    Raises what ``source`` raises, Corrupt when other bytes arrived, RegistryError.
    """
    if registry.endpoint.upload_mode is UploadMode.WHOLE or blob.size_bytes <= CHUNK_BYTES:
        await _whole(registry, repository, blob, source, location=location, on_sent=on_sent)
        return
    session = Session(registry, repository, blob, location)
    async with aclosing(source()) as chunks:
        async for piece in _pieces(chunks, CHUNK_BYTES):
            await session.send(piece)
            on_sent(session.sent_bytes)
    await session.publish()


async def _begin(
    registry: Registry,
    repository: str,
    blob: Descriptor,
    query: dict[str, str],
    also: tuple[str, ...],
) -> URL | None:
    url = registry.url_of(repository, "blobs", "uploads", "").with_query(query)
    call = registry.call("POST", repository, blob.digest, url=url, headers={}, also=also)
    async with registry.asking(call) as answer:
        await registry.require(call, answer, 201, 202)
        if answer.status == 201:
            return None
        return locations.upload(call.name, url, answer.headers.get("Location"))


async def _whole(
    registry: Registry,
    repository: str,
    blob: Descriptor,
    source: Source,
    *,
    location: URL,
    on_sent: OnSent,
) -> None:
    """Send it all in one request, which says beforehand how much and what it is."""

    async def body() -> AsyncGenerator[bytes, None]:
        sent = 0
        on_sent(0)
        async with aclosing(source()) as chunks:
            async for chunk in chunks:
                yield chunk
                sent += len(chunk)
                on_sent(sent)

    call = registry.call(
        "PUT",
        repository,
        blob.digest,
        url=locations.with_query(location, "digest", blob.digest),
        headers=about_body(blob.size_bytes),
        body=body,
    )
    async with registry.asking(call) as answer:
        await registry.require(call, answer, 201, 202, 204)


async def _pieces(
    chunks: AsyncGenerator[bytes, None], size_bytes: int
) -> AsyncGenerator[bytes, None]:
    """Put chunks together to pieces of at least this size; the last may be smaller."""
    piece = bytearray()
    async for chunk in chunks:
        piece += chunk
        if len(piece) >= size_bytes:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)
