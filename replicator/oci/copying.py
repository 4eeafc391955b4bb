"""Images from one registry to another: the same bytes, the same digests.

The order is the safety: blobs, each published only when it had its digest; then manifests, children
before the index that names them, each in the very bytes in which it came. So who finds the digest
that was asked for finds the whole, and a copy that was killed anywhere is taken up by the next,
which sends nothing that is there. Read ``Copier.copy`` first.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType

from replicator.errors import Corrupt, ReplicatorError
from replicator.oci.contents import has_manifest, manifest, put_manifest
from replicator.oci.copies import Copied, How, Place, Progress
from replicator.oci.flights import Flights, OnDone
from replicator.oci.manifest import MAX_MANIFEST_BYTES, Descriptor, Manifest, Platform
from replicator.oci.parallel import each
from replicator.oci.plan import CopyPlan, plan, unread
from replicator.oci.resolving import for_platform
from replicator.oci.transfer import transfer

_MAX_KNOWN = 10_000
_MANIFESTS_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Brought:
    """In which repository of its registry a blob lies now, and how it came there."""

    repository: str
    how: How


class Copier:
    """All copies of one process: a blob comes once to a registry, and so many come at once.

    Use it as ``async with``; leaving cancels what is under way.
    """

    def __init__(self, *, max_parallel: int) -> None:
        if max_parallel < 1:
            raise ValueError("max_parallel is at least 1")
        self._max_parallel = max_parallel
        self._slots = asyncio.Semaphore(max_parallel)
        self._flights: Flights[tuple[str, str], _Brought] = Flights()
        self._inside = AsyncExitStack()
        # In which repository of a registry a blob was seen last, to mount it from there.
        self._known: dict[tuple[str, str], str] = {}

    async def __aenter__(self) -> "Copier":
        await self._inside.enter_async_context(self._flights)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._inside.__aexit__(kind, error, trace)

    async def copy(
        self,
        source: Place,
        destination: Place,
        digest: str,
        *,
        platform: Platform | None,
        tag: str | None,
        progress: Progress,
    ) -> Copied:
        """Bring what ``digest`` names: all of an index, or its image for one ``platform``.

        ``tag`` is to name it there, too. Cancelled anywhere it leaves what a crash leaves.
        Raises ImageMissing, PlatformMissing, ImageRefused, Corrupt, TooLarge, RegistryError.
        """
        planned = await self._plan(source, digest, platform)
        progress.total_bytes = planned.size_bytes
        brought: list[tuple[Descriptor, How]] = []

        async def bring(blob: Descriptor) -> None:
            brought.append((blob, await self._bring(source, destination, blob, progress)))

        await each(planned.blobs, bring, at_once=self._max_parallel)
        for one in planned.manifests:
            await _put(destination, one)
        await _require_there(destination, planned.root)
        if tag is not None:
            await put_manifest(destination.registry, destination.repository, planned.root, tag)
        sent = [blob.size_bytes for blob, how in brought if how is How.SENT]
        return Copied(
            digest=planned.root.digest,
            sent=len(sent),
            sent_bytes=sum(sent),
            mounted=sum(how is How.MOUNTED for _, how in brought),
            found=sum(how is How.FOUND for _, how in brought),
        )

    async def _plan(self, source: Place, digest: str, platform: Platform | None) -> CopyPlan:
        registry, repository = source.registry, source.repository
        root = await manifest(registry, repository, digest)
        if platform is not None:
            root = await for_platform(registry, repository, root, platform)
        manifests = {root.digest: root}

        async def fetch(child: Descriptor) -> None:
            limit_bytes = min(child.size_bytes, MAX_MANIFEST_BYTES)
            manifests[child.digest] = await manifest(
                registry, repository, child.digest, limit_bytes=limit_bytes
            )

        name = source.name_of(digest)
        while missing := unread(name, manifests):
            await each(missing, fetch, at_once=_MANIFESTS_AT_ONCE)
        return plan(name, root.digest, manifests)

    async def _bring(
        self, source: Place, destination: Place, blob: Descriptor, progress: Progress
    ) -> How:
        """Have a blob at its destination; return how it came there."""
        key = (destination.registry.endpoint.name, blob.digest)
        is_ours = False

        async def work(on_done: OnDone) -> _Brought:
            nonlocal is_ours
            is_ours = True
            async with self._slots:
                origin = self._origin(source, destination, blob)
                how = await transfer(source, destination, blob, origin=origin, on_done=on_done)
            return _Brought(repository=destination.repository, how=how)

        while True:
            try:
                brought = await self._flights.join(key, work, progress.of(blob))
            except ReplicatorError:
                if is_ours:
                    raise
                # It was to come for another copy, from where that one has it; ours is still to try.
                continue
            self._remember(key, brought.repository)
            if is_ours:
                return brought.how
            if brought.repository == destination.repository:
                return How.FOUND
            # It came into another repository of this registry, from which it can be mounted now.

    def _origin(self, source: Place, destination: Place, blob: Descriptor) -> str | None:
        """Return another repository of the destination's registry in which a blob should be."""
        name = destination.registry.endpoint.name
        if source.registry.endpoint.name == name:
            return source.repository
        known = self._known.get((name, blob.digest))
        return None if known == destination.repository else known

    def _remember(self, key: tuple[str, str], repository: str) -> None:
        self._known.pop(key, None)
        self._known[key] = repository
        while len(self._known) > _MAX_KNOWN:
            del self._known[next(iter(self._known))]


async def _put(destination: Place, one: Manifest) -> None:
    registry, repository = destination.registry, destination.repository
    if not await has_manifest(registry, repository, one.digest):
        await put_manifest(registry, repository, one, one.digest)


async def _require_there(destination: Place, root: Manifest) -> None:
    """Read back what is to be found there, by its digest, and hold it against what was sent."""
    found = await manifest(destination.registry, destination.repository, root.digest)
    if found.body != root.body or found.media_type != root.media_type:
        raise Corrupt(destination.name_of(root.digest), "it is not what was sent there")
