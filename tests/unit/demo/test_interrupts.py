"""A signal ends the telling in order, whenever it comes and however often."""

from __future__ import annotations

import asyncio
import signal

from broker.demo.interrupts import Interrupts


def test_work_that_nobody_interrupts_runs_to_its_end() -> None:
    assert Interrupts().run(asyncio.sleep(0))


def test_a_signal_cancels_the_work_and_later_ones_do_not_disturb_its_clean_up() -> None:
    interrupts = Interrupts()
    done = []

    async def work() -> None:
        try:
            interrupts.hear(signal.SIGINT, None)
            await asyncio.Event().wait()
        finally:
            interrupts.hear(signal.SIGTERM, None)
            await asyncio.sleep(0)
            done.append("cleaned up")

    assert not interrupts.run(work())
    assert done == ["cleaned up"]
    assert interrupts.came


def test_a_signal_that_came_before_the_work_lets_none_of_it_happen() -> None:
    interrupts = Interrupts()
    interrupts.hear(signal.SIGHUP, None)
    done = []

    async def work() -> None:
        done.append("worked")
        await asyncio.sleep(0)

    assert not interrupts.run(work())
    assert done == []
