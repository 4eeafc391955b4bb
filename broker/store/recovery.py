"""From the log to the picture, at start-up.

The rule: what a start reads grows with what is live, not with what ever ran: a live run's newest
snapshot and the events after it. Read ``recover`` first.
"""

import gc
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from decimal import Decimal
from pathlib import Path
from typing import Protocol

import sqlite_utils

from broker.history.codec import UndecodableError, decode_run
from broker.history.events import Recorded
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

    ``load`` reads a settled run for whoever asks the picture; ``regions`` are those the broker is
    told of. Views that another release made are made anew first. Raises LogDamagedError,
    LogIncompatibleError or LogUnwritableError.
    """
    take_over(writes)
    picture = Picture(load)
    snapshots = load_picture(writes, picture, clock.now())
    committer = Committer(
        writes,
        picture,
        now=clock.now,
        mark=lambda: json.dumps(asdict(clock.mark())),
        snapshots=snapshots,
        known_regions=frozenset(regions),
    )
    return picture, committer


def read_mark(path: Path) -> ClockMark | None:
    """Return where the clocks stood when the log was last written, None for a new log."""
    if not path.exists():
        return None
    database = open_database(path, is_read_only=True)
    try:
        text = read_meta(database, "clock") if "meta" in database.table_names() else None
    finally:
        database.close()
    return None if text is None else ClockMark(**json.loads(text))


def load_picture(database: sqlite_utils.Database, picture: Picture, now: Moment) -> dict[str, int]:
    """Fill a picture from the log; return each live run's snapshot version.

    Raises LogIncompatibleError for what a newer release wrote, LogDamagedError when events are
    missing between a snapshot and the end of its stream, or cannot follow from what was before.
    """
    try:
        with _no_collection():
            states, snapshots = _read_states(database)
            for stream, state in states.items():
                picture.put(stream, state)
            picture.holdings.update(_holdings(database, states.values(), now))
    except UndecodableError as error:
        raise LogIncompatibleError(
            f"the log holds what this brokerd does not understand ({error}); it was written by a"
            " newer one, or is damaged"
        ) from error
    except IllegalMoveError as error:
        raise LogDamagedError(f"the log holds what cannot be: {error}; restore a backup") from error
    return snapshots


def _read_states(database: sqlite_utils.Database) -> tuple[dict[str, State], dict[str, int]]:
    states: dict[str, State] = {
        str(stream): decode_run(body) for stream, body in database.conn.execute(LIVE_SNAPSHOTS)
    }
    snapshots = {stream: state.stream_version for stream, state in states.items()}
    for clause in (LIVE_TAILS, SMALL_STREAMS):
        for recorded in log.read_where(database, clause):
            _fold_into(states, recorded)
    return states, snapshots


def _fold_into(states: dict[str, State], recorded: Recorded) -> None:
    state = states.get(recorded.stream)
    expected = 1 if state is None else state.stream_version + 1
    if recorded.stream_version != expected:
        raise LogDamagedError(
            f"{recorded.stream} lacks event {expected}; restore a backup, or run `brokerd rebuild`"
        )
    states[recorded.stream] = fold(state, recorded)


def _holdings(
    database: sqlite_utils.Database, states: Iterable[State], now: Moment
) -> dict[str, Holding]:
    """Return what teams hold: what their live runs hold now, and what the views say was spent."""
    holdings: dict[str, Holding] = defaultdict(Holding)
    for state in states:
        if isinstance(state, Run):
            team = state.intent.team
            holdings[team] = standing.account(holdings[team], None, state, now)
    # The views know the spending of all runs, and on which day: they replace what live runs say.
    spent = views.read_spent(database)
    gate_ms: dict[str, dict[int, int]] = defaultdict(dict)
    for team, day, ms in views.read_gate_time(database):
        gate_ms[team][day] = ms
    return {
        team: replace(
            holdings[team], spent=spent.get(team, Decimal(0)), gate_ms=gate_ms.get(team, {})
        )
        for team in {*holdings, *spent, *gate_ms}
    }


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
