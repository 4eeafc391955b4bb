"""Ledgers for tests: over the production clock with readings moved by hand, and what is told them.

Read ``opened`` first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from broker.history.commands import SubmitRun
from broker.model.policy import TeamStanding
from broker.model.run import Run
from broker.runtime.clock import SystemClock
from broker.store.batch import Committer
from broker.store.ledger import Ledger, open_ledger
from broker.store.listing import RunQuery
from broker.store.picture import Picture
from broker.store.recovery import read_mark, recover
from broker.store.schema import open_database
from broker.store.views import read_snapshot
from tests.builders import make_intent
from tests.fakes.readings import HandReadings

REGIONS = ("alpha", "beta", "gamma")


@asynccontextmanager
async def opened(
    path: Path, readings: HandReadings | None = None, *, is_threaded: bool = False
) -> AsyncIterator[Ledger]:
    """Open the log at a path for the length of a block, as brokerd would."""
    clock = SystemClock(read_mark(path), readings or HandReadings())
    ledger = open_ledger(path, clock, regions=REGIONS, is_threaded=is_threaded)
    try:
        yield ledger
    finally:
        await ledger.close()


@contextmanager
def committing(
    path: Path, readings: HandReadings | None = None
) -> Iterator[tuple[Committer, Picture, Database]]:
    """Open the committer of a log, for tests of what goes on between it and the disk."""
    clock = SystemClock(read_mark(path), readings or HandReadings())
    database = open_database(path)
    picture, committer = recover(
        database, lambda name: read_snapshot(database, name), clock, REGIONS
    )
    try:
        yield committer, picture, database
    finally:
        database.close()


def submit_of(name: str, team: str = "vision", **changes: Any) -> SubmitRun:
    """Return a submit of a run; its request id is made of its name."""
    command = SubmitRun(
        name=f"teams/{team}/runs/{name}",
        uid=f"{team}{name}".replace("-", "")[:20].ljust(20, "0"),
        intent=make_intent(team=team),
        request_id=f"request-{name}",
        body_digest=f"digest-{name}",
    )
    return replace(command, **changes)


async def all_of(ledger: Ledger) -> tuple[dict[str, Run | None], dict[str, TeamStanding], Any]:
    """Return what a ledger knows: every run, what teams hold, what ops set."""
    page = await ledger.list_runs(RunQuery(page_size=1_000))
    assert page.next_after is None
    teams = {name.split("/")[1] for name in page.names}
    return (
        {name: ledger.run(name) for name in page.names},
        {team: ledger.standing(team) for team in teams},
        (ledger.teams(), ledger.broker(), [ledger.region(region) for region in REGIONS]),
    )
