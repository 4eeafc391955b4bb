"""What a run leaves: its last checkpoint stands in a second region, whenever the run ended."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.model.states import RunState
from regions.cluster import Cause, Stage
from replicator.checkpoint.paths import CheckpointPath
from tests.fakes.checkpoints import save
from tests.unit.loops.handheld import Handheld, handheld
from tests.unit.loops.seeing import ended, epoch_seen, placement_seen
from tests.unit.loops.test_by_hand import saved, started


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Handheld]:
    async with handheld(tmp_path, "alpha", "beta") as broker:
        yield broker


async def finished(broker: Handheld, name: str) -> None:
    """Let the gang save step 20 and end with success, both seen in one look."""
    run, alpha = broker.run(name), broker.clusters["alpha"]
    path = CheckpointPath(run_key=run.uid, epoch=run.epochs[-1].id.folder, step=20)
    save(broker.stores["alpha"], path, {"weights": b"w" * 20})
    over = epoch_seen(run, ends=(ended(run, 0), ended(run, 1)), checkpoints=(10, 20))
    alpha.show(placement_seen(broker.leg(name), run, stage=Stage.ENDED, cause=Cause.NONE))
    alpha.shown = replace(alpha.shown, epochs={over.key: over})
    await broker.settle(seconds=1.0)
    assert broker.run(name).state is RunState.SUCCEEDED


def held_in(broker: Handheld, name: str) -> dict[int, frozenset[str]]:
    return {c.ref.step: c.regions for c in broker.run(name).checkpoints}


async def test_what_was_saved_last_is_copied_although_the_run_is_over(two: Handheld) -> None:
    name = await started(two)
    saved(two, name, 10)
    await two.settle(seconds=1.0)
    await finished(two, name)
    assert held_in(two, name) == {10: {"alpha", "beta"}, 20: {"alpha", "beta"}}


async def test_a_copy_that_could_not_be_made_at_the_end_is_made_later(two: Handheld) -> None:
    name = await started(two)
    beta = two.clusters["beta"]
    beta.shown = replace(beta.shown, is_store_readable=False)
    await two.settle()
    saved(two, name, 10)
    await finished(two, name)
    assert held_in(two, name)[20] == {"alpha"}
    beta.shown = replace(beta.shown, is_store_readable=True)
    await two.settle(seconds=60.0)
    assert held_in(two, name) == {10: {"alpha"}, 20: {"alpha", "beta"}}


async def test_a_broker_that_starts_anew_takes_up_the_copy(tmp_path: Path) -> None:
    async with handheld(tmp_path, "alpha", "beta") as former:
        beta = former.clusters["beta"]
        beta.shown = replace(beta.shown, is_store_readable=False)
        name = await started(former)
        saved(former, name, 10)
        await finished(former, name)
        assert held_in(former, name)[20] == {"alpha"}
    async with handheld(tmp_path, "alpha", "beta") as broker:
        await broker.settle()
        assert held_in(broker, name)[20] == {"alpha", "beta"}
