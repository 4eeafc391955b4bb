"""The carrier's tick when the log cannot be read: what had changed is looked at by the next."""

from pathlib import Path

import pytest

from broker.loops.carrier import Archive
from broker.store.errors import LogUnreadableError
from broker.store.listing import RunPage, RunQuery
from tests.unit.loops.handheld import handheld


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
