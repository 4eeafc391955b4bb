"""Copies between real registries: the same bytes, the same digests, and no byte twice."""

import asyncio
import itertools
from collections.abc import Callable

import pytest

from replicator.errors import (
    ImageMissing,
    LoginRefused,
    PlatformMissing,
    RegistryRefused,
    RegistryUnreachable,
)
from replicator.oci.contents import has_manifest
from replicator.oci.copies import Progress
from replicator.oci.copying import Copier
from replicator.oci.flights import OnDone
from replicator.oci.login import Login
from replicator.oci.manifest import Descriptor
from replicator.oci.registry import UploadMode
from replicator.oci.resolving import resolve
from replicator.oci.wire import Wire
from tests.registry import skopeo
from tests.registry.conftest import AMD64, Town, copy, ours, place
from tests.registry.pushing import Pusher, large, multi_arch

Name = Callable[[], str]


class Fuse(Progress):
    """Progress that says when so many bytes were done."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self.is_blown = asyncio.Event()
        self._size_bytes = size_bytes

    def of(self, blob: Descriptor) -> OnDone:
        told = super().of(blob)

        def done(done_bytes: int) -> None:
            told(done_bytes)
            if self.done_bytes >= self._size_bytes:
                self.is_blown.set()

        return done


@pytest.mark.parametrize("is_oci", [True, False], ids=["oci", "docker"])
@pytest.mark.parametrize("mode", UploadMode)
async def test_a_copy_is_byte_for_byte_the_one_that_skopeo_makes(
    town: Town, wire: Wire, copier: Copier, repository: Name, is_oci: bool, mode: UploadMode
) -> None:
    here, there, theirs = repository(), repository(), repository()
    pusher = Pusher(town.near, here, is_oci=is_oci)
    digest = multi_arch(pusher)["digest"]
    progress = Progress()
    copied = await copy(
        copier,
        place(wire, town.near, here),
        place(wire, town.far, there, mode=mode),
        digest,
        progress=progress,
    )
    skopeo.copy(town.near, here, digest, town.far, theirs)
    assert (town.far.blobs(there), town.far.manifests(there)) == (
        town.far.blobs(theirs),
        town.far.manifests(theirs),
    )
    assert town.far.manifests(there) == town.near.manifests(here)
    for name in town.near.manifests(here) | town.near.blobs(here):
        assert town.far.content(name) == town.near.content(name)
    assert skopeo.raw(town.far, there, digest) == skopeo.raw(town.near, here, digest)
    assert (copied.sent, copied.found, copied.mounted) == (len(town.near.blobs(here)), 0, 0)
    assert progress.done_bytes == progress.total_bytes == copied.sent_bytes


async def test_what_skopeo_brought_is_not_sent_again(
    town: Town, wire: Wire, copier: Copier, repository: Name
) -> None:
    here, there = repository(), repository()
    digest = multi_arch(Pusher(town.near, here))["digest"]
    skopeo.copy(town.near, here, digest, town.far, there)
    uploads = town.far.uploads()
    source, destination = place(wire, town.near, here), place(wire, town.far, there)
    copied = await copy(copier, source, destination, digest, tag="v1")
    assert (copied.sent, copied.mounted, town.far.uploads()) == (0, 0, uploads)
    assert skopeo.inspect(town.far, there, "v1")["Architecture"] == "amd64"


async def test_one_platform_is_an_image_of_its_own(
    town: Town, wire: Wire, copier: Copier, repository: Name
) -> None:
    here, there = repository(), repository()
    digest = multi_arch(Pusher(town.near, here), tag="v1")["digest"]
    source, destination = place(wire, town.near, here), place(wire, town.far, there)
    resolved = await resolve(source.registry, here, "v1", AMD64)
    copied = await copy(copier, source, destination, digest, platform=AMD64, tag="v1")
    assert (resolved.digest, copied.digest) == (digest, resolved.image)
    assert town.far.manifests(there) == {resolved.image}
    assert not await has_manifest(destination.registry, there, digest)
    assert await has_manifest(destination.registry, there, resolved.image)
    assert skopeo.inspect(town.far, there, "v1")["Architecture"] == "amd64"


async def test_within_a_registry_nothing_is_sent(
    town: Town, wire: Wire, copier: Copier, repository: Name
) -> None:
    here, there = repository(), repository()
    digest = multi_arch(Pusher(town.near, here))["digest"]
    uploads = town.near.uploads()
    copied = await copy(copier, place(wire, town.near, here), place(wire, town.near, there), digest)
    assert (copied.sent, copied.mounted) == (0, len(town.near.blobs(here)))
    assert (town.near.uploads(), town.near.blobs(there)) == (uploads, town.near.blobs(here))


async def test_many_copies_at_once_bring_each_blob_once(
    town: Town, wire: Wire, copier: Copier, repository: Name
) -> None:
    here = repository()
    pusher = Pusher(town.near, here)
    base = pusher.layer(b"".join(large(8)))
    images = [pusher.image(base, pusher.layer(b"%d in %s" % (n, here.encode()))) for n in range(4)]
    places = [place(wire, town.far, repository()) for _ in range(2)]
    uploads = town.far.uploads()
    copies = await asyncio.gather(
        *(
            copy(copier, place(wire, town.near, here), destination, image["digest"])
            for image, destination in itertools.product(images, places)
        )
    )
    blobs = len(town.near.blobs(here))
    assert town.far.uploads() - uploads == sum(each.sent for each in copies) == blobs
    for destination in places:
        assert town.far.blobs(destination.repository) == town.near.blobs(here)


@pytest.mark.parametrize("content", [b"", b"x"])
async def test_a_layer_of_nothing_is_a_layer(
    town: Town, wire: Wire, copier: Copier, repository: Name, content: bytes
) -> None:
    here, there = repository(), repository()
    pusher = Pusher(town.near, here)
    digest = pusher.image(pusher.layer(content))["digest"]
    await copy(copier, place(wire, town.near, here), place(wire, town.far, there), digest)
    assert town.far.blobs(there) == town.near.blobs(here)


async def test_a_password_opens_a_registry(
    town: Town, wire: Wire, copier: Copier, repository: Name
) -> None:
    here, there, back = repository(), repository(), repository()
    digest = multi_arch(Pusher(town.near, here))["digest"]
    locked = place(wire, town.locked, there, login=ours)
    await copy(copier, place(wire, town.near, here), locked, digest)
    await copy(copier, locked, place(wire, town.far, back), digest)
    assert town.far.blobs(back) == town.locked.blobs(there) == town.near.blobs(here)


@pytest.mark.parametrize("mode", UploadMode)
async def test_tokens_open_a_registry_for_what_they_name(
    town: Town, wire: Wire, copier: Copier, repository: Name, mode: UploadMode
) -> None:
    here, there, other, back = (repository() for _ in range(4))
    pusher = Pusher(town.near, here)
    layers = [pusher.layer(b"".join(large(11))), pusher.layer(here.encode())]
    digest = pusher.image(*layers)["digest"]
    realm = frozenset({"127.0.0.1"})
    gated = place(wire, town.gated, there, mode=mode, login=ours, realm_hosts=realm)
    beside = place(wire, town.gated, other, login=ours, realm_hosts=realm)
    await copy(copier, place(wire, town.near, here), gated, digest)
    mounted = await copy(copier, gated, beside, digest)
    await copy(copier, beside, place(wire, town.far, back), digest)
    assert mounted.mounted == len(town.near.blobs(here))
    assert town.far.blobs(back) == town.gated.blobs(there) == town.near.blobs(here)
    assert [f"repository:{there}:pull,push"] in town.tokens.given
    assert [f"repository:{other}:pull"] in town.tokens.given


async def test_what_is_not_there_is_told_apart(town: Town, wire: Wire, repository: Name) -> None:
    async def wrong() -> Login:
        return Login(user="who", secret="guessed")

    here = repository()
    pusher = Pusher(town.near, here)
    pusher.image(pusher.layer(b"arm"), platform="linux/arm64", tag="arm")
    multi_arch(pusher, tag="both")
    near = place(wire, town.near, here).registry
    with pytest.raises(ImageMissing):
        await resolve(near, here, "none", AMD64)
    with pytest.raises(ImageMissing):
        await resolve(near, repository(), "none", AMD64)
    with pytest.raises(PlatformMissing, match="it is for linux/arm64"):
        await resolve(near, here, "arm", AMD64)
    with pytest.raises(LoginRefused, match="none is configured"):
        await resolve(place(wire, town.locked, here).registry, here, "both", AMD64)
    locked = place(wire, town.locked, here, login=wrong)
    with pytest.raises(LoginRefused, match="refuses the login") as refused:
        await resolve(locked.registry, here, "both", AMD64)
    assert "guessed" not in str(refused.value)
    gated = place(wire, town.gated, here, login=wrong, realm_hosts=frozenset({"127.0.0.1"}))
    with pytest.raises(LoginRefused, match="refuses the login"):
        await resolve(gated.registry, here, "both", AMD64)


async def test_a_mirror_that_only_reads_takes_nothing(
    town: Town, wire: Wire, copier: Copier, repository: Name
) -> None:
    mirror = town.servers.start("mirror", proxy={"remoteurl": f"http://{town.near.name}"})
    here, there = repository(), repository()
    digest = multi_arch(Pusher(town.near, here))["digest"]
    source = place(wire, town.near, here)
    with pytest.raises(RegistryRefused):
        await copy(copier, source, place(wire, mirror, there), digest)
    await copy(copier, place(wire, mirror, here), place(wire, town.far, there), digest)
    assert town.far.blobs(there) == town.near.blobs(here)


async def test_a_registry_that_dies_is_taken_up_when_it_lives_again(
    town: Town, wire: Wire, copier: Copier, repository: Name
) -> None:
    here, there = repository(), repository()
    pusher = Pusher(town.near, here)
    layers = [pusher.layer(b"".join(large(4, seed=10 * n))) for n in range(6)]
    digest = pusher.image(*layers)["digest"]
    mortal = town.servers.start("mortal")
    destination = place(wire, mortal, there)
    fuse = Fuse(9 << 20)

    async def die() -> None:
        await fuse.is_blown.wait()
        await asyncio.to_thread(town.servers.stop, "mortal")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(die())
        with pytest.raises(RegistryUnreachable):
            await copy(copier, place(wire, town.near, here), destination, digest, progress=fuse)
    assert mortal.manifests(there) == set()
    port = int(mortal.name.partition(":")[2])
    again = await asyncio.to_thread(town.servers.start, "mortal", port)
    copied = await copy(copier, place(wire, town.near, here), destination, digest)
    assert copied.sent + copied.found == 7
    assert again.blobs(there) == town.near.blobs(here)
    for name in again.blobs(there):
        assert again.content(name) == town.near.content(name)
