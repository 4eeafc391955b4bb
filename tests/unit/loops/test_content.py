"""Content of the stores: what was let go is no trouble, what a disk damaged is mended."""

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from broker.loops.content import Content, Finding, Troubled
from broker.loops.off_loop import at_once
from broker.model.checkpoint import EpochId
from broker.model.intent import CheckpointFormat
from broker.runtime.clock import SystemClock
from replicator.bundle import bundle_name, check_bundle, store_bundle
from replicator.checkpoint.paths import CheckpointPath
from replicator.checkpoint.settling import SETTLE_S
from replicator.stores import DirectoryStore
from replicator.stores.port import ContentStore
from replicator.transfers import Transfers
from tests.fakes.checkpoints import marker_of, save, save_partial, unheard
from tests.fakes.object_store import MemoryObjectStore
from tests.fakes.readings import HandReadings

EPOCH = EpochId(number=1, nonce="abc")


def path(step: int) -> CheckpointPath:
    return CheckpointPath(run_key="r1", epoch=EPOCH.folder, step=step)


def alpha(store: ContentStore, work: Transfers, uploads: ContentStore | None = None) -> Content:
    """Return the content of one region, and nothing uploaded where it is not said."""
    return Content(
        stores={"alpha": store},
        uploads=uploads or MemoryObjectStore(),
        looks=work,
        copies=work,
        off_loop=at_once,
        clock=SystemClock(None, HandReadings()),
    )


async def look(
    content: Content,
    kind: CheckpointFormat = CheckpointFormat.FILES,
    now_s: float = 0.0,
    ended_s: float | None = None,
) -> Finding:
    while True:
        finding = await content.find("alpha", "r1", EPOCH, kind, now_s, ended_s=ended_s)
        if finding is not None:
            return finding
        await asyncio.sleep(0)


async def bring(content: Content, digest: str) -> None:
    while True:
        if await content.bundle_in("alpha", digest):
            return
        await asyncio.sleep(0)


async def test_a_step_that_does_not_fit_together_is_troubled() -> None:
    store = MemoryObjectStore()
    save(store, path(100), {"model": b"12345678"})
    save_partial(store, path(300), {"model": b"12345678"})
    store.put(path(300).prefix + ".complete", [marker_of({"model": b"87654321"})])
    async with Transfers(max_parallel=1) as work:
        content = alpha(store, work)
        finding = await look(content)
    why = "it is not the file that the marker claims"
    assert [one.step for one in finding.found] == [100]
    assert finding.troubled == (Troubled(step=300, why=why),)


async def test_a_look_from_before_an_end_is_not_the_answer_to_one_after_it() -> None:
    store = MemoryObjectStore()
    save(store, path(100), {"model": b"12345678"})
    async with Transfers(max_parallel=1) as work:
        content = alpha(store, work)
        before = await content.find("alpha", "r1", EPOCH, CheckpointFormat.FILES, 1.0)
        await asyncio.gather(*(ticket.wait() for ticket in work.in_flight))
        save(store, path(200), {"model": b"12345678"})
        after = await look(content, ended_s=2.0)
    assert before is None
    assert [one.step for one in after.found] == [200, 100]
    assert not content.looks.is_busy


@pytest.mark.parametrize("there", [None, b"a packed working directory", b"what a disk made of it"])
async def test_a_bundle_that_stands_in_a_region_is_whole(there: bytes | None) -> None:
    packed = b"a packed working directory"
    digest = hashlib.sha256(packed).hexdigest()
    store, uploads = MemoryObjectStore(), MemoryObjectStore()
    store_bundle(uploads, digest, [packed], len(packed))
    if there is not None:
        store.put(bundle_name(digest), [there])
    async with Transfers(max_parallel=1) as work:
        content = alpha(store, work, uploads)
        await bring(content, digest)
    check_bundle(store, digest, unheard)


async def sweep(content: Content, now_s: float) -> None:
    while True:
        if await content.drop_bundles(frozenset(), now_s, 50.0) is not None:
            return
        await asyncio.sleep(0)


async def test_what_killed_writes_left_goes_with_old_bundles(tmp_path: Path) -> None:
    store = DirectoryStore.create(tmp_path)
    left = tmp_path / ".tmp" / "write-of-somebody"
    left.parent.mkdir()
    left.write_bytes(b"half")
    os.utime(left, (100.0, 100.0))
    async with Transfers(max_parallel=1) as work:
        content = alpha(store, work)
        for now_s in (140.0, 160.0):
            await sweep(content, now_s)
            assert left.exists() is (now_s == 140.0)


async def test_what_has_no_marker_of_its_own_counts_once_nothing_changes_for_a_while() -> None:
    store = MemoryObjectStore()
    kind = CheckpointFormat.HUGGING_FACE
    prefix = path(100).prefix
    store.put(prefix + "model.safetensors", [b"weights"])
    async with Transfers(max_parallel=1) as work:
        content = alpha(store, work)
        assert await look(content, kind, 0.0) == Finding(found=())
        store.put(prefix + "trainer_state.json", [b"{}"])
        assert (await look(content, kind, 1.0)).settling == (100,)
        store.put(prefix + "rng_state_1.pth", [b"of another rank"])
        assert (await look(content, kind, 1.0 + SETTLE_S)).settling == (100,)
        settled = await look(content, kind, 1.0 + 2 * SETTLE_S)
        assert ([one.step for one in settled.found], settled.settling) == ([100], ())
        again = await look(content, kind, 1.0 + 2 * SETTLE_S)
        assert again == settled
