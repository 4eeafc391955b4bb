"""Looks at an epoch's checkpoints: what was let go on purpose is no trouble."""

import asyncio

from broker.loops.content import Content, Finding
from broker.loops.off_loop import at_once
from broker.model.checkpoint import EpochId
from broker.model.intent import CheckpointFormat
from replicator.checkpoint.paths import CheckpointPath
from replicator.transfers import Transfers
from tests.fakes.checkpoints import marker_of, save, save_partial
from tests.fakes.object_store import MemoryObjectStore

EPOCH = EpochId(number=1, nonce="abc")


def path(step: int) -> CheckpointPath:
    return CheckpointPath(run_key="r1", epoch=EPOCH.folder, step=step)


async def look(content: Content) -> Finding:
    while True:
        finding = await content.find("alpha", "r1", EPOCH, CheckpointFormat.FILES)
        if finding is not None:
            return finding
        await asyncio.sleep(0)


async def test_a_step_that_does_not_fit_together_is_troubled_unless_it_was_let_go() -> None:
    store = MemoryObjectStore()
    save(store, path(100), {"model": b"12345678"})
    for step in (200, 300):
        save_partial(store, path(step), {"model": b"12345678"})
        store.put(path(step).prefix + ".complete", [marker_of({"model": b"87654321"})])
    async with Transfers(max_parallel=1) as work:
        content = Content(
            stores={"alpha": store},
            uploads=MemoryObjectStore(),
            looks=work,
            copies=work,
            off_loop=at_once,
        )
        content.let_go(path(200))
        finding = await look(content)
    assert ([one.step for one in finding.found], finding.troubled) == ([100], (300,))
