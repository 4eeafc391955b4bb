"""News of what was committed: for watchers of one stream, and for loops that want all changes.

The rule: news only makes things sooner. Whoever follows reads the log by version or position and
waits here in between, so nothing is missed or repeated whatever is dropped here.
Used on the event loop only. Read ``Feed.publish`` first.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from broker.history.events import Recorded


class Feed:
    """Wakes those who wait for a stream, and collects for each loop what changed."""

    def __init__(self) -> None:
        self._bells: dict[str, set[asyncio.Event]] = defaultdict(set)
        # In the order in which they came: who is woken first does not hang on where they lie.
        self._subscribers: dict[Changes, None] = {}

    def publish(self, recorded: Sequence[Recorded]) -> None:
        """Tell what was committed."""
        self.tell({one.stream for one in recorded})

    def tell(self, streams: set[str]) -> None:
        """Tell that streams are to be looked at."""
        for subscriber in self._subscribers:
            subscriber.add(streams)
        if self._bells:
            for stream in streams:
                for bell in self._bells.get(stream, ()):
                    bell.set()

    def subscribe(self) -> "Changes":
        """Return a collection of the streams that change from now on, for one taker."""
        changes = Changes()
        self._subscribers[changes] = None
        return changes

    def unsubscribe(self, changes: "Changes") -> None:
        """Collect no more for a taker that has gone."""
        self._subscribers.pop(changes, None)

    def watch(self, stream: str) -> "Watch":
        """Return a bell for one stream; use it as a context manager."""
        return Watch(self._bells, stream)


class Changes:
    """The streams that changed since they were last taken: at most one entry a stream."""

    def __init__(self) -> None:
        self._streams: set[str] = set()
        self._bell = asyncio.Event()

    def add(self, streams: set[str]) -> None:
        """Take note of changed streams."""
        if streams:
            self._streams |= streams
            self._bell.set()

    def take(self) -> frozenset[str]:
        """Return the streams that changed since the last call."""
        taken = frozenset(self._streams)
        self._streams.clear()
        self._bell.clear()
        return taken

    def __len__(self) -> int:
        return len(self._streams)

    async def wait(self) -> None:
        """Return as soon as there is something to take."""
        await self._bell.wait()

    async def wait_within(self, seconds: float) -> None:
        """Return as soon as there is something to take, at the latest after so many seconds."""
        if self._streams:
            return
        # One timer that rings the same bell: a timeout around the wait costs several times as much,
        # and every agent waits here after every tick.
        timer = asyncio.get_running_loop().call_later(seconds, self._bell.set)
        try:
            await self._bell.wait()
        finally:
            timer.cancel()
            if not self._streams:
                self._bell.clear()


class Watch:
    """A bell that rings when its stream changed since it was last waited for."""

    def __init__(self, bells: dict[str, set[asyncio.Event]], stream: str) -> None:
        self._bells = bells
        self._stream = stream
        self._bell = asyncio.Event()

    def __enter__(self) -> "Watch":
        self._bells[self._stream].add(self._bell)
        return self

    def __exit__(self, *_: object) -> None:
        bells = self._bells[self._stream]
        bells.discard(self._bell)
        if not bells:
            del self._bells[self._stream]

    async def wait(self) -> None:
        """Return when the stream changed since the last return."""
        await self._bell.wait()
        self._bell.clear()
