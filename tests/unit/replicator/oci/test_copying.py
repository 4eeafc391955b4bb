"""Images between registries that tell the truth: what is sent, in which order, and how often."""

import asyncio

import pytest

from replicator.errors import ImageMissing, PlatformMissing
from replicator.oci.copies import Copied, Place, Progress
from replicator.oci.manifest import Platform
from replicator.oci.registry import UploadMode
from replicator.oci.resolving import Resolved, resolve
from replicator.oci.upload import CHUNK_BYTES
from tests.fakes.registry import FakeRegistry, digest_of
from tests.unit.replicator.oci.registries import (
    AMD64,
    HERE,
    THERE,
    add_image,
    add_index,
    town,
)

LARGE = b"0123456789abcdef" * (1 << 16) * 13  # 13 MiB: three chunks
BOTH = ("linux/amd64", "linux/arm64")


def holds(registry: FakeRegistry, repository: str) -> tuple[dict[str, bytes], dict[str, object]]:
    """Return the blobs and manifests of a repository by their names."""
    return (
        {name: content for (at, name), content in registry.blobs.items() if at == repository},
        {name: found for (at, name), found in registry.manifests.items() if at == repository},
    )


async def test_a_whole_index_is_the_same_at_its_destination() -> None:
    async with town() as there:
        digest = add_index(there.here, *BOTH)
        progress = Progress()
        copied = await there.copy(digest, tag="all", progress=progress)
        blobs, manifests = holds(there.here, HERE)
        del manifests["amd64"], manifests["arm64"]
        assert holds(there.there, THERE) == (blobs, manifests)
        sizes = sum(map(len, blobs.values()))
        assert copied == Copied(digest=digest, sent=5, sent_bytes=sizes, mounted=0, found=0)
        assert (progress.done_bytes, progress.total_bytes) == (sizes, sizes)


async def test_the_second_copy_sends_nothing() -> None:
    async with town() as there:
        digest = add_index(there.here, *BOTH)
        await there.copy(digest)
        there.there.heard.clear()
        there.here.heard.clear()
        again = await there.copy(digest)
        assert again == Copied(digest=digest, sent=0, sent_bytes=0, mounted=0, found=5)
        assert {each.method for each in there.there.heard} == {"HEAD", "GET"}
        assert there.here.asked("GET", "/blobs/") == []


async def test_an_index_is_sent_after_its_children_and_they_after_their_blobs() -> None:
    async with town() as there:
        digest = add_index(there.here, *BOTH)
        await there.copy(digest, tag="all")
        puts = [each.path for each in there.there.heard if each.method == "PUT"]
        kinds = ["manifest" if "/manifests/" in path else "blob" for path in puts]
        assert kinds == ["blob"] * 5 + ["manifest"] * 4
        assert [path.rpartition("/")[2] for path in puts[-2:]] == [digest, "all"]


async def test_one_platform_of_an_index_is_copied_alone() -> None:
    async with town() as there:
        digest = add_index(there.here, *BOTH)
        arm64 = Platform(os="linux", architecture="arm64", variant="")
        copied = await there.copy(digest, platform=arm64)
        assert copied.digest == digest_of(there.here.manifests[HERE, "arm64"][1])
        blobs, manifests = holds(there.there, THERE)
        assert (len(blobs), list(manifests)) == (3, [copied.digest])
        with pytest.raises(PlatformMissing):
            await there.copy(
                digest, platform=Platform(os="linux", architecture="s390x", variant="")
            )


@pytest.mark.parametrize("mode", UploadMode)
@pytest.mark.parametrize("content", [b"", b"x", LARGE, LARGE[: 2 * CHUNK_BYTES]])
async def test_a_layer_of_any_size_comes_as_it_was(mode: UploadMode, content: bytes) -> None:
    async with town(mode=mode) as there:
        digest = add_image(there.here, content)
        await there.copy(digest)
        assert there.there.blobs[THERE, digest_of(content)] == content
        lengths = [
            each.headers["Content-Length"] for each in there.there.asked("PATCH", "/blobs/uploads/")
        ]
        is_chunked = mode is UploadMode.CHUNKS and len(content) > CHUNK_BYTES
        assert sum(map(int, lengths)) == (len(content) if is_chunked else 0)


