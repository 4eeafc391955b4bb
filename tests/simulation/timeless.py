"""An event loop whose time passes only when nothing is left to do at the present moment.

The rule: no call waits for real. Production's own tasks, timeouts and pauses run on it unchanged,
in the same order for the same seed. Read ``VirtualLoop`` first.
"""

from __future__ import annotations

import asyncio
import selectors

BEGAN_S = 1_000.0
BEGAN_WALL_S = 1_700_000_000.0


class _Leap(selectors.SelectSelector):
    """Never blocks: it moves the loop's clock by what it was asked to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = BEGAN_S

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits, and nobody will ever wake them")
        self.now_s += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on simulated seconds."""

    def __init__(self) -> None:
        self._leap = _Leap()
        super().__init__(self._leap)

    def time(self) -> float:
        return self._leap.now_s


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
