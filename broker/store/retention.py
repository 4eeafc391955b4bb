"""Old runs leave the log, so that a year of use does not fill the disk.

The rule: only a run with nothing left to do leaves, whole and in one transaction with the event
by which its team carries what it spent, so that what is left still proves itself. Age is broker
time: a wall clock that jumps a year ahead retires nothing. Read ``retire`` first.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import sqlite_utils

from broker.history.commands import CarrySpend
from broker.model.actor import Actor
from broker.model.run import Run
from broker.store import views
from broker.store.batch import Committed, Committer, Order
from broker.store.picture import is_settled
from broker.store.standing import DAYS_KEPT, day_of

EVENTS_MAX = 20_000  # of one step: the writer's line waits for it, a fraction of a second
RUNS_MAX = 1_000  # named at once
PAGES_MAX = 2_000  # of free pages that one step gives back to the file system


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """What left the log in one step, and the events that say so."""

    names: tuple[str, ...]
    committed: Committed


def old_runs(database: sqlite_utils.Database, before_s: float, skip: int) -> tuple[str, ...]:
    """Return runs that settled before a point of broker time, oldest first, at most 1,000.

    ``skip`` passes over so many of the oldest: those that somebody wants to keep. What the others
    left in stores is to be removed first: afterwards nobody knows whose it was.
    """
    query = (
        "select name from runs where is_settled = 1 and settled_s < ?"
        " order by settled_s, name limit ? offset ?"
    )
    rows = database.conn.execute(query, (before_s, RUNS_MAX, skip))
    return tuple(str(name) for (name,) in rows)


def retire(committer: Committer, names: Sequence[str], actor: Actor) -> Retired:
    """Remove settled runs from the log, one step's worth; return which they were.

    What is not settled, or comes after the step's worth, is left.
    """
    runs: list[Run] = []
    events = 0
    for name in names:
        run = committer.load_settled(name)
        if run is None or not is_settled(run):
            continue
        events += run.stream_version
        if runs and events > EVENTS_MAX:
            break
        runs.append(run)
    by_team: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_team[run.intent.team].append(run)
    orders = [
        Order(
            stream=f"teams/{team}",
            command=CarrySpend(usd=sum((r.spent for r in gone), Decimal(0)), runs=len(gone)),
            actor=actor,
        )
        for team, gone in by_team.items()
    ]
    committed = committer.commit(
        orders, also=lambda database, now: _remove(database, runs, day_of(now))
    )
    return Retired(names=tuple(run.name for run in runs), committed=committed)


def give_back(database: sqlite_utils.Database) -> None:
    """Give free pages back to the file system, and take what is in the write-ahead log out of it.

    Outside of a transaction; costs a bounded time.
    """
    # A script steps until it is done; a query without columns is stepped once, which is one page.
    database.conn.executescript(f"pragma incremental_vacuum({PAGES_MAX})")
    database.conn.execute("pragma wal_checkpoint(passive)").fetchall()


def _remove(database: sqlite_utils.Database, runs: Sequence[Run], today: int) -> None:
    gone = [(run.name,) for run in runs]
    database.conn.executemany("delete from events where stream = ?", gone)
    views.remove_runs(database, runs)
    # A team's minutes at gates count for a day; what was before follows from no event any more.
    database.conn.execute("delete from gate_time where day <= ?", (today - DAYS_KEPT,))
