"""A clock that stands still until it is told otherwise, and never lets anybody wait."""

import asyncio


class StepClock:
    """Pauses pass at once, and are remembered."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.pauses: list[float] = []

    def monotonic_s(self) -> float:
        return self.now_s

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)
