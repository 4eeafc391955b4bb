"""An event loop whose time passes only when nothing is left to do at the present moment.

The rule: no call waits for real. Production's own tasks, timeouts and pauses run on it unchanged,
in the same order for the same seed: first come, first served, also among those that are due at one
moment. It has no sockets, no threads and no signals, so that a turn costs what is done in it. What
a call raises is raised out of the loop: in a play nothing may be lost in a log. Read
``VirtualLoop.run_until_complete`` first.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from heapq import heappop, heappush
from typing import Any, TypeVar, TypeVarTuple, cast

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
BEGAN_S = 1_000.0
BEGAN_WALL_S = 1_700_000_000.0


class Call:
    """Something to be called once: ``asyncio.Handle`` without its debugging aids."""

    __slots__ = ("args", "callback", "context", "when_s")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[object, ...],
        context: contextvars.Context | None,
        when_s: float,
    ) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = contextvars.copy_context() if context is None else context
        self.when_s = when_s

    def cancel(self) -> None:
        """Do not call it."""
        self.callback = None

    def cancelled(self) -> bool:
        """Return whether it was called off."""
        return self.callback is None

    def when(self) -> float:
        """Return when it is due."""
        return self.when_s


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop on simulated seconds."""

    def __init__(self) -> None:
        self._is_running = False
        super().__init__()
        self._now_s = BEGAN_S
        self._soon: deque[Call] = deque()
        self._later: list[tuple[float, int, Call]] = []
        self._order = itertools.count()

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Run until it is done, and return what it returns."""
        task = asyncio.ensure_future(cast(Awaitable[T], future), loop=self)
        asyncio._set_running_loop(self)
        self._is_running = True
        try:
            while not task.done():
                self._turn()
        finally:
            self._is_running = False
            asyncio._set_running_loop(None)
        return task.result()

    def _turn(self) -> None:
        """Do what is ready; when nothing is, let the time come at which something will be."""
        ready, later = self._soon, self._later
        while later and later[0][2].callback is None:
            heappop(later)
        if not ready:
            if not later:
                raise RuntimeError("everybody waits, and nobody will ever wake them")
            self._now_s = max(self._now_s, later[0][0])
        while later and later[0][0] <= self._now_s:
            ready.append(heappop(later)[2])
        for _ in range(len(ready)):
            call = ready.popleft()
            if call.callback is not None:
                call.context.run(call.callback, *call.args)

    # ---- What tasks, futures and pauses ask of their loop ---------------------------------------

    def time(self) -> float:
        return self._now_s

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        call = Call(callback, args, context, self._now_s)
        self._soon.append(call)
        return cast(asyncio.Handle, call)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        call = Call(callback, args, context, when)
        heappush(self._later, (when, next(self._order), call))
        return cast(asyncio.TimerHandle, call)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        call = Call(callback, args, context, self._now_s + delay)
        heappush(self._later, (call.when_s, next(self._order), call))
        return cast(asyncio.TimerHandle, call)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise RuntimeError(context["message"]) from context.get("exception")

    get_debug = staticmethod(bool)  # never; each future and task asks

    def is_running(self) -> bool:
        return self._is_running

    def close(self) -> None:
        self._soon.clear()
        self._later.clear()
        super().close()


class WorldReadings:
    """The clocks of brokerd's machine over the loop's time; people may set its wall clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stepped_s = 0.0
        self._booted_s = BEGAN_S - 500.0
        self._boots = 1

    def monotonic_s(self) -> float:
        return self._loop.time() - self._booted_s

    def wall_s(self) -> float:
        return BEGAN_WALL_S + self._loop.time() - BEGAN_S + self._stepped_s

    def boot_s(self) -> float:
        return self._loop.time() - self._booted_s

    def boot_id(self) -> str:
        return f"boot-{self._boots}"

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._stepped_s += seconds

    def reboot(self) -> None:
        """Begin a new boot of the machine now."""
        self._booted_s = self._loop.time()
        self._boots += 1
