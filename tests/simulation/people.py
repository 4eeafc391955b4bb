"""What only a person can say: go on without a gang, or with another disk.

The rule: they look at what the broker shows, and mostly say what it tells them to. Now and then one
gives up a gang that can be reached. Read ``People.work`` first.
"""

from __future__ import annotations

import asyncio
import random

from broker.history.commands import AcceptStore, ReplaceEpoch
from broker.model.run import Run
from tests.simulation.stage import Stage
from tests.simulation.users import Users


class People:
    """Those who are on call, until the play is over."""

    def __init__(self, stage: Stage, users: Users) -> None:
        self._stage = stage
        self._users = users
        self._chance: random.Random = stage.dice("people")
        self._is_calm = False

    async def work(self) -> None:
        """Look from time to time, and say what is to be said."""
        while True:
            await asyncio.sleep(self._chance.uniform(10.0, 60.0))
            await self._replace_some()
            for region in self._stage.in_doubt():
                if self._is_calm or self._chance.random() < 0.1:
                    await self._accept(region)

    def take_what_is_there(self) -> None:
        """From now on nothing is coming back: accept every disk that stands in another's place."""
        self._is_calm = True

    async def _replace_some(self) -> None:
        for run in self._open_runs():
            epoch = run.open_epoch
            assert epoch is not None
            place = self._stage.places[epoch.region]
            is_out = place.is_silent or place.is_store_down or place.weather.is_store_cut
            if self._chance.random() < (0.15 if is_out else 0.0 if self._is_calm else 0.003):
                await self._replace(run)

    async def _accept(self, region: str) -> None:
        """Give up every start there, then take the disk; what is refused is said again later."""
        for run in self._open_runs():
            if run.open_epoch is not None and run.open_epoch.region == region:
                await self._replace(run)
        if await self._users.tell(f"regions/{region}", AcceptStore()):
            self._stage.witness.counts["disks accepted"] += 1

    async def _replace(self, run: Run) -> None:
        epoch = run.open_epoch
        assert epoch is not None
        self._stage.witness.counts["starts replaced"] += 1
        message = "nobody answers there, and it cannot wait"
        await self._users.tell(run.name, ReplaceEpoch(epoch=epoch.id, by="ada", message=message))

    def _open_runs(self) -> list[Run]:
        life = self._stage.life
        if life is None or life.log is None or life.is_dead or life.is_former:
            return []
        runs = life.log.live_runs()
        return [runs[name] for name in sorted(runs) if runs[name].open_epoch is not None]
