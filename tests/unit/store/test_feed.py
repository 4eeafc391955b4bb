"""News of what was committed: it wakes who waits, and time alone does so too."""

from collections.abc import Iterator

import pytest

from broker.store.feed import Feed
from tests.simulation.timeless import VirtualLoop

PAUSE_S = 30.0


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def waited(loop: VirtualLoop, feed: Feed, *, told_after_s: float | None) -> tuple[float, set[str]]:
    """Wait for the news of a feed; return how long that took, and what there was to take."""
    changes, began_s = feed.subscribe(), loop.time()
    if told_after_s is not None:
        loop.call_later(told_after_s, feed.tell, {"teams/a/runs/b"})
    loop.run_until_complete(changes.wait_within(PAUSE_S))
    return loop.time() - began_s, set(changes.take())


def test_news_ends_a_wait_at_once(loop: VirtualLoop) -> None:
    assert waited(loop, Feed(), told_after_s=4.0) == (4.0, {"teams/a/runs/b"})


def test_without_news_a_wait_ends_after_its_pause(loop: VirtualLoop) -> None:
    assert waited(loop, Feed(), told_after_s=None) == (PAUSE_S, set())


def test_what_was_told_before_is_not_waited_for(loop: VirtualLoop) -> None:
    feed, began_s = Feed(), loop.time()
    changes = feed.subscribe()
    feed.tell({"teams/a/runs/b"})
    loop.run_until_complete(changes.wait_within(PAUSE_S))
    assert loop.time() == began_s


def test_a_pause_that_has_passed_is_no_news_for_the_next_wait(loop: VirtualLoop) -> None:
    changes, began_s = Feed().subscribe(), loop.time()
    for _ in range(2):
        loop.run_until_complete(changes.wait_within(PAUSE_S))
    assert loop.time() - began_s == 2 * PAUSE_S
