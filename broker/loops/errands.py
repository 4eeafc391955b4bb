"""File work, as the agents ask for it: begun in one tick and collected in a later one.

The rule: a tick never waits for an answer, and an outcome for which nobody waits holds up nothing
and is forgotten in the end. Read ``Errands.ask`` first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from broker.loops.desk import Clock
from replicator.hashing import OnChunk
from replicator.transfers import Ticket, TransferKey

T = TypeVar("T")

WAITS_S = 2.0  # who waits for an outcome asks again sooner
KEPT = 1_000  # outcomes that nobody asked for, of runs that ended meanwhile


class Work(Protocol):
    """Runs file work, at most one piece per key: ``replicator.transfers.Transfers``."""

    @property
    def in_flight(self) -> tuple[Ticket[object], ...]:
        """All that is under way."""
        ...

    def start(self, key: TransferKey, work: Callable[[OnChunk], T]) -> Ticket[T]:
        """Begin a piece of work, or return the one under way for its key."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Errand:
    """A piece of work, and when it was last asked for (broker seconds)."""

    ticket: Ticket[object]
    asked_s: float


class Errands:
    """Pieces of work that were begun, until somebody asks for their outcome."""

    def __init__(self, work: Work, clock: Clock) -> None:
        self._work = work
        self._clock = clock
        self._errands: dict[TransferKey, _Errand] = {}

    async def ask(self, key: TransferKey, job: Callable[[OnChunk], T]) -> T | None:
        """Begin the job unless it is under way; return its value once, when it is done.

        Raises what the job raised. None: it is under way.
        """
        errand = self._errands.get(key)
        ticket: Ticket[T] = errand.ticket if errand else self._work.start(key, job)  # type: ignore[assignment]
        if not ticket.is_done:
            self._note(key, ticket)  # type: ignore[arg-type]  # one key, one kind of job
            return None
        self._errands.pop(key, None)
        return await ticket.wait()

    def _note(self, key: TransferKey, ticket: Ticket[object]) -> None:
        """Remember that somebody waits, and forget the oldest outcomes for which nobody does."""
        self._errands[key] = _Errand(ticket=ticket, asked_s=self._clock.now().elapsed_s)
        if len(self._errands) > KEPT:
            over = [one for one, errand in self._errands.items() if errand.ticket.is_done]
            for one in over[: len(self._errands) - KEPT]:
                del self._errands[one]

    def forget(self, key: TransferKey) -> None:
        """Ask for an outcome no more; what is under way goes on."""
        self._errands.pop(key, None)

    def done_bytes(self, key: TransferKey) -> int | None:
        """Return how far a piece of work is, or came; None once its outcome was told."""
        errand = self._errands.get(key)
        return None if errand is None else errand.ticket.done_bytes

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for an outcome: it was asked for lately, and not told yet."""
        now = self._clock.now()
        return any(now.since(each.asked_s) <= WAITS_S for each in self._errands.values())
