"""Keeps agents going in a daemon: a tick on news, and one when time alone calls for it.

The rule: news only makes a tick sooner. A tick that raises is the supervisor's, which begins the
agent again after a pause. Read ``keep_going`` first.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from broker.loops.engine import Agents
from broker.store.feed import Changes

SPACING_S = 0.02  # news that comes together is taken together
BUSY_S = 0.1  # file work that is under way is asked for so often
IDLE_S = 5.0


class Clock(Protocol):
    """A clock that can also be waited on."""

    async def sleep(self, seconds: float) -> None:
        """Wait on the monotonic clock."""
        ...


class Keeper(Protocol):
    """Keeps work alive: ``runtime.tasks.Supervisor``."""

    def keep(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work`` for ever; begin it again when it raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often agents look without news, in seconds."""

    look_s: float = 0.5
    converge_s: float = 1.0
    place_s: float = 1.0


def keep_all(agents: Agents, keeper: Keeper, clock: Clock, pace: Pace) -> None:
    """Hand every agent to a keeper."""

    def keep(
        name: str,
        tick: Callable[[], Awaitable[None]],
        news: Changes | None,
        pause_s: Callable[[], float],
    ) -> None:
        keeper.keep(name, lambda: keep_going(tick, news, pause_s, clock))

    for index, outpost in enumerate(agents.outposts):
        observer, converger = agents.observers[index], agents.convergers[index]
        keep(f"observer {outpost.cluster}", observer.tick, None, lambda: pace.look_s)
        keep(
            f"converger {outpost.cluster}",
            converger.tick,
            converger.changes,
            lambda: pace.converge_s,
        )
    placer, carrier, validator = agents.placer, agents.carrier, agents.validator
    keep("placer", placer.tick, placer.changes, lambda: pace.place_s)
    keep("validator", validator.tick, validator.changes, lambda: IDLE_S)
    keep(
        "carrier",
        carrier.tick,
        carrier.changes,
        lambda: BUSY_S if carrier.is_busy else pace.place_s,
    )
    pruner, restorer = agents.pruner, agents.restorer
    keep("pruner", pruner.tick, pruner.changes, lambda: BUSY_S if pruner.is_busy else IDLE_S)
    keep("reaper", agents.reaper.tick, None, lambda: IDLE_S)
    keep("restorer", restorer.tick, None, lambda: IDLE_S if restorer.is_done else pace.place_s)


async def keep_going(
    tick: Callable[[], Awaitable[None]],
    news: Changes | None,
    pause_s: Callable[[], float],
    clock: Clock,
) -> None:
    """Tick for ever: at once on news, else after the pause. Raises what the tick raises.

    ``news`` None: nothing makes it sooner.
    """
    while True:
        await tick()
        await clock.sleep(SPACING_S)
        if news is None:
            await clock.sleep(pause_s())
            continue
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s()):
                await news.wait()
