"""Old runs leave the log, and those that a person keeps hold up nobody."""

from dataclasses import replace
from pathlib import Path

import pytest

from broker.history.commands import BeginIncarnation, CancelRun, SubmitRun
from broker.store import retention
from tests.builders import BROKER, make_checkpoint, make_intent
from tests.unit.loops.handheld import Handheld, handheld

DAY_S = 86_400.0


async def over(broker: Handheld, name: str, *, is_pinned: bool) -> str:
    """Submit a run that was forked from a checkpoint, and cancel it."""
    intent = make_intent()
    run = f"teams/{intent.team}/runs/{name}"
    seed = replace(make_checkpoint(), is_pinned=is_pinned)
    submit = SubmitRun(
        name=run,
        uid=name.ljust(20, "x"),
        intent=intent,
        request_id=name,
        body_digest="b" * 64,
        fork_checkpoint=replace(seed, ref=replace(seed.ref, run_uid="p" * 20)),
    )
    await broker.ledger.submit(submit, BROKER)
    await broker.tell(run, CancelRun(grace_s=0.0, message="enough"))
    await broker.settle(seconds=1.0)
    return run


async def test_kept_runs_hold_up_no_younger_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "RUNS_MAX", 2)
    async with handheld(tmp_path, "alpha") as broker:
        kept = [await over(broker, f"kept{n}", is_pinned=True) for n in range(3)]
        old = [await over(broker, f"old{n}", is_pinned=False) for n in range(3)]
        await broker.settle(seconds=91 * DAY_S)
        assert [broker.ledger.run(name) is not None for name in kept] == [True] * 3
        assert [broker.ledger.run(name) for name in old] == [None] * 3


async def test_after_a_restore_old_runs_are_kept_as_long_again(tmp_path: Path) -> None:
    # One of them may have been resumed after the backup, and train on its checkpoints.
    async with handheld(tmp_path, "alpha") as broker:
        run = await over(broker, "old", is_pinned=False)
        await broker.settle(seconds=89 * DAY_S)
        restored = BeginIncarnation(incarnation=2, is_restored=True, key="the log's own")
        await broker.ledger.handle("broker", restored, BROKER)
        await broker.settle(seconds=89 * DAY_S)
        kept = broker.ledger.run(run)
        assert kept is not None
        assert not kept.is_retiring
        await broker.settle(seconds=2 * DAY_S)
        assert broker.ledger.run(run) is None
