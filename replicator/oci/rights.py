"""Whether a login may do what copies need, found out by beginning it.

The rule: nothing is left that anybody could see. An upload that was begun is ended; a registry that
keeps it all the same, as Debian's does, clears such up by itself. Read ``may_push`` first.
"""

from replicator.oci.contents import has_manifest
from replicator.oci.manifest import Descriptor
from replicator.oci.registry import Registry
from replicator.oci.upload import begin

# Of no bytes that anybody will find.
_NOTHING = f"sha256:{'0' * 64}"


async def may_pull(registry: Registry, repository: str) -> None:
    """Return when a repository can be read, whatever is in it. Raises RegistryError."""
    await has_manifest(registry, repository, _NOTHING)


async def may_push(registry: Registry, repository: str) -> None:
    """Return when a layer could be sent to a repository. Raises RegistryError."""
    nothing = Descriptor(
        media_type="application/octet-stream",
        digest=_NOTHING,
        size_bytes=0,
        platform=None,
        urls=(),
    )
    location = await begin(registry, repository, nothing)
    call = registry.call("DELETE", repository, _NOTHING, url=location, headers={})
    async with registry.asking(call):
        # Some registries let uploads end by themselves alone; that it may be sent is known.
        pass
