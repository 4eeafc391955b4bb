"""Ctrl-C, SIGTERM and a closed terminal: each asks the demo to end in order.

The rule: nothing is raised where a signal happens to arrive. The first one cancels the telling; all
that come later change nothing, so that an impatient hand cannot stop the clean-up. Read
``Interrupts.hear`` first.
"""

import asyncio
import signal
import types
from collections.abc import Callable, Coroutine

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Whether somebody asked for the end, and what is cancelled by it."""

    def __init__(self) -> None:
        self.came = False
        self._cancel: Callable[[], object] | None = None

    def listen(self) -> None:
        """Hear the signals from here on, to the end of the process."""
        for number in SIGNALS:
            signal.signal(number, self.hear)

    def hear(self, number: int, frame: types.FrameType | None) -> None:
        """Cancel what runs, the first time."""
        del number, frame
        if not self.came and self._cancel is not None:
            self._cancel()
        self.came = True

    def run(self, work: Coroutine[object, object, object]) -> bool:
        """Run it to its end; returns False when it was cancelled by a signal."""
        try:
            asyncio.run(self._cancellable(work))
        except asyncio.CancelledError:
            return False
        return True

    async def _cancellable(self, work: Coroutine[object, object, object]) -> None:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if self.came:
            task.cancel()
        try:
            await task
        finally:
            self._cancel = None
