"""Saves that look like checkpoints and are none: said once, with why, and believed never."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.history.events import CheckpointCompleted, CheckpointRefused, Sealed
from broker.loops.finder import REFUSED_AFTER_S
from broker.model.run import Run
from broker.service.advice import advice_for
from regions.cluster import Cause, Stage
from replicator.checkpoint.paths import CheckpointPath
from tests.fakes.checkpoints import marker_of, save_partial
from tests.unit.loops.handheld import Handheld, handheld
from tests.unit.loops.seeing import ended, epoch_seen, placement_seen
from tests.unit.loops.test_by_hand import saved, show_epoch, started

FILES = {"weights": b"12345678"}
GARBLED = {
    b"{half": "its marker cannot be read",
    b"[]": "its marker cannot be read",
    b'{"files": []}': "its marker names no file, or one twice",
    marker_of({"weights": b"1234"}): "weights has not the size that its marker says",
    marker_of({"weights": b"87654321"}): "it is not the file that the marker claims",
    marker_of({**FILES, "moments": b"1"}): "moments, which its marker names, is not there",
}


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[Handheld]:
    async with handheld(tmp_path, "alpha") as broker:
        yield broker


def path_in(run: Run, step: int) -> CheckpointPath:
    epoch = run.epochs[-1]
    return CheckpointPath(run_key=run.uid, epoch=epoch.id.folder, step=step)


def save_with(broker: Handheld, name: str, step: int, marker: bytes) -> None:
    """Write a step's files into alpha's store, and any marker after them."""
    path = path_in(broker.run(name), step)
    save_partial(broker.stores["alpha"], path, FILES)
    broker.stores["alpha"].put(path.prefix + ".complete", [marker])
    show_epoch(broker, name, step)


async def refused(broker: Handheld, name: str) -> list[CheckpointRefused]:
    events = [recorded.event for recorded in await broker.ledger.read(name, 0, 1_000)]
    return [event for event in events if isinstance(event, CheckpointRefused)]


@pytest.mark.parametrize("marker", GARBLED, ids=GARBLED.values())
async def test_a_marker_that_does_not_hold_is_refused_once_and_with_why(
    one: Handheld, marker: bytes
) -> None:
    name = await started(one)
    save_with(one, name, 10, marker)
    await one.settle(seconds=1.0)
    assert await refused(one, name) == []
    for _ in range(4):
        await one.settle(seconds=REFUSED_AFTER_S)
    run = one.run(name)
    why = CheckpointRefused(epoch=run.epochs[-1].id, step=10, region="alpha", why=GARBLED[marker])
    assert await refused(one, name) == [why]
    assert run.checkpoints == ()
    assert any(GARBLED[marker] in said for said in advice_for(run, run.updated))

    saved(one, name, 20)
    await one.settle(seconds=1.0)
    run = one.run(name)
    assert [c.ref.step for c in run.checkpoints] == [20]
    assert not any("no checkpoint" in said for said in advice_for(run, run.updated))


async def test_files_that_come_after_their_marker_make_it_a_checkpoint_all_the_same(
    one: Handheld,
) -> None:
    name = await started(one)
    save_with(one, name, 10, marker_of({**FILES, "moments": b"1"}))
    for _ in range(3):
        await one.settle(seconds=REFUSED_AFTER_S)
    assert [said.step for said in one.run(name).refused] == [10]
    one.stores["alpha"].put(path_in(one.run(name), 10).prefix + "moments", [b"1"])
    saved(one, name, 20)
    show_epoch(one, name, 10, 20)
    await one.settle(seconds=30.0)
    run = one.run(name)
    assert ({c.ref.step for c in run.checkpoints}, run.refused) == ({10, 20}, ())


async def test_what_is_no_checkpoint_when_its_epoch_closes_is_refused_before_the_seal(
    one: Handheld,
) -> None:
    name, alpha = await started(one), one.clusters["alpha"]
    saved(one, name, 10)
    await one.settle(seconds=1.0)
    save_with(one, name, 20, b"{half")
    run = one.run(name)
    over = epoch_seen(run, ends=(ended(run, 0), ended(run, 1)), checkpoints=(10, 20))
    alpha.show(placement_seen(one.leg(name), run, stage=Stage.ENDED, cause=Cause.NONE))
    alpha.shown = replace(alpha.shown, epochs={**alpha.shown.epochs, over.key: over})
    await one.settle(seconds=1.0)
    kinds = (CheckpointCompleted, CheckpointRefused, Sealed)
    events = [recorded.event for recorded in await one.ledger.read(name, 0, 1_000)]
    told = [event for event in events if isinstance(event, kinds)]
    assert [type(event) for event in told] == list(kinds)
    assert [said.step for said in one.run(name).refused] == [20]


async def test_one_damaged_checkpoint_hides_no_newer_one(one: Handheld) -> None:
    name = await started(one)
    saved(one, name, 10)
    await one.settle(seconds=1.0)
    prefix = path_in(one.run(name), 10).prefix
    other = {"weights": b"another life"}
    one.stores["alpha"].put(prefix + "weights", [other["weights"]])
    one.stores["alpha"].put(prefix + ".complete", [marker_of(other)])
    saved(one, name, 20)
    show_epoch(one, name, 10, 20)
    await one.settle(seconds=1.0)
    assert [c.ref.step for c in one.run(name).checkpoints] == [10, 20]
