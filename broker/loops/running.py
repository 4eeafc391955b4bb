"""Keeps agents going in a daemon: a tick on news, and one when time alone calls for it.

The rule: news only makes a tick sooner. A tick that raises is the supervisor's, which begins the
agent again after a pause. Read ``keep_going`` first.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from broker.loops.converger import Converger
from broker.loops.engine import Agents
from broker.loops.outposts import News
from broker.model.moment import Moment
from broker.store.feed import Changes

SPACING_S = 0.02  # news that comes together is taken together
# Where so many streams changed meanwhile, more are on their way: a storm of submits is looked at
# a few times a second instead of fifty, and a single run never waits for it.
MANY, GATHER_S = 8, 0.1
BUSY_S = 0.1  # file work that is under way is asked for so often
IDLE_S = 5.0
# Gates and reports are in stores and bring no news: where a gang is about to start or to stop,
# its cluster is looked at so many times as often.
TURNING = 5
APART_S = 0.1  # a start makes a dozen changes of its cluster: they are not worth a look each
SOONEST = 10  # a time that is due is met at the latest after this part of the placer's pause


class Clock(Protocol):
    """A clock that can also be waited on."""

    def now(self) -> Moment:
        """Return the present moment."""
        ...

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
    ticks = agents.counts.ticks

    def keep(
        name: str,
        tick: Callable[[], Awaitable[None]],
        news: Changes | None,
        pause_s: Callable[[], float],
    ) -> None:
        ticking = partial(timed, name.partition(" ")[0], tick, ticks, clock)
        keeper.keep(name, lambda: keep_going(ticking, news, pause_s, clock))

    def look_s(cluster: str) -> float:
        agents.roster.refresh()  # what the look itself told counts for how soon the next one is
        is_turning = not agents.roster.turning.isdisjoint(agents.roster.on_cluster(cluster))
        return pace.look_s / TURNING if is_turning else pace.look_s

    def place_s() -> float:
        at_s = agents.placer.next_s()
        left_s = pace.place_s if at_s is None else at_s - clock.now().elapsed_s
        return min(pace.place_s, max(pace.place_s / SOONEST, left_s))

    for index, outpost in enumerate(agents.outposts):
        observer, converger = agents.observers[index], agents.convergers[index]
        pause_s = partial(look_s, outpost.cluster)
        look = partial(timed, "observer", observer.tick, ticks, clock)
        looking = partial(keep_looking, look, outpost.news, pause_s, clock)
        keeper.keep(f"observer {outpost.cluster}", looking)
        act = partial(timed, "converger", converger.tick, ticks, clock)
        converging = partial(keep_converging, converger, act, lambda: pace.converge_s, clock)
        keeper.keep(f"converger {outpost.cluster}", converging)
    placer, carrier, validator = agents.placer, agents.carrier, agents.validator
    keep("placer", placer.tick, placer.changes, place_s)
    keep(
        "validator",
        validator.tick,
        validator.changes,
        lambda: BUSY_S if validator.is_busy else IDLE_S,
    )
    keep(
        "carrier",
        carrier.tick,
        carrier.changes,
        lambda: BUSY_S if carrier.is_busy else pace.place_s,
    )
    courier = agents.courier
    if courier is not None:
        keep(
            "courier",
            courier.tick,
            courier.changes,
            lambda: BUSY_S if courier.is_busy else pace.place_s,
        )
    pruner, restorer = agents.pruner, agents.restorer
    keep("pruner", pruner.tick, pruner.changes, lambda: BUSY_S if pruner.is_busy else IDLE_S)
    keep("reaper", agents.reaper.tick, None, lambda: IDLE_S)
    keep("restorer", restorer.tick, None, lambda: IDLE_S if restorer.is_done else pace.place_s)


async def timed(
    loop: str,
    tick: Callable[[], Awaitable[None]],
    ticks: deque[tuple[str, float]],
    clock: Clock,
) -> None:
    """Tick once, and keep how long that took, however it ended."""
    began_s = clock.now().elapsed_s
    try:
        await tick()
    finally:
        ticks.append((loop, clock.now().elapsed_s - began_s))


async def keep_going(
    tick: Callable[[], Awaitable[None]],
    news: Changes | None,
    pause_s: Callable[[], float],
    clock: Clock,
) -> None:
    """Tick for ever: at once on news, else after the pause. Raises what the tick raises.

    ``news`` None: nothing makes it sooner. Much news is gathered for a moment more.
    """
    while True:
        await tick()
        await clock.sleep(SPACING_S)
        if news is None:
            await clock.sleep(pause_s())
            continue
        if len(news) >= MANY:
            await clock.sleep(GATHER_S)
        await news.wait_within(pause_s())


async def keep_converging(
    converger: Converger,
    tick: Callable[[], Awaitable[None]],
    pause_s: Callable[[], float],
    clock: Clock,
) -> None:
    """Tick for ever, as ``keep_going`` does; what ticks began goes on beside them."""
    async with converger.acting():
        await keep_going(tick, converger.changes, pause_s, clock)


async def keep_looking(
    tick: Callable[[], Awaitable[None]],
    news: News | None,
    pause_s: Callable[[], float],
    clock: Clock,
) -> None:
    """Look for ever: after the pause, or sooner when the cluster itself tells of something new.

    However much it tells, no more than half of the time is spent on looks at it.
    """
    while True:
        started_s = clock.now().elapsed_s
        await tick()
        took_s, whole_s = clock.now().elapsed_s - started_s, pause_s()
        rest_s = max(SPACING_S, took_s, min(APART_S, whole_s))
        await clock.sleep(rest_s)
        wait_s, began_s = whole_s - rest_s, clock.now().elapsed_s
        if wait_s <= 0:
            continue
        if news is not None and await news.wait_for_news(wait_s):
            continue
        # A cluster that does not answer tells nothing, and is not asked in a hurry.
        await clock.sleep(max(0.0, wait_s - (clock.now().elapsed_s - began_s)))
