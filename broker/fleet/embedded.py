"""An embedded cluster: a process of this machine that its broker starts, and starts again.

The rule: one that was there before and does not start is an outage of its region; its store is
looked for and not made, for an empty one in the place of a disk that is not mounted would say that
nothing was ever started in it. Read ``EmbeddedLink.start``.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.fleet.fleet import Fleet, Work
from broker.fleet.places import Place
from broker.loops.outposts import Outpost
from regions.local.client import LocalCluster
from regions.local.config import WorldConfig
from regions.local.spawn import (
    ClusterDidNotStartError,
    ensure_running,
    has_lived,
    socket_of,
    was_killed,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedMember:
    """One embedded cluster, which keeps its state in ``directory``."""

    directory: Path
    world: WorldConfig
    store: Place
    needs_image: bool = False  # it runs what stands on this machine

    @property
    def cluster(self) -> str:
        """Its name."""
        return self.world.cluster

    @property
    def region(self) -> str:
        """Where it stands."""
        return self.world.region

    def connect(self) -> "EmbeddedLink":
        """Return the way to it."""
        return EmbeddedLink(self)


class EmbeddedLink:
    """The way to an embedded cluster."""

    works: tuple[tuple[str, Work], ...] = ()
    is_embedded = True

    def __init__(self, member: EmbeddedMember) -> None:
        self._member = member
        self.port = LocalCluster(
            cluster=member.cluster,
            region=member.region,
            socket=socket_of(member.directory),
            store=member.store.control(),
        )

    @property
    def outpost(self) -> Outpost:
        """The cluster behind its port."""
        port = self.port
        return Outpost(cluster=port.cluster, region=port.region, port=port, news=port)

    async def start(self, lifeline: int | None, *, is_known: bool = False) -> None:
        """Start it unless it answers; a new one's store is made.

        Raises ClusterDidNotStartError for one that never was. Whether it was, its own directory
        tells: stores of embedded clusters are there as long as they are.
        """
        member = self._member
        was_there = has_lived(member.directory)
        if not was_there:
            await asyncio.to_thread(_make, member.store, member.region)
        try:
            await ensure_running(self.port, member.directory, member.world, lifeline)
        except ClusterDidNotStartError as error:
            if not was_there:
                raise
            _log.error("going on without a cluster: %s", error)

    async def mend(self, lifeline: int | None) -> None:
        """Start it again if it was killed; its gangs ran on, and it finds them."""
        member = self._member
        if not was_killed(member.directory):
            return
        _log.warning("%s was killed; it is started again", member.cluster)
        try:
            await ensure_running(self.port, member.directory, member.world, lifeline)
        except ClusterDidNotStartError as error:
            _log.error("going on without a cluster: %s", error)

    async def close(self) -> None:
        """Nothing is held of it."""


def _make(store: Place, region: str) -> None:
    """Make the store of a new cluster, its directory too: it is of this machine, as the cluster."""
    if store.folder is not None:
        store.folder.mkdir(parents=True, exist_ok=True)
    store.mark(region)


def embedded(fleet: Fleet) -> Mapping[Path, LocalCluster]:
    """Return the port to each embedded cluster of a fleet, by its directory."""
    return {
        each.directory: each.connect().port
        for each in fleet.members
        if isinstance(each, EmbeddedMember)
    }
