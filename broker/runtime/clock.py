"""The clocks of the real world, and the broker's own time kept over restarts.

The rule: nobody else reads a clock or sleeps. Broker time (``Moment.elapsed_s``) is a sum of
monotonic deltas; over a downtime it grows by the kernel's boot clock when the machine stayed up,
and by the wall clock only when it did not. Read ``SystemClock`` first.
"""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from broker.model.moment import Moment

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """What loops and the ledger know of time."""

    def now(self) -> Moment:
        """Return the present moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait on the monotonic clock."""
        ...


class Readings(Protocol):
    """The machine's clocks, in seconds."""

    def monotonic_s(self) -> float:
        """Return a clock that only the running system moves."""
        ...

    def wall_s(self) -> float:
        """Return Unix time, which people and NTP may set."""
        ...

    def boot_s(self) -> float:
        """Return the time since the machine booted, its sleep included."""
        ...

    def boot_id(self) -> str:
        """Return which boot this is, empty when the system does not say."""
        ...


class MachineReadings:
    """The clocks of this machine."""

    def monotonic_s(self) -> float:
        """Return a clock that only the running system moves."""
        return time.monotonic()

    def wall_s(self) -> float:
        """Return Unix time, which people and NTP may set."""
        return time.time()

    def boot_s(self) -> float:
        """Return the time since the machine booted, its sleep included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def boot_id(self) -> str:
        """Return which boot this is, empty when the system does not say."""
        try:
            return BOOT_ID.read_text().strip()
        except OSError:
            return ""  # nothing to compare: a restart falls back to the wall clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockMark:
    """Where the clocks stood at the last write: broker, wall and boot time, in seconds."""

    elapsed_s: float
    wall_s: float
    boot_s: float
    boot_id: str


class SystemClock:
    """Broker time, continued from the mark of the last life.

    ``mark`` None begins at zero. A wall clock that steps while the broker runs moves no wait:
    only the monotonic clock is added.
    """

    def __init__(self, mark: ClockMark | None, readings: Readings) -> None:
        self._readings = readings
        self._boot_id = readings.boot_id()
        self._began_mono_s = readings.monotonic_s()
        self._began_elapsed_s = 0.0 if mark is None else mark.elapsed_s + self._downtime_s(mark)

    def now(self) -> Moment:
        """Return the present moment."""
        lived_s = self._readings.monotonic_s() - self._began_mono_s
        return Moment(elapsed_s=self._began_elapsed_s + lived_s, wall_s=self._readings.wall_s())

    def mark(self) -> ClockMark:
        """Return what the next life needs to go on from here."""
        now = self.now()
        return ClockMark(
            elapsed_s=now.elapsed_s,
            wall_s=now.wall_s,
            boot_s=self._readings.boot_s(),
            boot_id=self._boot_id,
        )

    async def sleep(self, seconds: float) -> None:
        """Wait on the monotonic clock."""
        await asyncio.sleep(seconds)

    def _downtime_s(self, mark: ClockMark) -> float:
        if mark.boot_id and mark.boot_id == self._boot_id:
            return max(0.0, self._readings.boot_s() - mark.boot_s)
        return max(0.0, self._readings.wall_s() - mark.wall_s)
