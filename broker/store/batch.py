"""One transaction: each command is decided on the state before it, folded, appended.

The rule: what is decided stays in a draft until the disk has all of it. A command that is refused,
or that runs into a bug, leaves no trace and spoils no other of its batch; a disk that refuses
spoils them all and changes nothing. Deciding and publishing take the interpreter, writing takes the
disk: they are three steps, so that two threads can share them. Read ``Committer.commit`` first.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import sqlite_utils

from broker.history.commands import Command, SubmitRun
from broker.history.events import Recorded
from broker.history.invariants import violations
from broker.history.refusals import Code, HistoryError, Refused
from broker.history.regional import BrokerState
from broker.model.actor import Actor
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.store import log, views
from broker.store.errors import LogUnreadableError, LogUnwritableError
from broker.store.many import Statement, execute
from broker.store.picture import Draft, Picture, State, is_settled
from broker.store.schema import setting
from broker.store.streams import BROKER_STREAM, decide_on, fold, is_run_stream, load

T = TypeVar("T")
SNAPSHOT_EVERY = (
    8  # events of a run: folding so many costs a start about what reading it whole does
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One command for one stream, by someone."""

    stream: str
    command: Command
    actor: Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadySubmitted:
    """The request id made this run before, with the very same request."""

    name: str


class BrokenInvariantError(HistoryError):
    """A decision would have led to a state that must not be; it was not written."""


Requests = dict[tuple[str, str], tuple[str, str]]  # (team, request id): (run, body digest)
Result = tuple[Recorded, ...] | AlreadySubmitted | Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What a batch did: a result for each order, and the events of all of them in order.

    A result that is an exception is for the order's sender; ``Refused`` is the usual one.
    """

    results: tuple[Result, ...]
    recorded: tuple[Recorded, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A batch that is decided and not on the disk: nobody is to see it yet.

    ``appends`` and ``changes`` are what writes its events and its views.
    """

    committed: Committed
    draft: Draft
    snapshots: tuple[Run, ...]
    appends: tuple[Statement, ...]
    changes: tuple[Statement, ...]


class Committer:
    """The one writer of a log. Not for use by two threads at once."""

    def __init__(
        self,
        database: sqlite_utils.Database,
        picture: Picture,
        *,
        now: Callable[[], Moment],
        mark: Callable[[], str],
        known_regions: frozenset[str],
    ) -> None:
        self._database = database
        self._picture = picture
        self._now = now
        self._mark = mark
        self._snapshots: dict[str, int] = {}  # by live run: the version of its newest snapshot
        self._known_regions = known_regions
        self._head = log.head(database)

    def begin_with(self, snapshots: dict[str, int]) -> None:
        """Take over of which version each live run's newest snapshot is."""
        self._snapshots = snapshots

    def commit(
        self,
        orders: Sequence[Order],
        also: Callable[[sqlite_utils.Database, Moment], None] | None = None,
    ) -> Committed:
        """Carry out the orders in one transaction, durable when this returns.

        ``also`` is done to the database in the same transaction, and only if no order fails: the
        first that does is raised.
        Raises LogUnwritableError or LogConflictError; then nothing of the batch happened.
        """
        decided = self.decide(orders)
        failed = next((r for r in decided.committed.results if isinstance(r, Exception)), None)
        if also is not None and failed is not None:
            raise failed
        if decided.committed.recorded:
            self.write(decided, also)
            self.publish(decided)
        return decided.committed

    def decide(self, orders: Sequence[Order]) -> Decided:
        """Decide the orders one after the other, and put into bytes what follows.

        Nothing may be decided between this and the end of ``publish``, or of a ``write`` that
        failed. Raises LogUnreadableError.
        """
        batch = self._begin(orders)
        results = tuple([batch.carry_out(order) for order in orders])
        snapshots = self._due_snapshots(batch.draft)
        return Decided(
            committed=Committed(results=results, recorded=tuple(batch.recorded)),
            draft=batch.draft,
            snapshots=snapshots,
            appends=log.appends(batch.recorded),
            changes=tuple(self._changes(batch.draft, snapshots)) if batch.recorded else (),
        )

    def write(
        self,
        decided: Decided,
        also: Callable[[sqlite_utils.Database, Moment], None] | None = None,
    ) -> None:
        """Make a batch durable. Raises LogUnwritableError or LogConflictError: it is forgotten."""
        with self._transaction():
            log.append(self._database, decided.appends)
            execute(self._database, decided.changes)
            if also is not None:
                also(self._database, decided.draft.now)

    def publish(self, decided: Decided) -> None:
        """Make a batch that was written what the broker knows."""
        self._head = decided.committed.recorded[-1].position
        for run in decided.snapshots:
            self._snapshots[run.name] = run.stream_version
        for stream, state in decided.draft.after.items():
            if isinstance(state, Run) and is_settled(state):
                self._snapshots.pop(stream, None)
        decided.draft.publish()

    def do(self, work: Callable[[sqlite_utils.Database], T]) -> T:
        """Do upkeep on the database between batches. Raises LogUnwritableError."""
        try:
            return work(self._database)
        except sqlite3.Error as error:
            raise LogUnwritableError(f"upkeep of the log failed: {error}") from error

    def load_settled(self, name: str) -> Run | None:
        """Return a run's snapshot, None when it has none."""
        return views.read_snapshot(self._database, name)

    def mark_time(self) -> None:
        """Write down where the clocks stand, for the next life to know how long it was away."""
        with self._transaction():
            execute(self._database, (setting("clock", self._mark()),))

    def _changes(self, draft: Draft, snapshots: Iterable[Run]) -> Iterator[Statement]:
        yield from views.changes(draft.before, draft.after, snapshots)
        yield from views.holding_changes(self._picture.holdings, draft.holdings)
        yield setting("clock", self._mark())
        if isinstance(broker := draft.after.get(BROKER_STREAM), BrokerState):
            yield setting("incarnation", str(broker.incarnation))

    def _due_snapshots(self, draft: Draft) -> tuple[Run, ...]:
        # A settled run is only ever read from its snapshot, so it always has the latest.
        return tuple(
            state
            for state in draft.after.values()
            if isinstance(state, Run)
            and (
                state.stream_version - self._snapshots.get(state.name, 0) >= SNAPSHOT_EVERY
                or is_settled(state)
            )
        )

    def _begin(self, orders: Sequence[Order]) -> "_Batch":
        # One question for the whole batch; most names are live, or not there at all. Asked name by
        # name: a difference of sets would walk through every live run.
        live = self._picture.live
        asked = {
            (order.stream, *_request_of(order.command))
            for order in orders
            if is_run_stream(order.stream)
            and (order.stream not in live or isinstance(order.command, SubmitRun))
        }
        try:
            settled, requests = views.look_up(self._database, tuple(asked))
        except sqlite3.Error as error:
            raise LogUnreadableError(f"the log cannot be read: {error}") from error
        draft = Draft(
            self._picture, load=settled.get, now=self._now(), known_regions=self._known_regions
        )
        return _Batch(draft, requests, self._head)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        connection = self._database.conn
        try:
            connection.execute("begin immediate")
            yield
            connection.execute("commit")
            self._picture.trouble = ""
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("rollback")
            if isinstance(error, sqlite3.Error):
                self._picture.trouble = f"the log cannot be written: {error}"
                raise LogUnwritableError(
                    f"the log cannot be written, nothing was changed: {error}"
                ) from error
            raise


