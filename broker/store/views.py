"""The view tables: what lists, labels, requests and snapshots are read from.

The rule: what a view holds is a function of the events alone, written in the transaction of the
events that made it; ``rebuild`` proves it. Rows that did not change are not written. Read
``changes`` first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

import sqlite_utils

from broker.history.codec import decode_run, encode_run
from broker.model.run import Run
from broker.store.many import Statement, execute, inserts, select_many
from broker.store.picture import State, is_settled
from broker.store.standing import Holding

_RUN = "insert into runs (name, team, owner, state, reason, is_settled, created_wall_s, settled_s)"
_RUN_CHANGED = (
    "on conflict (name) do update set state = excluded.state, reason = excluded.reason,"
    " is_settled = excluded.is_settled, settled_s = excluded.settled_s"
)
RunRow = tuple[str, str, str, str, str, int, float, float | None]


def changes(
    before: Mapping[str, State | None], after: Mapping[str, State], snapshots: Iterable[Run]
) -> Iterator[Statement]:
    """Yield what brings the views of streams from one state to the next.

    ``before`` None is a stream that begins; ``snapshots`` are runs to keep whole.
    """
    pairs: list[tuple[Run | None, Run]] = []
    for stream, state in after.items():
        was = before[stream]
        if isinstance(state, Run):
            pairs.append((was if isinstance(was, Run) else None, state))
        elif was is None:
            yield "insert or ignore into streams values (?)", (stream,)
    rows = [new for was, run in pairs if (new := _row(run)) != (was and _row(was))]
    yield from inserts(_RUN, rows, _RUN_CHANGED)
    begun = [run for was, run in pairs if was is None]
    yield from inserts(
        "insert or ignore into run_labels",
        [(run.name, key, value) for run in begun for key, value in run.intent.labels],
    )
    yield from inserts(
        "insert or ignore into requests",
        [(r.intent.team, r.request_id, r.name, r.body_digest) for r in begun if r.request_id],
    )
    yield from inserts(
        "insert or ignore into run_regions",
        [(run.name, region) for was, run in pairs for region in new_regions(was, run)],
    )
    yield from inserts(
        "insert or replace into snapshots",
        [(run.name, run.stream_version, encode_run(run)) for run in snapshots],
    )


def new_regions(before: Run | None, after: Run) -> set[str]:
    """Return the regions of the placements that a change of a run added."""
    if before is not None and before.placements is after.placements:
        return set()
    known = before.placements if before is not None else {}
    return {p.site.region for p in after.placements.values() if p.id not in known}


def write_regions(database: sqlite_utils.Database, name: str, regions: Iterable[str]) -> None:
    """Write in which regions a run was placed."""
    rows = [(name, region) for region in regions]
    execute(database, inserts("insert or ignore into run_regions", rows))


def holding_changes(
    before: Mapping[str, Holding], after: Mapping[str, Holding]
) -> Iterator[Statement]:
    """Yield what brings what teams spent, in money and in time at gates, up to date."""
    nothing = Holding()
    for team, has in after.items():
        was = before.get(team, nothing)
        if has.spent != was.spent:
            yield spending(team, has.spent)
        for day, gpu_ms in has.gate_ms.items():
            added = gpu_ms - was.gate_ms.get(day, 0)
            if added:
                yield gate_time(team, day, added)


def gate_time(team: str, day: int, gpu_ms: int) -> Statement:
    """Return what adds GPU-milliseconds at gates to a team's day."""
    sql = (
        "insert into gate_time values (?, ?, ?) on conflict (team, day) do update set"
        " gpu_ms = gpu_ms + excluded.gpu_ms"
    )
    return sql, (team, day, gpu_ms)


def spending(team: str, usd: Decimal) -> Statement:
    """Return what writes down what a team's runs have cost, in US dollars."""
    return "insert or replace into team_spent values (?, ?)", (team, str(usd))


def remove_runs(database: sqlite_utils.Database, runs: Iterable[Run]) -> None:
    """Remove every view row of runs that leave the log."""
    gone = [(run.name,) for run in runs]
    for table in ("runs", "run_labels", "run_regions"):
        database.conn.executemany(f"delete from {table} where name = ?", gone)  # noqa: S608
    database.conn.executemany("delete from snapshots where stream = ?", gone)
    database.conn.executemany(
        "delete from requests where team = ? and request_id = ?",
        [(run.intent.team, run.request_id) for run in runs],
    )


def known_requests(
    database: sqlite_utils.Database, keys: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], tuple[str, str]]:
    """Return (run name, body digest) by (team, request id), for those that there are."""
    rows = select_many(
        database,
        "with asked (team, request_id) as (values ",
        tuple(keys),
        ") select r.team, r.request_id, r.name, r.body_digest from asked a"
        " join requests r on r.team = a.team and r.request_id = a.request_id",
    )
    return {(team, request_id): (name, digest) for team, request_id, name, digest in rows}


def look_up(
    database: sqlite_utils.Database, asked: Sequence[tuple[str, str, str]]
) -> tuple[dict[str, Run], dict[tuple[str, str], tuple[str, str]]]:
    """Answer ``read_snapshots`` and ``known_requests`` at once, for a batch.

    ``asked`` are a run's name, and the team and request id of its submit or two empty texts.
    """
    rows = select_many(
        database,
        "with asked (stream, team, request_id) as (values ",
        asked,
        ") select a.stream, s.body, a.team, a.request_id, r.name, r.body_digest from asked a"
        " left join snapshots s on s.stream = a.stream"
        " left join requests r on r.team = a.team and r.request_id = a.request_id"
        " where s.body is not null or r.name is not null",
    )
    snapshots: dict[str, Run] = {}
    requests: dict[tuple[str, str], tuple[str, str]] = {}
    for stream, body, team, request_id, name, digest in rows:
        if body is not None:
            snapshots[stream] = decode_run(body)
        if name is not None:
            requests[team, request_id] = (name, digest)
    return snapshots, requests


def read_snapshots(database: sqlite_utils.Database, names: Iterable[str]) -> dict[str, Run]:
    """Return the newest snapshots of runs by name, for those that have one."""
    rows = select_many(
        database,
        "with asked (stream) as (values ",
        [(name,) for name in names],
        ") select s.stream, s.body from asked a join snapshots s on s.stream = a.stream",
    )
    return {str(name): decode_run(body) for name, body in rows}


def read_snapshot(database: sqlite_utils.Database, name: str) -> Run | None:
    """Return a run's newest snapshot, or None."""
    return read_snapshots(database, (name,)).get(name)


def read_gate_time(database: sqlite_utils.Database) -> list[tuple[str, int, int]]:
    """Return (team, day, GPU-milliseconds at gates)."""
    rows = database.conn.execute("select team, day, gpu_ms from gate_time")
    return [(str(team), int(day), int(gpu_ms)) for team, day, gpu_ms in rows]


def read_spent(database: sqlite_utils.Database) -> dict[str, Decimal]:
    """Return the money that each team's runs have cost, in US dollars."""
    rows = database.conn.execute("select team, usd from team_spent")
    return {str(team): Decimal(usd) for team, usd in rows}


def _row(run: Run) -> RunRow:
    settled = is_settled(run)
    since_s = run.updated.elapsed_s
    if run.is_retiring and run.ended is not None:
        # That it is to leave is no reason to keep it longer.
        since_s = run.ended.elapsed_s
    return (
        run.name,
        run.intent.team,
        run.intent.owner,
        run.state.value,
        run.why.reason.value,
        int(settled),
        run.created.wall_s,
        since_s if settled else None,
    )
