"""The port of a real cluster, for a suite that was written for clusters that decide at once.

The rule: what a cluster decided is not touched; only what the suite leaves out is added to its
orders, and it looks on a moment later. Read ``PinnedCluster``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

from regions.cluster import Action, ClusterObservation, Manifest, Outcome, Queue
from regions.kueue.cluster import KueueCluster
from regions.kueue.orders import AGAIN_S, GOING

IMAGE = "registry.invalid/trainer@sha256:" + "0" * 64
MOST_TRIES = 10


class PinnedCluster:
    """The port, for a suite whose gangs name neither image nor capacity type, and that looks right
    after it acted.

    The embedded cluster needs neither, and decides at once; a real one is given the time to have
    looked at what it was sent, and to see a gang's processes go before its name is taken: it is
    asked again, as its broker does. What it decided is not touched.
    """

    def __init__(
        self, port: KueueCluster, capacity_type: str, settle: Callable[[str], Awaitable[None]]
    ) -> None:
        self._port = port
        self._capacity_type = capacity_type
        self._settle = settle

    async def observe(self) -> ClusterObservation:
        return await self._port.observe()

    async def apply(self, actions: tuple[Action, ...]) -> tuple[Outcome, ...]:
        outcomes = await self._port.apply(
            tuple(
                replace(each, image=each.image or IMAGE, capacity_type=self._capacity_type)
                if isinstance(each, Queue)
                else each
                for each in actions
            )
        )
        found: list[Outcome] = []
        for action, outcome in zip(actions, outcomes, strict=True):
            if isinstance(action, Queue) and outcome.is_done:
                await self._settle(action.placement)
            found.append(await self._once_gone(action) if outcome == GOING else outcome)
        return tuple(found)

    async def _once_gone(self, withdrawal: Action) -> Outcome:
        for _ in range(MOST_TRIES):
            await asyncio.sleep(AGAIN_S)
            (outcome,) = await self._port.apply((withdrawal,))
            if outcome != GOING:
                return outcome
        return GOING

    def manifest(self, order: Queue) -> Manifest:
        return self._port.manifest(order)

    def logs(
        self, placement: str, rank: int, offset: int, follow: bool
    ) -> AsyncIterator[tuple[int, bytes]]:
        return self._port.logs(placement, rank, offset, follow)