class _Batch:
    """The orders of one transaction, decided one after the other; nothing is written here."""

    def __init__(self, draft: Draft, requests: Requests, head: int) -> None:
        self._head = head
        self._requests = requests
        self.draft = draft
        self.recorded: list[Recorded] = []

    def carry_out(self, order: Order) -> Result:
        """Decide one order and fold what follows into the draft."""
        command = order.command
        if isinstance(command, SubmitRun) and command.request_id:
            known = self._known_request(command)
            if known is not None:
                return known
        try:
            recorded = self._decide(order)
        except Exception as error:  # noqa: BLE001 - it is its sender's, and not the others'
            return error
        if recorded and isinstance(command, SubmitRun) and command.request_id:
            key = (command.intent.team, command.request_id)
            self._requests[key] = (command.name, command.body_digest)
        self.recorded += recorded
        return recorded

    def _decide(self, order: Order) -> tuple[Recorded, ...]:
        before = load(order.stream, self.draft)
        events = decide_on(before, order.stream, order.command, self.draft)
        if not events:
            return ()
        recorded = log.record(
            order.stream,
            events,
            after_version=0 if before is None else before.stream_version,
            after_position=self._head + len(self.recorded),
            at=self.draft.now,
            actor=order.actor,
        )
        after = before
        for one in recorded:
            after = fold(after, one)
        assert after is not None
        _check(after)
        self.draft.put(order.stream, before, after)
        return recorded

    def _known_request(self, command: SubmitRun) -> Result | None:
        team, request_id = command.intent.team, command.request_id
        known = self._requests.get((team, request_id))
        if known is None:
            return None
        name, body_digest = known
        if body_digest == command.body_digest:
            return AlreadySubmitted(name=name)
        return Refused(
            Reason.REQUEST_ID_REUSED,
            f"request_id {request_id!r} made {name} from another request",
            field="request_id",
            code=Code.ALREADY_EXISTS,
        )


def _request_of(command: Command) -> tuple[str, str]:
    """Return the team and the id of a submit's request, two empty texts for none."""
    if isinstance(command, SubmitRun) and command.request_id:
        return command.intent.team, command.request_id
    return "", ""


def _check(state: State) -> None:
    if __debug__ and isinstance(state, Run):
        broken = violations(state)
        if broken:
            raise BrokenInvariantError("; ".join(broken))
