"""One blob out of a registry, as a stream that ends well only when it was the right bytes.

A line that breaks is taken up where it broke, as often as it brings something: the bytes that came
are hashed and passed on, and need not come twice. The last chunk is held back until all of them
had the digest, so that who counts bytes never gets as many as were promised of a false blob. Read
``download`` first.
"""

from collections.abc import AsyncGenerator

import aiohttp

from replicator.errors import Corrupt, RegistryUnreachable
from replicator.hashing import Check
from replicator.oci import headers
from replicator.oci.contents import open_blob
from replicator.oci.manifest import Descriptor
from replicator.oci.registry import Registry

# A line that brings less than this between two breaks is counted as one that brought nothing.
WORTH_BYTES = 1 << 20
MAX_BREAKS = 3


async def download(
    registry: Registry, repository: str, blob: Descriptor
) -> AsyncGenerator[bytes, None]:
    """Yield a blob's bytes; close it to let go. Raises Corrupt, ImageMissing, RegistryError."""
    name = registry.name_of(repository, blob.digest)
    check = Check(name, blob.size_bytes, blob.digest.removeprefix("sha256:"))
    held = b""
    breaks = 0
    # Nothing is not asked for: some registries do not keep it, and its bytes are known.
    while check.done_bytes < blob.size_bytes:
        begun = check.done_bytes
        try:
            async with open_blob(registry, repository, blob, begun) as answer:
                _require_length(name, blob, answer)
                skip = 0 if answer.status == 206 else begun
                while chunk := await answer.content.readany():
                    fresh, skip = chunk[skip:], max(0, skip - len(chunk))
                    if fresh:
                        check.update(fresh)
                        if held:
                            yield held
                        held = fresh
            break
        except RegistryUnreachable:
            breaks = 0 if check.done_bytes - begun >= WORTH_BYTES else breaks + 1
            if breaks > MAX_BREAKS:
                raise
    check.finish()
    if held:
        yield held


def _require_length(name: str, blob: Descriptor, answer: aiohttp.ClientResponse) -> None:
    """Raise Corrupt at once when a whole answer says that it has another length."""
    said = headers.length(answer.headers.get("Content-Length"))
    if answer.status == 200 and said is not None and said != blob.size_bytes:
        raise Corrupt(name, f"{said} bytes where {blob.size_bytes} were promised")
