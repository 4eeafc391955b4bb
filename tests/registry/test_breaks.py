"""Lines to real registries that break: what is taken up, and what has to be sent again."""

from collections.abc import Callable

import pytest

from replicator.errors import RegistryUnreachable
from replicator.oci.copying import Copier
from replicator.oci.registry import UploadMode
from replicator.oci.wire import Wire
from tests.registry.conftest import Town, copy, place
from tests.registry.cutting import line_to
from tests.registry.pushing import MIB, Pusher, large

Name = Callable[[], str]
SIZE_MIB = 24


@pytest.mark.parametrize("mode", UploadMode)
async def test_a_source_is_taken_up_where_its_line_broke(
    town: Town, wire: Wire, copier: Copier, repository: Name, mode: UploadMode
) -> None:
    here, there = repository(), repository()
    pusher = Pusher(town.near, here)
    digest = pusher.image(pusher.layer(b"".join(large(SIZE_MIB))))["digest"]
    async with line_to(town.near) as line:
        line.cut("down", 4 * MIB, times=4)
        source, destination = (
            place(wire, line.server, here),
            place(wire, town.far, there, mode=mode),
        )
        uploads = town.far.uploads()
        copied = await copy(copier, source, destination, digest)
        assert (line.cuts, copied.sent, town.far.uploads() - uploads) == (4, 2, 2)
    assert town.far.blobs(there) == town.near.blobs(here)


@pytest.mark.parametrize("mode", UploadMode)
async def test_a_layer_whose_upload_broke_is_sent_again_by_the_next_copy(
    town: Town, wire: Wire, copier: Copier, repository: Name, mode: UploadMode
) -> None:
    # This registry knows an upload by how much it had when it last answered, and by nothing else:
    # what came of a chunk that broke makes the upload one that nobody can name any more.
    here, there = repository(), repository()
    pusher = Pusher(town.near, here)
    digest = pusher.image(pusher.layer(b"".join(large(SIZE_MIB))))["digest"]
    async with line_to(town.far) as line:
        line.cut("up", 12 * MIB, times=1)
        source, destination = (
            place(wire, town.near, here),
            place(wire, line.server, there, mode=mode),
        )
        with pytest.raises(RegistryUnreachable):
            await copy(copier, source, destination, digest)
        assert (line.cuts, town.far.manifests(there)) == (1, set())
        await copy(copier, source, destination, digest)
    assert town.far.blobs(there) == town.near.blobs(here)
