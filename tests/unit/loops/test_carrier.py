"""The carrier when something fails: no change is forgotten, and no budget is spent on nothing."""

from pathlib import Path

import pytest

from broker.history.commands import SetPolicy
from broker.loops.carrier import Archive
from broker.loops.later import LONG_AGAIN_S
from broker.model.policy import RegionPolicy
from broker.store.errors import LogUnreadableError
from broker.store.listing import RunPage, RunQuery
from tests.builders import BROKER
from tests.unit.loops.handheld import handheld
from tests.unit.loops.test_by_hand import saved, started


class Unreadable(Archive):
    """An archive on a disk that fails."""

    async def list_runs(self, query: RunQuery) -> RunPage:
        raise LogUnreadableError("the log cannot be read: disk I/O error")


async def test_a_tick_that_cannot_read_the_log_forgets_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with handheld(tmp_path, "alpha") as broker:
        name, carrier = await broker.submit(), broker.agents.carrier
        with monkeypatch.context() as patch:
            patch.setattr(carrier, "_archive", Unreadable())
            with pytest.raises(LogUnreadableError):
                await carrier.tick()
        assert name in carrier.changes.take()


async def test_a_copy_that_failed_before_it_sent_anything_leaves_the_budget_for_the_next(
    tmp_path: Path,
) -> None:
    async with handheld(tmp_path, "alpha", "beta") as two:
        policy = RegionPolicy(egress_budget_bytes_per_hour=400)
        ruled = SetPolicy(policy=policy, expected_generation=1)
        await two.ledger.handle("regions/alpha", ruled, BROKER)
        in_the_way = tmp_path / "beta" / "runs"
        in_the_way.write_bytes(b"no folder")
        name = await started(two)
        saved(two, name, 10)
        for _ in range(5):
            await two.settle(seconds=LONG_AGAIN_S)
        (alone,) = two.run(name).checkpoints
        in_the_way.unlink()
        await two.settle(seconds=LONG_AGAIN_S)
        (copied,) = two.run(name).checkpoints
        assert 5 * alone.size_bytes > 400 > alone.size_bytes
        assert alone.regions == {"alpha"}
        assert copied.regions == {"alpha", "beta"}
