"""The machine's clocks, moved by hand: for the production clock to read in tests.

The rule it keeps: nothing moves but what a test moves. Read ``HandReadings`` first.
"""

from __future__ import annotations


class HandReadings:
    """Clocks that stand still until they are told."""

    def __init__(self) -> None:
        self._monotonic_s = 5_000.0
        self._wall_s = 1_700_000_000.0
        self._boot_s = 9_000.0
        self._boots = 1

    def monotonic_s(self) -> float:
        """Return the monotonic clock, which begins anew with every boot."""
        return self._monotonic_s

    def wall_s(self) -> float:
        """Return Unix time."""
        return self._wall_s

    def boot_s(self) -> float:
        """Return the time since the boot."""
        return self._boot_s

    def boot_id(self) -> str:
        """Return which boot this is."""
        return f"boot-{self._boots}"

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._monotonic_s += seconds
        self._wall_s += seconds
        self._boot_s += seconds

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._wall_s += seconds

    def reboot(self, seconds: float) -> None:
        """Turn the machine off, and on again after some seconds."""
        self._wall_s += seconds
        self._monotonic_s = self._boot_s = 10.0
        self._boots += 1
