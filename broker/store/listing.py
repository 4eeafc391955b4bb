"""Lists of runs: a filter, an order and a page, answered from the view tables.

The rule: pages are cut by the sort key and the name, so that a page is right whatever is
submitted in between. Read ``list_runs`` first.
"""

from dataclasses import dataclass
from enum import StrEnum

import sqlite_utils

from broker.model.states import RUN_ENDED, RunState

PAGE_MAX = 1_000


class RunOrder(StrEnum):
    """The orders a list can have; each ends in the name, so that it is total."""

    NEWEST = "NEWEST"
    OLDEST = "OLDEST"
    NAME = "NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs, in which order. Empty fields select everything. ``team`` "" is all teams.

    ``after`` is the last row of the page before: (created_wall_s, name).
    """

    team: str = ""
    states: tuple[RunState, ...] = ()
    owner: str = ""
    region: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    order: RunOrder = RunOrder.NEWEST
    page_size: int = 50
    after: tuple[float, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """Names in order; ``next_after`` None when this is the last page; ``total`` of the filter."""

    names: tuple[str, ...]
    next_after: tuple[float, str] | None
    total: int


_ORDERS = {
    RunOrder.NEWEST: ("created_wall_s desc, name desc", "(created_wall_s, name) < (?, ?)"),
    RunOrder.OLDEST: ("created_wall_s, name", "(created_wall_s, name) > (?, ?)"),
    RunOrder.NAME: ("name", "(? is not null and name > ?)"),
}


def list_runs(database: sqlite_utils.Database, query: RunQuery) -> RunPage:
    """Return one page of run names."""
    where, values = _conditions(query)
    total = database.execute(f"select count(*) from runs{_clause(where)}", values).fetchone()[0]  # noqa: S608
    order, beyond = _ORDERS[query.order]
    if query.after is not None:
        where.append(beyond)
        values.extend(query.after)
    size = max(1, min(query.page_size, PAGE_MAX))
    sql = f"select created_wall_s, name from runs{_clause(where)} order by {order} limit ?"  # noqa: S608
    rows = list(database.execute(sql, [*values, size + 1]))
    more = len(rows) > size
    rows = rows[:size]
    return RunPage(
        names=tuple(str(name) for _, name in rows),
        next_after=(float(rows[-1][0]), str(rows[-1][1])) if more else None,
        total=int(total),
    )


def _conditions(query: RunQuery) -> tuple[list[str], list[object]]:
    where: list[str] = []
    values: list[object] = []
    if query.team:
        where.append("team = ?")
        values.append(query.team)
    if query.owner:
        where.append("owner = ?")
        values.append(query.owner)
    if query.states:
        where.append(f"state in ({', '.join('?' for _ in query.states)})")
        values.extend(state.value for state in query.states)
        if RUN_ENDED.isdisjoint(query.states):
            where.append("is_settled = 0")  # says nothing new, but by an index of the few
    if query.region:
        where.append("name in (select name from run_regions where region = ?)")
        values.append(query.region)
    for key, value in query.labels:
        where.append("name in (select name from run_labels where key = ? and value = ?)")
        values.extend((key, value))
    return where, values


def _clause(where: list[str]) -> str:
    return f" where {' and '.join(where)}" if where else ""
