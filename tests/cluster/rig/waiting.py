"""Waiting for a condition, with a bound and a name for what did not come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")
LOOK_EVERY_S = 0.1


def wait_until(
    look: Callable[[], Seen], within_s: float, what: str, *, every_s: float = LOOK_EVERY_S
) -> Seen:
    """Call ``look`` until it returns something true, and return that.

    Raises TimeoutError that names ``what`` and what was seen last.
    """
    deadline = time.monotonic() + within_s
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise TimeoutError(f"no sign of {what} within {within_s:.0f} s; seen last: {seen!r}")
        time.sleep(every_s)
