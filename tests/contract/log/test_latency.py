"""What the log says of its own haste."""

from __future__ import annotations

from broker.history.commands import AcceptRun
from tests.builders import BROKER
from tests.unit.store.ledgers import submit_of

from .conftest import OpenLog


async def test_how_long_each_change_took_is_told_once(open_log: OpenLog) -> None:
    async with open_log() as ledger:
        name = await ledger.submit(submit_of("digits"), BROKER)
        await ledger.handle(name, AcceptRun(), BROKER)
        taken = ledger.take_latencies()
        assert len(taken) == 2
        assert min(taken) > 0.0
        assert ledger.take_latencies() == ()
