"""Many transfers at once: bounded, one per key, stoppable, and none left behind."""

import asyncio
import threading

import pytest

from replicator.errors import Cancelled, StoreUnreachable
from replicator.hashing import OnChunk
from replicator.transfers import TransferKey, Transfers

# Long enough for any machine: nothing waits for it unless a test is about to fail.
PATIENCE_S = 30.0


def key(path: str) -> TransferKey:
    return TransferKey(store="east", path=path)


class Gate:
    """Work that says when it has begun and goes on when it is let."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let = threading.Event()
        self.ended = threading.Event()

    def work(self, on_chunk: OnChunk) -> str:
        self.begun.set()
        try:
            on_chunk(7)
            assert self.let.wait(PATIENCE_S)
            on_chunk(5)
        finally:
            self.ended.set()
        return "done"


async def begun(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.begun.wait, PATIENCE_S)


async def test_a_transfer_tells_its_bytes_and_its_result() -> None:
    gate = Gate()
    async with Transfers(max_parallel=1) as transfers:
        ticket = transfers.start(key("a"), gate.work)
        await begun(gate)
        was_done = ticket.is_done
        gate.let.set()
        assert await ticket.wait() == "done"
        assert (was_done, ticket.is_done, ticket.done_bytes) == (False, True, 12)


async def test_a_key_that_is_under_way_gives_the_same_ticket() -> None:
    gate, other = Gate(), Gate()
    async with Transfers(max_parallel=2) as transfers:
        first = transfers.start(key("a"), gate.work)
        await begun(gate)
        assert transfers.start(key("a"), other.work) is first
        assert list(transfers.in_flight) == [first]
        gate.let.set()
        assert await first.wait() == "done"
        assert not list(transfers.in_flight)
        assert not other.begun.is_set()
        other.let.set()
        again = transfers.start(key("a"), other.work)
        assert again is not first
        assert await again.wait() == "done"


async def test_no_more_run_at_once_than_may() -> None:
    running = 0
    most = 0
    lock = threading.Lock()
    both = threading.Barrier(2)

    def work(on_chunk: OnChunk) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        # Two must be here together to pass: so two do run at once, and never a third.
        both.wait(PATIENCE_S)
        with lock:
            running -= 1

    async with Transfers(max_parallel=2) as transfers:
        tickets = [transfers.start(key(str(number)), work) for number in range(6)]
        for ticket in tickets:
            await ticket.wait()
    assert most == 2


async def test_a_transfer_that_is_stopped_ends_at_its_next_chunk() -> None:
    gate = Gate()
    async with Transfers(max_parallel=1) as transfers:
        ticket = transfers.start(key("a"), gate.work)
        waiting = transfers.start(key("b"), Gate().work)
        await begun(gate)
        ticket.stop()
        waiting.stop()
        gate.let.set()
        with pytest.raises(Cancelled):
            await ticket.wait()
        with pytest.raises(Cancelled):
            await waiting.wait()
        assert waiting.done_bytes == 0


async def test_one_that_fails_harms_no_other() -> None:
    def failing(on_chunk: OnChunk) -> None:
        raise StoreUnreachable("east", "as planned")

    gate = Gate()
    async with Transfers(max_parallel=2) as transfers:
        unheard_of = transfers.start(key("c"), failing)
        bad = transfers.start(key("a"), failing)
        good = transfers.start(key("b"), gate.work)
        with pytest.raises(StoreUnreachable):
            await bad.wait()
        gate.let.set()
        assert await good.wait() == "done"
        assert unheard_of.is_done


async def test_leaving_the_group_stops_what_runs_and_waits_for_its_threads() -> None:
    gate = Gate()
    async with Transfers(max_parallel=1) as transfers:
        running = transfers.start(key("a"), gate.work)
        waiting = transfers.start(key("b"), Gate().work)
        await begun(gate)
        gate.let.set()
    assert gate.ended.is_set()
    for ticket in (running, waiting):
        assert ticket.is_done
    with pytest.raises(Cancelled):
        await waiting.wait()


async def copies_until_cancelled(gate: Gate) -> None:
    async with Transfers(max_parallel=1) as transfers:
        await transfers.start(key("a"), gate.work).wait()


async def test_a_cancelled_group_waits_for_its_thread() -> None:
    gate = Gate()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(copies_until_cancelled(gate))
        await begun(gate)
        task.cancel()
        # More turns of the loop than it takes to unwind: only the thread still holds it.
        for _ in range(50):
            await asyncio.sleep(0)
        was_done_before_its_thread = task.done()
        gate.let.set()
    assert not was_done_before_its_thread
    assert task.cancelled()
    assert gate.ended.is_set()


async def test_to_stop_waiting_does_not_stop_the_transfer() -> None:
    gate = Gate()
    async with Transfers(max_parallel=1) as transfers:
        ticket = transfers.start(key("a"), gate.work)
        await begun(gate)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await ticket.wait()
        gate.let.set()
        assert await ticket.wait() == "done"


def test_no_slot_is_no_group() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Transfers(max_parallel=0)