async def test_within_one_registry_blobs_are_mounted() -> None:
    async with town() as there:
        digest = add_index(there.here, *BOTH)
        there.destination = Place(registry=there.source.registry, repository=THERE)
        copied = await there.copy(digest)
        assert copied == Copied(digest=digest, sent=0, sent_bytes=0, mounted=5, found=0)
        assert there.here.asked("GET", "/blobs/") == []


async def test_what_the_destination_has_elsewhere_is_mounted_from_there() -> None:
    async with town() as there:
        digest = add_image(there.here, b"layer")
        await there.copy(digest)
        there.destination = Place(registry=there.destination.registry, repository="other/place")
        copied = await there.copy(digest)
        assert (copied.mounted, copied.sent) == (2, 0)


async def test_copies_at_once_bring_a_blob_once() -> None:
    async with town() as there:
        one = add_image(there.here, b"shared", b"1")
        two = add_image(there.here, b"shared", b"2", b"3")
        elsewhere = Place(registry=there.destination.registry, repository="other/place")
        progress = [Progress() for _ in range(3)]
        results = await asyncio.gather(
            there.copy(one, progress=progress[0]),
            there.copy(two, progress=progress[1]),
            there.copier.copy(
                there.source, elsewhere, one, platform=None, tag=None, progress=progress[2]
            ),
        )
        sent = there.here.asked("GET", digest_of(b"shared"))
        assert len(sent) == 1
        assert sum(each.sent for each in results) == 6
        assert [each.done_bytes == each.total_bytes for each in progress] == [True] * 3


async def test_a_copy_that_is_cancelled_leaves_the_other_one_what_both_want() -> None:
    async with town() as there:
        digest = add_image(there.here, b"shared")
        begun, go = asyncio.Event(), asyncio.Event()

        async def hold(request: object) -> None:
            if digest_of(b"shared") in str(request):
                begun.set()
                await go.wait()

        there.here.lie = hold
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(there.copy(digest))
            await begun.wait()
            second = tasks.create_task(there.copy(digest))
            for _ in range(20):
                await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait([first])
            go.set()
        assert first.cancelled()
        assert second.result().found + second.result().sent == 2
        assert len(there.here.asked("GET", digest_of(b"shared"))) == 1


async def test_a_copy_that_is_cancelled_is_taken_up_by_the_next() -> None:
    async with town() as there:
        digest = add_image(there.here, b"one", b"two")
        begun = asyncio.Event()

        async def hold(request: object) -> None:
            if digest_of(b"two") in str(request):
                begun.set()
                await asyncio.Event().wait()

        there.here.lie = hold
        async with asyncio.TaskGroup() as tasks:
            copy = tasks.create_task(there.copy(digest))
            await begun.wait()
            copy.cancel()
        there.here.lie = None
        assert (THERE, digest) not in there.there.manifests
        copied = await there.copy(digest)
        assert copied.sent + copied.found == 3
        assert there.there.blobs[THERE, digest_of(b"two")] == b"two"


async def test_a_name_is_resolved_to_its_digest_for_a_platform() -> None:
    async with town() as there:
        digest = add_index(there.here, *BOTH)
        registry = there.source.registry
        amd64 = digest_of(there.here.manifests[HERE, "amd64"][1])
        found = await resolve(registry, HERE, "all", AMD64)
        assert (found.digest, found.image) == (digest, amd64)
        await there.copy(amd64)
        assert found.size_bytes == sum(map(len, holds(there.there, THERE)[0].values()))
        assert await resolve(registry, HERE, "amd64", AMD64) == Resolved(
            digest=amd64, image=amd64, size_bytes=found.size_bytes
        )
        with pytest.raises(PlatformMissing, match="it is for linux/arm64"):
            await resolve(registry, HERE, "arm64", AMD64)
        with pytest.raises(ImageMissing):
            await resolve(registry, HERE, "none", AMD64)
        with pytest.raises(ImageMissing):
            await resolve(registry, "no/where", "v1", AMD64)
