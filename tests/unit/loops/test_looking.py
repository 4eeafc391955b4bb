"""When a cluster is looked at next: at its news, else after the pause, and never in a hurry."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from broker.loops.running import APART_S, GATHER_S, MANY, SPACING_S, keep_going, keep_looking
from broker.model.moment import Moment
from broker.store.feed import Feed
from tests.builders import make_moment


class EnoughError(Exception):
    """The test has seen what it wanted to see."""


@dataclass
class HandClock:
    """Sleeping moves it, and nothing else."""

    slept_s: float = 0.0

    def now(self) -> Moment:
        return make_moment(self.slept_s)

    async def sleep(self, seconds: float) -> None:
        self.slept_s += seconds


@dataclass
class Watched:
    """A cluster that tells of news so often, each after a wait, and then answers nothing."""

    clock: HandClock
    news: int
    after_s: float = 0.0
    looks_s: list[float] = field(default_factory=list)

    async def tick(self) -> None:
        self.looks_s.append(round(self.clock.slept_s, 6))
        if len(self.looks_s) == 3:
            raise EnoughError

    async def wait_for_news(self, timeout_s: float) -> bool:
        if self.news == 0:
            return False
        self.news -= 1
        await self.clock.sleep(self.after_s)
        return True


async def looks_of(watched: Watched, *, can_tell: bool = True) -> list[float]:
    news = watched if can_tell else None
    with pytest.raises(EnoughError):
        await keep_looking(watched.tick, news, lambda: 0.5, watched.clock)
    return watched.looks_s


async def test_news_makes_the_next_look_sooner() -> None:
    watched = Watched(HandClock(), news=2, after_s=0.1)
    apart_s = APART_S + 0.1
    assert await looks_of(watched) == pytest.approx([0.0, apart_s, 2 * apart_s])


async def test_news_without_end_is_looked_at_some_times_a_second() -> None:
    watched = Watched(HandClock(), news=9)
    assert await looks_of(watched) == pytest.approx([0.0, APART_S, 2 * APART_S])


async def test_a_cluster_that_does_not_answer_is_asked_after_the_whole_pause() -> None:
    watched = Watched(HandClock(), news=0)
    assert await looks_of(watched) == pytest.approx([0.0, 0.5, 1.0])


async def test_a_cluster_that_cannot_tell_is_looked_at_after_each_pause() -> None:
    watched = Watched(HandClock(), news=9)
    looks_s = await looks_of(watched, can_tell=False)
    assert looks_s == pytest.approx([0.0, 0.5, 1.0])


async def ticks_of(streams: int) -> list[float]:
    """Return when an agent ticks while so many streams change during each of its ticks."""
    clock, changes, ticks_s = HandClock(), Feed().subscribe(), list[float]()

    async def tick() -> None:
        ticks_s.append(round(clock.slept_s, 6))
        if len(ticks_s) == 3:
            raise EnoughError
        changes.take()
        changes.add({f"teams/vision/runs/run-{number}" for number in range(streams)})

    with pytest.raises(EnoughError):
        await keep_going(tick, changes, lambda: 5.0, clock)
    return ticks_s


async def test_news_of_a_few_runs_is_looked_at_at_once() -> None:
    assert await ticks_of(1) == [0.0, SPACING_S, 2 * SPACING_S]


async def test_news_of_many_runs_is_gathered_for_a_moment() -> None:
    apart_s = SPACING_S + GATHER_S
    assert apart_s < 0.2
    assert await ticks_of(MANY) == [0.0, round(apart_s, 6), round(2 * apart_s, 6)]
