"""Law 2, nothing accepted is lost: a broker killed at any moment, on the real log."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from broker.model.run import Run
from broker.runtime.clock import MachineReadings, SystemClock
from broker.store.ledger import open_ledger
from broker.store.rebuild import prove
from tests.builders import BROKER
from tests.unit.store.ledgers import REGIONS, committing, opened, submit_of
from tests.unit.store.stories import draw_orders

CLIENTS = 32
ROUNDS = 3


async def submit_for_ever(path: Path) -> None:
    """Submit runs from many clients at once, and say each name once it is accepted."""
    clock = SystemClock(None, MachineReadings())
    ledger = open_ledger(path, clock, regions=REGIONS, is_threaded=True)

    async def client(number: int) -> None:
        for serial in range(1_000_000):
            submit = submit_of(f"run-{os.getpid()}-{number}-{serial}")
            name = await ledger.submit(submit, BROKER)
            os.write(sys.stdout.fileno(), f"{name}\n".encode())

    await asyncio.gather(*(client(number) for number in range(CLIENTS)))


@pytest.mark.alone
def test_law_2_what_was_accepted_survives_kill_9_amid_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    accepted: list[str] = []
    for round_number in range(ROUNDS):
        broker = subprocess.Popen(
            [sys.executable, "-m", "tests.property.test_log_kill", str(path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert broker.stdout is not None
        with broker:
            accepted += [broker.stdout.readline().strip() for _ in range(100 + 37 * round_number)]
            broker.send_signal(signal.SIGKILL)
            # What it said after that and before it died was accepted as well.
            accepted += broker.stdout.read().splitlines()[:-1]
        asyncio.run(check_there(path, accepted))
        assert prove(path) == ()


async def check_there(path: Path, accepted: list[str]) -> None:
    async with opened(path) as ledger:
        live = ledger.live_runs()
        missing = [name for name in accepted if name not in live]
        assert missing == []


def test_law_2_a_kill_between_any_two_statements_leaves_the_state_before_or_after(
    tmp_path: Path,
) -> None:
    copies: list[Path] = []

    def copy_files(_: str) -> None:
        # What is on the disk when a process dies here: the kernel has all that was written.
        folder = tmp_path / f"copy-{len(copies)}"
        folder.mkdir()
        for name in ("broker.db", "broker.db-wal"):
            if (tmp_path / name).exists():
                shutil.copyfile(tmp_path / name, folder / name)
        copies.append(folder / "broker.db")

    async def live_of(copy: Path) -> dict[str, Run]:
        async with opened(copy) as ledger:
            return dict(ledger.live_runs())

    orders = asyncio.run(draw_orders(tmp_path / "drawn.db", seed=5, count=60))
    with committing(tmp_path / "broker.db") as (committer, picture, database):
        committer.commit(orders[:40])
        states = [dict(picture.live)]
        # With no room in the cache, pages go to the disk before the commit.
        database.execute("pragma cache_size = 1")
        database.conn.set_trace_callback(copy_files)
        for start in range(40, 60, 4):
            committer.commit(orders[start : start + 4])
            states.append(dict(picture.live))
    assert len(copies) > 5 * (len(states) - 1), "each batch is several statements"
    at = 0
    for copy in copies:
        state = asyncio.run(live_of(copy))
        at += state != states[at]
        assert state == states[at], "neither the state before nor the one after"
        assert prove(copy) == ()
    # The last copy was made before the last commit.
    assert at == len(states) - 2


if __name__ == "__main__":
    asyncio.run(submit_for_ever(Path(sys.argv[1])))
