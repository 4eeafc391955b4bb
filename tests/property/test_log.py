"""Laws of the log: what is written is all there is, and nothing that is written is lost."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.store.errors import LogUnwritableError
from broker.store.rebuild import prove, rebuild
from tests.fakes.readings import HandReadings
from tests.unit.store.ledgers import all_of, committing, opened
from tests.unit.store.stories import draw_orders, tell

SEEDS = st.integers(min_value=0, max_value=2**32)


@contextmanager
def fresh_log() -> Iterator[Path]:
    # In memory where the machine has such a place: these laws need many commits, not the disk.
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as folder:
        yield Path(folder) / "broker.db"


@settings(max_examples=25)
@given(seed=SEEDS)
def test_law_3_after_a_restart_the_broker_knows_what_it_knew(seed: int) -> None:
    async def story(path: Path) -> None:
        readings = HandReadings()
        async with opened(path, readings) as ledger:
            await tell(ledger, readings, seed, 120)
            before = await all_of(ledger)
            live = ledger.live_runs()
        async with opened(path, readings) as ledger:
            assert await all_of(ledger) == before
            assert ledger.live_runs() == live

    with fresh_log() as path:
        asyncio.run(story(path))


@settings(max_examples=25)
@given(seed=SEEDS)
def test_law_3_every_view_follows_from_the_events(seed: int) -> None:
    async def story(path: Path) -> None:
        readings = HandReadings()
        async with opened(path, readings) as ledger:
            await tell(ledger, readings, seed, 120)
            before = await all_of(ledger)
            assert prove(path) == (), "while it is in use"
        rebuild(path)
        assert prove(path) == (), "made anew"
        async with opened(path, readings) as ledger:
            assert await all_of(ledger) == before

    with fresh_log() as path:
        asyncio.run(story(path))


@settings(max_examples=15)
@given(seed=SEEDS)
def test_a_disk_that_fails_at_any_batch_leaves_no_trace_in_memory_or_sums(seed: int) -> None:
    with fresh_log() as path:
        orders = asyncio.run(draw_orders(path.with_name("drawn.db"), seed, count=60))
        readings = HandReadings()
        with committing(path, readings) as (committer, picture, database):
            for start in range(0, len(orders), 7):
                known = (dict(picture.live), dict(picture.small), dict(picture.holdings))
                database.execute("pragma query_only = 1")
                with suppress(LogUnwritableError):
                    tried = committer.commit(orders[start : start + 7])
                    assert tried.recorded == (), "only a batch that is refused whole goes through"
                assert (picture.live, picture.small, picture.holdings) == known
                database.execute("pragma query_only = 0")
                committer.commit(orders[start : start + 7])
                readings.wait(30.0)
            live, holdings = dict(picture.live), dict(picture.holdings)
        with committing(path, readings) as (_, picture, _):
            assert (picture.live, picture.holdings) == (live, holdings)
        assert prove(path) == ()


def test_the_stories_reach_what_they_are_to_reach() -> None:
    kinds: Counter[str] = Counter()
    states: Counter[str] = Counter()

    async def story(path: Path, seed: int) -> None:
        readings = HandReadings()
        async with opened(path, readings) as ledger:
            await tell(ledger, readings, seed, 300)
            runs, _, _ = await all_of(ledger)
            states.update(run.state.value for run in runs.values() if run)
            for name in runs:
                events = await ledger.read(name, 0, 1_000)
                kinds.update(type(one.event).__name__ for one in events)

    for seed in range(8):
        with fresh_log() as path:
            asyncio.run(story(path, seed))
    for wanted in ("Sealed", "PlacementEnded", "Resumed", "CheckpointCopied", "Requeued", "Ended"):
        assert kinds[wanted] > 3, kinds
    assert len(states) >= 5, states
