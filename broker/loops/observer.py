"""The observer: looks at one cluster, keeps what it saw, and tells the log the facts.

The rule: a look that failed says nothing but that it failed, and since when. Only what changed is
looked through. Read ``Observer.tick`` first.
"""

import asyncio

from broker.loops.desk import Clock, Desk, NewerIncarnationError
from broker.loops.outposts import Outpost
from broker.loops.reporting import reports
from broker.loops.roster import Roster
from broker.loops.sight import Sight
from regions.cluster import ClusterObservation, ClusterUnreachableError

LOOK_WITHIN_S = 20.0  # the port has a deadline of its own; this one is for a port that hangs


class Observer:
    """Looks at one cluster."""

    def __init__(
        self, *, outpost: Outpost, desk: Desk, roster: Roster, sight: Sight, clock: Clock
    ) -> None:
        self._outpost = outpost
        self._desk = desk
        self._roster = roster
        self._sight = sight
        self._clock = clock
        self.changes = desk.log.feed.subscribe()

    async def tick(self) -> None:
        """Look once. Raises NewerIncarnationError when a newer life of the broker was there."""
        self._roster.refresh()
        observation = await self._look()
        # What the log changed meanwhile is looked through too: it may explain what was seen.
        self._roster.refresh()
        here = self._roster.on_cluster(self._outpost.cluster)
        names = here & self.changes.take()
        if observation is None or observation.changed is None:
            names = here
        else:
            names |= here & self._roster.concerned(observation.changed)
        if observation is not None:
            if observation.foreign_incarnation is not None:
                raise NewerIncarnationError(
                    f"{observation.region}: a newer broker, number "
                    f"{observation.foreign_incarnation}, works on this data"
                )
            self._sight.saw(observation, self._clock.now(), names)
        failed = await self._desk.for_each(sorted(names), self._tell)
        # What failed is tried again at the next look.
        self.changes.add(set(failed))

    async def _look(self) -> ClusterObservation | None:
        cluster = self._outpost.cluster
        try:
            async with asyncio.timeout(LOOK_WITHIN_S):
                return await self._outpost.port.observe()
        except ClusterUnreachableError as error:
            store = error.observation
        except TimeoutError:
            store = None
        self._sight.heard_nothing(
            cluster, store, self._clock.now(), self._roster.on_cluster(cluster)
        )
        return None

    async def _tell(self, name: str) -> None:
        run = self._desk.log.run(name)
        if run is None:
            return
        cluster = self._outpost.cluster
        told = reports(run, cluster, self._sight.cluster(cluster), self._clock.now())
        for command in told:
            await self._desk.tell(name, command)
