"""From the log to the picture, at start-up.

The rule: what a start reads grows with what is live, not with what ever ran: a live run's newest
snapshot and the events after it. Until all of them are read the picture reads each one when it is
asked for; nothing is decided before. Read ``recover`` first.
"""

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Protocol

import msgspec
import sqlite_utils

from broker.history.codec import UndecodableError, decode_run
from broker.history.events import Recorded
from broker.history.evolve import evolve
from broker.history.refusals import IllegalMoveError
from broker.model.moment import Moment
from broker.model.run import Run
from broker.runtime.clock import ClockMark
from broker.store import log, standing, views
from broker.store.batch import Committer
from broker.store.errors import LogDamagedError, LogIncompatibleError
from broker.store.picture import Picture, State
from broker.store.rebuild import take_over
from broker.store.schema import open_database, read_meta
from broker.store.standing import Holding
from broker.store.streams import fold

WHOLE_STREAM = -1  # no limit on the events that are read
MANY_OBJECTS = 100_000  # of a start; below it the collector may look at them like at any other

# The order of the joins is ours: the planner would rather read a whole index for its order.
LIVE_SNAPSHOTS = (
    "select s.stream, s.body from runs r indexed by runs_unsettled"
    " cross join snapshots s on s.stream = r.name where r.is_settled = 0"
)
LIVE_TAILS = (
    "from runs r indexed by runs_unsettled left join snapshots s on s.stream = r.name"
    " cross join events e on e.stream = r.name"
    " and e.stream_version > coalesce(s.stream_version, 0)"
    " where r.is_settled = 0 order by r.name, e.stream_version"
)
SMALL_STREAMS = (
    "from streams t cross join events e on e.stream = t.stream order by t.stream, e.stream_version"
)


class MarkingClock(Protocol):
    """A clock that can say where it stands, for the next life to go on from."""

    def now(self) -> Moment:
        """Return the present moment."""
        ...

    def mark(self) -> ClockMark:
        """Return where the clocks stand."""
        ...


def recover(
    writes: sqlite_utils.Database,
    load: Callable[[str], Run | None],
    clock: MarkingClock,
    regions: Iterable[str],
) -> tuple[Picture, Committer]:
    """Return the state that a log holds, and the one who may change it.

    ``load`` reads a run that is not in the picture, for whoever asks it; ``regions`` are those the
    broker is told of. Views that another release made are made anew first. Raises LogDamagedError,
    LogIncompatibleError or LogUnwritableError.
    """
    picture, committer = begin(writes, load, clock, regions)
    read_in(committer, picture, clock.now())
    return picture, committer


def begin(
    writes: sqlite_utils.Database,
    load: Callable[[str], Run | None],
    clock: MarkingClock,
    regions: Iterable[str],
) -> tuple[Picture, Committer]:
    """Do the first half of ``recover``: the picture holds the small streams, and no run.

    The committer must commit nothing before the second half, ``read_in``, is done.
    """
    take_over(writes)
    picture = Picture(load)
    with _explained():
        for stream, state in _read_small(writes).items():
            picture.put(stream, state)
    committer = Committer(
        writes,
        picture,
        now=clock.now,
        mark=lambda: msgspec.json.encode(clock.mark()).decode(),
        known_regions=frozenset(regions),
    )
    return picture, committer


def read_in(committer: Committer, picture: Picture, now: Moment) -> None:
    """Do the second half of ``recover``: read the live runs, and what teams hold.

    Raises LogIncompatibleError for what a newer release wrote, LogDamagedError when events are
    missing between a snapshot and the end of its stream, or cannot follow from what was before.
    """
    with _explained(), _no_collection():
        runs, snapshots = committer.do(_read_live)
        holdings = committer.do(lambda database: _holdings(database, runs.values(), now))
        committer.begin_with(snapshots)
        picture.begin_with(runs, holdings)


def read_run(database: sqlite_utils.Database, name: str) -> Run | None:
    """Return a run as the log holds it, None when it holds none of this name."""
    run = views.read_snapshot(database, name)
    version = 0 if run is None else run.stream_version
    for recorded in log.read_stream(database, name, version, WHOLE_STREAM):
        run = evolve(run, recorded)
    return run


def read_mark(path: Path) -> ClockMark | None:
    """Return where the clocks stood when the log was last written, None for a new log."""
    if not path.exists():
        return None
    database = open_database(path, is_read_only=True)
    try:
        text = read_meta(database, "clock") if "meta" in database.table_names() else None
    finally:
        database.close()
    return None if text is None else msgspec.json.decode(text, type=ClockMark)


def _read_live(database: sqlite_utils.Database) -> tuple[dict[str, Run], dict[str, int]]:
    """Return the live runs, and of which version each one's snapshot is."""
    runs = {str(stream): decode_run(body) for stream, body in database.conn.execute(LIVE_SNAPSHOTS)}
    snapshots = {stream: run.stream_version for stream, run in runs.items()}
    for recorded in log.read_where(database, LIVE_TAILS):
        stream = recorded.stream
        run = runs.get(stream)
        _check_next(recorded, run)
        runs[stream] = evolve(run, recorded)
    return runs, snapshots


def _read_small(database: sqlite_utils.Database) -> dict[str, State]:
    states: dict[str, State] = {}
    for recorded in log.read_where(database, SMALL_STREAMS):
        state = states.get(recorded.stream)
        _check_next(recorded, state)
        states[recorded.stream] = fold(state, recorded)
    return states


def _check_next(recorded: Recorded, state: State | None) -> None:
    expected = 1 if state is None else state.stream_version + 1
    if recorded.stream_version != expected:
        raise LogDamagedError(
            f"{recorded.stream} lacks event {expected}; restore a backup, or run `brokerd rebuild`"
        )


def _holdings(
    database: sqlite_utils.Database, runs: Iterable[Run], now: Moment
) -> dict[str, Holding]:
    """Return what teams hold: what their live runs hold now, and what the views say was spent."""
    holdings: dict[str, Holding] = defaultdict(Holding)
    for run in runs:
        team = run.intent.team
        holdings[team] = standing.account(holdings[team], None, run, now)
    # The views know the spending of all runs, and on which day: they replace what live runs say.
    spent = views.read_spent(database)
    gate_ms: dict[str, dict[int, int]] = defaultdict(dict)
    for team, day, ms in views.read_gate_time(database):
        gate_ms[team][day] = ms
    return {
        team: replace(
            holdings[team],
            spent=spent.get(team, Decimal(0)),
            gate_ms=gate_ms.get(team, {}),
        )
        for team in {*holdings, *spent, *gate_ms}
    }


@contextmanager
def _explained() -> Iterator[None]:
    """Say of a log that cannot be read what that means, and what to do."""
    try:
        yield
    except UndecodableError as error:
        raise LogIncompatibleError(
            f"the log holds what this brokerd does not understand ({error}); it was written by a"
            " newer one, or is damaged"
        ) from error
    except IllegalMoveError as error:
        raise LogDamagedError(f"the log holds what cannot be: {error}; restore a backup") from error


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from looking again and again at what will all be kept."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        if gc.get_count()[0] > MANY_OBJECTS:
            # It lives as long as the broker; looking it over once more would cost a third.
            gc.freeze()
    finally:
        if was_enabled:
            gc.enable()
