"""Law 4, of images: whatever fails and wherever, who finds a digest finds the whole image."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random

from aiohttp import web
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from replicator.errors import ReplicatorError
from replicator.oci.manifest import Index, read
from replicator.oci.plan import plan
from replicator.oci.registry import UploadMode
from tests.fakes.registry import LOST, FakeRegistry, digest_of, refused
from tests.unit.replicator.oci.registries import HERE, THERE, Town, add_index, town

ATTEMPTS = 40


def is_whole(registry: FakeRegistry, digest: str) -> bool:
    """Whether all that a manifest names is there, and is what its digest says."""
    manifests = {
        name: read(name, body, media_type)
        for (at, name), (media_type, body) in registry.manifests.items()
        if at == THERE and name.startswith("sha256:")
    }
    content = manifests[digest].content
    children = content.children if isinstance(content, Index) else ()
    if not all(child.digest in manifests for child in children):
        return False
    blobs = plan(digest, digest, manifests).blobs
    found = {blob.digest: registry.blobs.get((THERE, blob.digest)) for blob in blobs}
    return all(each is not None and digest_of(each) == name for name, each in found.items())


def nothing_is_half(registry: FakeRegistry) -> bool:
    """Whether every manifest that can be found is whole."""
    named = [name for at, name in registry.manifests if at == THERE and name.startswith("sha256:")]
    return all(is_whole(registry, name) for name in named)


class Trouble:
    """What goes wrong at two registries, by chance; ``halves`` counts what should never be seen."""

    def __init__(self, there: Town, chance: Random) -> None:
        self.crash: Callable[[], object] = lambda: None
        self.halves = 0
        self._there = there
        self._chance = chance
        there.here.lie, there.there.lie = self.lie, self.break_off

    def end(self) -> None:
        """Let the truth be told."""
        self._there.here.lie = self._there.there.lie = None

    async def lie(self, request: web.Request) -> web.StreamResponse | None:
        """Trouble at the source, which sends other things than it should, too."""
        what = self._chance.randrange(60)
        if what == 7:
            return web.Response(status=201)
        if what == 8:
            return web.Response(body=self._chance.randbytes(self._chance.randrange(20)))
        return self._failed(request, what)

    async def break_off(self, request: web.Request) -> web.StreamResponse | None:
        """Trouble at the destination."""
        return self._failed(request, self._chance.randrange(60))

    def _failed(self, request: web.Request, what: int) -> web.StreamResponse | None:
        self.halves += not nothing_is_half(self._there.there)
        if what < 3:
            return refused((500, 404, 403)[what], "NO")
        if what == 3:
            return refused(429, "NO", **{"Retry-After": "1"})
        if what == 4:
            assert request.transport is not None
            request.transport.abort()
        if what == 5:
            self.crash()
        if what == 6:
            request[LOST] = True
        return None


async def attempts(seed: int, mode: UploadMode, *, is_careless: bool) -> tuple[int, int]:
    """Copy until it is done; return after how many attempts, and how much was seen half."""
    async with town(mode=mode) as there:
        there.there.is_careless = is_careless
        digest = add_index(there.here, "linux/amd64", "linux/arm64")
        trouble = Trouble(there, Random(seed))
        for attempt in range(ATTEMPTS):
            copy = asyncio.create_task(there.copy(digest))
            trouble.crash = copy.cancel
            with suppress(ReplicatorError, asyncio.CancelledError):
                await copy
                assert is_whole(there.there, digest)
                return attempt, trouble.halves
        trouble.end()
        await there.copy(digest)
        assert is_whole(there.there, digest)
        return ATTEMPTS, trouble.halves


# A seed does not get simpler: one that fails is told as it is.
@settings(max_examples=30, phases=[Phase.generate])
@given(st.integers(0, 1 << 32), st.sampled_from(UploadMode), st.booleans())
def test_law_what_can_be_found_is_whole(seed: int, mode: UploadMode, is_careless: bool) -> None:
    _, halves = asyncio.run(attempts(seed, mode, is_careless=is_careless))
    assert halves == 0


async def test_an_image_that_is_half_is_seen() -> None:
    async with town() as there:
        there.there.is_careless = True
        digest = add_index(there.here, "linux/amd64", "linux/arm64")
        there.there.manifests[THERE, digest] = there.here.manifests[HERE, digest]
        assert not nothing_is_half(there.there)
        await there.copy(digest)
        assert nothing_is_half(there.there)
        _, blob = next(iter(there.there.blobs))
        there.there.blobs[THERE, blob] += b"?"
        assert not nothing_is_half(there.there)
