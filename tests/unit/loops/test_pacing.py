"""What copies did is what is foreseen of the next, in the next life of the broker too."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.loops.desk import Counts, Desk
from broker.loops.pacing import MEASURED_BYTES, Pacer
from broker.model.actor import ActorKind
from broker.model.copying import CopyKind
from broker.runtime.clock import SystemClock
from tests.unit.loops.handheld import Handheld, handheld

MIB = 1 << 20
SAVED = CopyKind.CHECKPOINT


async def copied(broker: Handheld, source: str, *, sent_bytes: int, took_s: float) -> None:
    """Let a copy of a checkpoint into beta take its time, and be measured."""
    desk = Desk(broker.ledger, "carrier", Counts(), ActorKind.BROKER)
    clock = SystemClock(None, broker.readings)
    began_s = clock.now().elapsed_s
    broker.readings.wait(took_s)
    pacer = Pacer(desk, broker.agents.view, clock)
    await pacer.measured(SAVED, source, "beta", sent_bytes=sent_bytes, began_s=began_s)


def foreseen(broker: Handheld, source: str) -> float | None:
    return broker.agents.view.rates.foreseen(SAVED, source, "beta")


async def test_each_pair_of_regions_has_a_rate_of_its_own_that_outlives_the_broker(
    tmp_path: Path,
) -> None:
    async with handheld(tmp_path, "alpha", "beta", "gamma") as former:
        await copied(former, "alpha", sent_bytes=100 * MIB, took_s=1.0)
        await copied(former, "alpha", sent_bytes=200 * MIB, took_s=1.0)
        await copied(former, "gamma", sent_bytes=100 * MIB, took_s=10.0)
        assert foreseen(former, "alpha") == pytest.approx(130 * MIB)
        # From where nothing came yet the slowest of the others is foreseen.
        assert foreseen(former, "delta") == foreseen(former, "gamma") == pytest.approx(10 * MIB)
    async with handheld(tmp_path, "alpha", "beta", "gamma") as broker:
        assert foreseen(broker, "alpha") is None
        await broker.settle()
        assert foreseen(broker, "alpha") == pytest.approx(130 * MIB)
        assert foreseen(broker, "gamma") == pytest.approx(10 * MIB)


async def test_the_first_copy_of_a_life_is_smoothed_with_what_the_former_measured(
    tmp_path: Path,
) -> None:
    async with handheld(tmp_path, "alpha", "beta") as former:
        await copied(former, "alpha", sent_bytes=100 * MIB, took_s=1.0)
    async with handheld(tmp_path, "alpha", "beta") as broker:
        await copied(broker, "alpha", sent_bytes=200 * MIB, took_s=1.0)
        await broker.settle()
        assert foreseen(broker, "alpha") == pytest.approx(130 * MIB)


async def test_what_is_small_or_took_no_time_says_nothing_and_alike_copies_fill_no_log(
    tmp_path: Path,
) -> None:
    async with handheld(tmp_path, "alpha", "beta") as broker:
        await copied(broker, "alpha", sent_bytes=MEASURED_BYTES - 1, took_s=1.0)
        await copied(broker, "alpha", sent_bytes=MEASURED_BYTES, took_s=0.0)
        assert foreseen(broker, "alpha") is None
        for _ in range(20):
            await copied(broker, "alpha", sent_bytes=100 * MIB, took_s=1.0)
            await copied(broker, "alpha", sent_bytes=110 * MIB, took_s=1.0)
        events = await broker.ledger.read("regions/beta", 0, 100)
        assert [type(one.event).__name__ for one in events].count("CopyRateMeasured") == 1
