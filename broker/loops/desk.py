"""Where an agent hands in its commands, and what becomes of those that the log refuses.

The rule: a refusal means that the state moved on since it was read; it is counted and forgotten,
for the next tick looks again. An error in one run's handling is that run's alone: it is logged,
counted, said to its users, and the others go on. An error of the log itself stops the tick.
Read ``Desk.tell`` first.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from broker.history.commands import Command, WarnRun
from broker.history.events import Recorded
from broker.history.refusals import Refused
from broker.history.regional import BrokerState, RegionState
from broker.model.actor import Actor, ActorKind
from broker.model.moment import Moment
from broker.model.policy import TeamStanding
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.runtime.tasks import Fatal
from broker.runtime.turns import Turns
from broker.store.errors import LogError
from broker.store.feed import Changes, Feed

TICKS_KEPT = 10_000  # until the meter comes: a bound for a daemon whose meter does not
TURN = 32  # runs, at some 0.2 ms each, until a call that waits has its turn

_log = logging.getLogger(__name__)


class Clock(Protocol):
    """The time."""

    def now(self) -> Moment:
        """Return the present moment."""
        ...


class Log(Protocol):
    """What the agents need of the ledger."""

    feed: Feed

    async def handle(self, stream: str, command: Command, actor: Actor) -> tuple[Recorded, ...]:
        """Decide a command and make its events durable."""
        ...

    def run(self, name: str) -> Run | None:
        """Return a run as of the last commit."""
        ...

    def live_runs(self) -> Mapping[str, Run]:
        """Return the runs for which something is left to do."""
        ...

    def region(self, region: str) -> RegionState:
        """Return what ops set for a region."""
        ...

    def standing(self, team: str) -> TeamStanding:
        """Return what a team holds now."""
        ...

    def broker(self) -> BrokerState:
        """Return the broker's own state."""
        ...


class NewerIncarnationError(Fatal):
    """A store shows a newer life of this broker's data: this one must not go on (R1)."""


class Counts:
    """What agents count, for the metrics: refusals by agent and reason, failures by agent.

    ``ticks`` are the last ones, with the seconds that each took; the meter takes them out.
    """

    def __init__(self) -> None:
        self.refusals: Counter[tuple[str, Reason]] = Counter()
        self.failures: Counter[str] = Counter()
        self.ticks: deque[tuple[str, float]] = deque(maxlen=TICKS_KEPT)


@contextmanager
def putting_back(changes: Changes, names: Iterable[str]) -> Iterator[None]:
    """Put taken changes back when a tick cannot finish, so that the next one finds them."""
    try:
        yield
    except Exception:
        changes.add(set(names))
        raise


class Desk:
    """One agent's way to the log, in the agent's name."""

    def __init__(
        self, log: Log, agent: str, counts: Counts, kind: ActorKind, *, at_once: int = 1
    ) -> None:
        """Make it; ``at_once`` runs are handled at a time, 1 for one after the other."""
        self.log = log
        self._at_once = at_once
        self._agent = agent
        self._counts = counts
        self._actor = Actor(kind=kind, name=agent)

    async def tell(self, stream: str, *commands: Command) -> bool:
        """Hand in commands in order. False: one was refused, and the rest were not handed in."""
        for command in commands:
            try:
                await self.log.handle(stream, command, self._actor)
            except Refused as refusal:
                self._counts.refusals[self._agent, refusal.reason] += 1
                _log.debug(
                    "%s: %s refused for %s: %s",
                    self._agent,
                    type(command).__name__,
                    stream,
                    refusal.message,
                )
                return False
        return True

    async def for_each(
        self, names: Iterable[str], handle: Callable[[str], Awaitable[None]]
    ) -> tuple[str, ...]:
        """Handle runs in order, some of them at once; return those that ran into an error.

        Commands of different runs then share their way to the disk: the log commits in groups.
        Begun in order, they reach the log in order. An error of the log lets no further one begin.
        """
        wanted = tuple(names)
        if not wanted:
            return ()
        left, failed = iter(wanted), list[str]()
        fatal: list[LogError | NewerIncarnationError] = []
        workers = max(1, min(self._at_once, len(wanted)))

        async def work() -> None:
            turns = Turns(max(1, TURN // workers))  # all that work are ready at once
            for name in left:
                try:
                    if not await self.has_handled(name, handle):
                        failed.append(name)
                except (LogError, NewerIncarnationError) as error:
                    fatal.append(error)
                if fatal:
                    return
                await turns.pass_on()

        if workers == 1:
            await work()
        else:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(work())
        if fatal:
            raise fatal[0]
        return tuple(failed)

    async def has_handled(self, name: str, handle: Callable[[str], Awaitable[None]]) -> bool:
        """Handle one run. False: it ran into an error, which is told; the log's is raised."""
        try:
            await handle(name)
        except (LogError, NewerIncarnationError):
            raise
        except Exception as error:  # noqa: BLE001 - it is one run's, and loud; see above
            self._counts.failures[self._agent] += 1
            _log.exception("%s: an error in handling %s", self._agent, name)
            await self._say_failed(name, error)
            return False
        return True

    async def _say_failed(self, name: str, error: Exception) -> None:
        message = f"the broker's {self._agent} ran into {type(error).__name__}; ops see its log"
        run = self.log.run(name)
        if run is not None and not run.is_ended:
            await self.tell(name, WarnRun(reason=Reason.UNKNOWN, message=message))
