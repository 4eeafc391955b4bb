"""What people ask of the agents: where would it go, what was written, how far is each region.

The rule: answers read the log and what was last seen, and change nothing; only a fault, which a
person asks for by name, is carried out. Read ``Answers`` first.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from broker.history.refusals import Code, Refused
from broker.loops import faulting
from broker.loops.carrier import Carrier
from broker.loops.carrying import newest_first
from broker.loops.content import Content, ContentError, path_of
from broker.loops.courier import Courier
from broker.loops.image_book import ImageBook
from broker.loops.outposts import Outpost, Outposts
from broker.loops.sight import Sight
from broker.loops.telling import capacity_of, kept_of, word_of
from broker.model.capacity import ClusterFacts
from broker.model.capacity_seen import CapacitySeen, ClusterWord
from broker.model.checkpoint import Checkpoint, CheckpointRef
from broker.model.copying import CopyKind
from broker.model.faults import Fault
from broker.model.image import ImageOnItsWay, RegionRegistry
from broker.model.intent import Intent
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Placement, Progress, Run
from broker.model.sightings import CheckpointFile, Orphan, Replica
from broker.placement.content import source_of
from broker.placement.explain import Explanation, explain
from broker.placement.nearest import NeverFits, never_fits
from broker.placement.view import View
from regions.cluster import ClusterUnreachableError, NoSuchLogError
from replicator.checkpoint.lag import KnownCheckpoint, Lag, RunCopies, lag
from replicator.checkpoint.paths import CheckpointPath
from replicator.checkpoint.verify import read_replica
from replicator.errors import Changed, NotFound
from replicator.stores.port import ContentStore


class Strangers:
    """What was last seen in clusters that belongs to no run: the reaper writes, people read."""

    def __init__(self) -> None:
        self.by_cluster: dict[str, tuple[Orphan, ...]] = {}


class Answers:
    """Answers from one broker's agents."""

    def __init__(
        self,
        *,
        run: Callable[[str], Run | None],
        outposts: Outposts,
        sight: Sight,
        view: View,
        content: Content,
        strangers: Strangers,
        locations: Mapping[str, str],
        book: ImageBook | None,
        courier: Courier | None,
        carrier: Carrier,
    ) -> None:
        """Make it; ``locations`` are where the regions' stores are: absolute paths, or ``gs://``.

        ``book`` is of the registries that are configured, None: there is none, and no ``courier``.
        """
        self._run = run
        self._outposts = outposts
        self._sight = sight
        self._view = view
        self._content = content
        self._strangers = strangers
        self._locations = locations
        self._book = book
        self._courier = courier
        self._carrier = carrier

    def regions(self) -> tuple[str, ...]:
        """Return the ids of all regions the broker was told of, or has gangs in, sorted."""
        return tuple(sorted({*self._outposts.regions, *(one.region for one in self._missed())}))

    def clusters(self, region: str) -> tuple[ClusterFacts, ...]:
        """Return what is known of a region's clusters, those no longer configured last."""
        known = (self._sight.cluster(one.cluster).facts for one in self._outposts.of_region(region))
        return (*known, *(one for one in self._missed() if one.region == region))

    def orphans(self, region: str) -> tuple[Orphan, ...]:
        """Return what looks like ours in a region and belongs to no run."""
        return tuple(
            orphan
            for outpost in self._outposts.of_region(region)
            for orphan in self._strangers.by_cluster.get(outpost.cluster, ())
        )

    def store(self, region: str) -> str:
        """Return where a region's store is, empty where nobody said."""
        return self._locations.get(region, "")

    def registry(self, region: str) -> RegionRegistry | None:
        """Return where a region's clusters pull images from, None where nobody said."""
        shelf = None if self._book is None else self._book.shelf_of(region)
        if shelf is None:
            return None
        return RegionRegistry(
            prefix=str(shelf.prefix),
            login=shelf.login,
            upload=shelf.upload,
            pull_bytes_per_s=shelf.pull_bytes_per_s,
        )

    def images_on_their_way(self, region: str) -> tuple[ImageOnItsWay, ...]:
        """Return the images that are being copied to a region's registry."""
        return () if self._courier is None else self._courier.on_their_way(region)

    def capacity(self, cluster: str) -> CapacitySeen:
        """Return what is known of a cluster's capacity beside its figures."""
        return capacity_of(self._sight.cluster(cluster))

    def word(self, placement: Placement) -> ClusterWord | None:
        """Return what a placement's cluster says of it, None where it says no more than why."""
        return word_of(self._sight.cluster(placement.site.key.cluster).placement(placement.id))

    def explain(self, run: Run, now: Moment) -> Explanation:
        """Return all offers and refusals for a run, submitted or not."""
        return explain(self._view, run, now)

    def never_fits(self, intent: Intent) -> NeverFits | None:
        """Return why no place could ever take an intent, None when one could or it is unknown."""
        return never_fits(self._view, intent, intent.terms)

    def progress(self, run: str) -> Progress | None:
        """Return the last believed report of a run's open epoch, logged or not."""
        found = self._run(run)
        return None if found is None else self._sight.progress(found)

    async def tail(
        self, run: Run, placement: str, rank: int, *, offset: int, follow: bool
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """Yield (offset after, bytes) of what one rank wrote; refused where it cannot be read."""
        outpost = self._outpost(run.placements[placement].site.key.cluster)
        try:
            async for after, chunk in outpost.port.logs(placement, rank, offset, follow):
                yield after, chunk
        except ClusterUnreachableError as error:
            raise _unavailable(Reason.CLUSTER_UNREACHABLE, str(error)) from error
        except NoSuchLogError as error:
            kept = kept_of(run.placements[placement])
            if kept and offset <= 0:
                yield len(kept), kept
                return
            is_live = run.placements[placement].is_live
            why = "nothing was written yet" if is_live else "what it wrote is no longer kept"
            raise Refused(
                reason=Reason.NOT_FOUND, message=f"{why}: {error}", code=Code.NOT_FOUND
            ) from error

    def replicas(self, run: Run) -> tuple[Replica, ...]:
        """Return how far each region is behind the run's newest complete checkpoint."""
        known = newest_first(run)
        paths = {path_of(run.uid, one.ref): one for one in known}
        newest = next(iter(paths), None)
        coming = {region: self._coming(region, paths) for region in self._outposts.regions}
        # What is on its way of an older step brings the region no nearer to the newest.
        copied = {
            region: found[1]
            for region, found in coming.items()
            if found is not None and found[0] == newest
        }
        lags = lag(
            RunCopies(
                started_s=run.created.wall_s,
                checkpoints=[
                    KnownCheckpoint(
                        path=path, size_bytes=one.size_bytes, completed_s=one.written_wall_s
                    )
                    for path, one in paths.items()
                ],
                present={
                    region: {path for path, one in paths.items() if region in one.regions}
                    for region in self._outposts.regions
                },
                copied_bytes=copied,
            )
        )
        spends = {one.region: one for one in run.copy_spends}
        held_up = self._carrier.held_up(run.name)
        return tuple(
            replace(
                self._replica(region, found, paths, coming[region]),
                spend=spends.get(region),
                message=held_up.get(region, ""),
            )
            for region, found in lags.items()
        )

    async def local_path(self, run: Run, ref: CheckpointRef, region: str) -> str | None:
        """Return the folder of a checkpoint on this machine, None when no store is one."""
        path = path_of(run.uid, ref)
        for place in self._having(run, ref, region):
            location = self._locations.get(place, "")
            if location.startswith("/"):
                return str(Path(location) / path.prefix)
        return None

    async def fetch(
        self, run: Run, ref: CheckpointRef, region: str
    ) -> AsyncGenerator[CheckpointFile | bytes, None]:
        """Yield each file of a checkpoint and then its bytes, verified as they are read.

        Refused when no store that holds it answers, or when what it holds does not match.
        """
        path = path_of(run.uid, ref)
        why = "no region holds it"
        for place in self._having(run, ref, region):
            store = self._content.stores[place]
            try:
                replica = await asyncio.to_thread(read_replica, store, path)
            except ContentError as error:
                why = str(error)
                continue
            if replica is None or replica.manifest.digest != ref.digest:
                why = f"what stands in {place} is not what was sealed"
                continue
            for file in replica.manifest.files:
                yield CheckpointFile(path=file.name, size_bytes=file.size_bytes, sha256=file.sha256)
                async for chunk in _read(store, path.prefix + file.name):
                    yield chunk
            return
        raise _unavailable(Reason.STORE_UNREACHABLE, f"step {ref.step} cannot be fetched: {why}")

    async def inject(self, region: str, fault: Fault) -> str:
        """Let something go wrong in a region's embedded clusters; return what was done."""
        done = []
        for outpost in self._outposts.of_region(region):
            try:
                done.append(await faulting.inject(outpost, self._sight, fault))
            except ClusterUnreachableError as error:
                raise _unavailable(Reason.CLUSTER_UNREACHABLE, str(error)) from error
        return "; ".join(done)

    def _missed(self) -> Iterator[ClusterFacts]:
        return (facts for facts in self._view.clusters.values() if not facts.is_configured)

    def _coming(
        self, region: str, paths: dict[CheckpointPath, Checkpoint]
    ) -> tuple[CheckpointPath, int] | None:
        """Return which checkpoint is on its way to a region, and how many bytes of it are there."""
        for path in paths:
            done_bytes = self._content.copied_bytes(region, path)
            if done_bytes is not None:
                return path, done_bytes
        return None

    def _replica(
        self,
        region: str,
        found: Lag,
        paths: dict[CheckpointPath, Checkpoint],
        coming: tuple[CheckpointPath, int] | None,
    ) -> Replica:
        return Replica(
            region=region,
            step=None if found.newest is None else found.newest.step,
            behind_steps=found.steps_behind,
            behind_bytes=found.bytes_behind,
            behind_s=found.seconds_behind,
            copying_step=None if coming is None else coming[0].step,
            copied_bytes=0 if coming is None else coming[1],
            copying_bytes=0 if coming is None else paths[coming[0]].size_bytes,
            copy_bytes_per_s=self._rate(region, paths, None if coming is None else coming[0]),
            is_reachable=any(facts.is_store_reachable for facts in self.clusters(region)),
        )

    def _rate(
        self, region: str, paths: dict[CheckpointPath, Checkpoint], coming: CheckpointPath | None
    ) -> float | None:
        """Return how fast what comes into a region comes, or would if it lacks the newest."""
        path = coming or next(iter(paths), None)
        source = "" if path is None else source_of(paths[path])
        return self._view.rates.foreseen(CopyKind.CHECKPOINT, source, region)

    def _having(self, run: Run, ref: CheckpointRef, region: str) -> Iterator[str]:
        one = next((c for c in run.checkpoints if c.ref == ref), None)
        places = sorted(one.regions, key=lambda place: place != one.home) if one else []
        return (p for p in places if region in ("", p) and p in self._content.stores)

    def _outpost(self, cluster: str) -> Outpost:
        found = self._outposts.get(cluster)
        if found is None:
            raise _unavailable(
                Reason.CLUSTER_UNREACHABLE, f"{cluster} is not among the configured clusters"
            )
        return found


async def _read(store: ContentStore, name: str) -> AsyncGenerator[bytes, None]:
    """Yield a file's bytes; each read runs in a thread, one at a time."""
    try:
        entry = await asyncio.to_thread(store.stat, name)
        if entry is None:
            raise NotFound(name, "it is not there any more")
        with closing(store.read(name, entry.generation)) as chunks:
            while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
                yield chunk
    except (Changed, NotFound) as error:
        raise Refused(
            reason=Reason.COPY_NOT_VERIFIED, message=str(error), code=Code.DATA_LOSS
        ) from error
    except ContentError as error:
        raise _unavailable(Reason.STORE_UNREACHABLE, str(error)) from error


def _unavailable(reason: Reason, message: str) -> Refused:
    return Refused(reason=reason, message=message, code=Code.UNAVAILABLE)
