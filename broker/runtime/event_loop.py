"""The event loop that brokerd runs on, and how its memory is looked through.

The rule: both are chosen once, here, for the whole process; nothing else knows which loop it is.
libuv's loop takes a fifth of the time off a bare call, for what asyncio does in Python it does in
C. Read ``run`` first.
"""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")
# New objects, and rounds of them, before the collector looks. Nearly all of a call is freed by its
# count of references; what stays is the state of runs, which lives for days and holds no cycles,
# and with Python's own 700 a busy broker spent a tenth of its time on looking through it.
YOUNG, ROUNDS, OLD_ROUNDS = 50_000, 20, 20


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end as the process's main work; return what it returns."""
    gc.freeze()  # what is loaded by now stays to the end
    gc.set_threshold(YOUNG, ROUNDS, OLD_ROUNDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
