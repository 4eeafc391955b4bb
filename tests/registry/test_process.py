"""A copy as a process: the memory it takes, and what is left of it when it is killed."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from replicator.oci.contents import has_manifest
from replicator.oci.registry import UploadMode
from replicator.oci.wire import Wire
from tests.registry import skopeo
from tests.registry.conftest import Town, place
from tests.registry.pushing import Pusher, large

LARGE_MIB = 200
MAY_TAKE_BYTES = 64 << 20
Name = Callable[[], str]


def begun(
    town: Town, mode: UploadMode, here: str, there: str, *digests: str
) -> subprocess.Popen[str]:
    """Begin to copy from the near registry to the far one."""
    places = (town.near.name, here, town.far.name, there)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.registry.copy_once", mode.value, *places, *digests],
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield what a process says, as it says it."""
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


@pytest.fixture(scope="module")
def large_image(town: Town) -> tuple[str, str, str]:
    """A repository, a small image in it, and one with a large layer."""
    repository = "team/large"
    pusher = Pusher(town.near, repository)
    small = pusher.image(pusher.layer(b"small"))
    layer = pusher.stream(list(large(LARGE_MIB)), pusher.layer_type)
    return repository, small["digest"], pusher.image(layer)["digest"]


@pytest.mark.parametrize("mode", UploadMode)
def test_a_layer_of_any_size_takes_a_bounded_memory(
    town: Town, repository: Name, large_image: tuple[str, str, str], mode: UploadMode
) -> None:
    here, small, digest = large_image
    there = repository()
    with begun(town, mode, here, there, small, digest) as process:
        idle, after = [each for each in said(process) if "VmHWM" in each]
    assert process.returncode == 0
    # The small image's configuration is the large one's, too.
    assert (after["sent"], after["sent_bytes"]) == (1, LARGE_MIB << 20)
    assert after["VmHWM"] - idle["VmRSS"] <= MAY_TAKE_BYTES
    assert skopeo.raw(town.far, there, digest) == skopeo.raw(town.near, here, digest)
    assert town.far.blobs(there) == town.near.blobs(here)


@pytest.mark.parametrize("mode", UploadMode)
async def test_who_is_killed_half_way_leaves_no_image_and_what_came_is_not_sent_again(
    town: Town, wire: Wire, repository: Name, mode: UploadMode
) -> None:
    here, there = repository(), repository()
    pusher = Pusher(town.near, here)
    size_mib, count = 6, 16
    layers = [pusher.layer(b"".join(large(size_mib, 100 * n))) for n in range(count)]
    digest = pusher.image(*layers)["digest"]
    far = place(wire, town.far, there).registry
    with begun(town, mode, here, there, digest) as process:
        for told in said(process):
            if told.get("done_bytes", 0) >= (size_mib * count // 2) << 20:
                process.kill()
                break
    assert process.returncode == -signal.SIGKILL
    assert not await has_manifest(far, there, digest)
    arrived = town.far.blobs(there)
    assert arrived != set()
    assert arrived < town.near.blobs(here)
    with begun(town, mode, here, there, digest) as process:
        told = next(each for each in said(process) if "sent" in each)
    # What was on its way when its sender was killed may have arrived all the same.
    assert told["found"] >= len(arrived)
    assert told["found"] + told["sent"] == count + 1
    assert await has_manifest(far, there, digest)
    for name in town.near.blobs(here):
        assert town.far.content(name) == town.near.content(name)
