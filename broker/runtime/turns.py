"""Long work on the event loop, done in turns, so that calls are answered in between.

The rule: turns are counted and not timed, so that the same work takes the same turns every time.
Read ``Turns.pass_on`` first.
"""

import asyncio


class Turns:
    """One piece of work's turns: everybody else has one after every ``length`` steps of it."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._steps = 0

    async def pass_on(self) -> None:
        """Count a step; after a turn's worth let whatever else is ready go first."""
        self._steps += 1
        if self._steps >= self._length:
            self._steps = 0
            await asyncio.sleep(0)
