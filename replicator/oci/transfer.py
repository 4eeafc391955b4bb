"""One blob to where it is wanted, by the cheapest way there is.

It is there; or its registry has it elsewhere and takes it from there; or it is sent. Whatever the
registry says of that, it is asked at the end whether it has it. Read ``transfer`` first.
"""

from replicator.errors import LoginRefused, RegistryRefused
from replicator.oci.contents import has_blob
from replicator.oci.copies import How, Place
from replicator.oci.download import download
from replicator.oci.flights import OnDone
from replicator.oci.manifest import Descriptor
from replicator.oci.upload import begin, mount, upload


async def transfer(
    source: Place, destination: Place, blob: Descriptor, *, origin: str | None, on_done: OnDone
) -> How:
    """Have a blob at its destination. ``origin`` is a repository of that registry that may have it.

    Raises ImageMissing, Corrupt, RegistryError.
    """
    how = How.FOUND
    if not await has_blob(destination.registry, destination.repository, blob):
        how = await _bring(source, destination, blob, origin, on_done)
        if not await has_blob(destination.registry, destination.repository, blob):
            name = destination.name_of(blob.digest)
            raise RegistryRefused(name, "the registry took it, and does not have it")
    on_done(blob.size_bytes)
    return how


async def _bring(
    source: Place, destination: Place, blob: Descriptor, origin: str | None, on_done: OnDone
) -> How:
    registry, repository = destination.registry, destination.repository
    location = None
    if origin is not None:
        try:
            location = await mount(registry, repository, blob, origin)
        except (RegistryRefused, LoginRefused):
            origin = None  # not every login may read there, and not every registry can mount
        else:
            if location is None:
                return How.MOUNTED
    if location is None:
        location = await begin(registry, repository, blob)
    await upload(
        registry,
        repository,
        blob,
        lambda: download(source.registry, source.repository, blob),
        location=location,
        on_sent=on_done,
    )
    return How.SENT
