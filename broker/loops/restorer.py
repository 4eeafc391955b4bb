"""The restorer: says in every store which life of the broker this is, and after a restore reads all
of them before the first grant.

The rule: R1 to R3 of the start protocol. A region counts as read when its clusters and its store
were seen whole and every run that the store knows was joined with the log; until all are, or were
waived by name, nothing is granted. What no run of the log owns is left. Read ``Restorer.tick``.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol, TypeVar

from broker.history.commands import (
    ClaimStore,
    DoubtStore,
    RecordCopy,
    RecordLostCopy,
    RecordSurvey,
    WarnRun,
)
from broker.history.regional import StoreDoubt, unseen_regions
from broker.loops.content import Content, ContentError, path_of
from broker.loops.desk import Clock, Desk, NewerIncarnationError
from broker.loops.off_loop import OffLoop
from broker.loops.outposts import Outposts
from broker.loops.restoring import Place, own_seals, settled, site_of, taken_over
from broker.loops.sight import ClusterSight, Sight
from broker.loops.translate import machines_of
from broker.loops.trust import Sound, Superseded, Trust, Unclaimed, life_name
from broker.model.bill import NodesFrom
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.store.listing import RunPage, RunQuery
from regions import gatehouse
from regions.gatehouse import Closed, RunInStore
from regions.launcher import layout, restore
from regions.launcher.store import Store, StoreError

T = TypeVar("T")

PAGE = 500
STORE_WITHIN_S = 30.0
ROUNDS = 3  # revoke, look again, ask again: a second round finds who won
REVOKED_BY = "restored broker"
BROKER_STREAM = "broker"

_log = logging.getLogger(__name__)


class Archive(Protocol):
    """What the restorer needs of the ledger beside the usual."""

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Return one page of run names."""
        ...


class Restorer:
    """Watches over the broker's life."""

    def __init__(
        self,
        *,
        desk: Desk,
        archive: Archive,
        outposts: Outposts,
        sight: Sight,
        content: Content,
        controls: Mapping[str, Store],
        trust: Trust,
        draw_name: Callable[[], str],
        off_loop: OffLoop,
        clock: Clock,
    ) -> None:
        """Make a restorer; ``controls`` are the regions' stores of the start protocol.

        ``draw_name`` returns what to call a store that no broker has named.
        """
        self._desk = desk
        self._archive = archive
        self._outposts = outposts
        self._sight = sight
        self._content = content
        self._controls = controls
        self._trust = trust
        self._draw_name = draw_name
        self._clock = clock
        self._off_loop = off_loop
        self._claimed: set[str] = set()
        self._tops: dict[str, int] = {}
        self._joined: set[str] = set()
        self._unread: dict[str, tuple[str, ...]] = {}

    async def tick(self) -> None:
        """Claim the stores, and survey what a restored broker has not seen.

        Raises NewerIncarnationError when a store shows a newer life of this data.
        """
        for region in sorted(self._controls):
            await self._ask_who_it_is(region)
        broker = self._desk.log.broker()
        if broker.is_restored and self._unseen():
            await self._survey()

    @property
    def is_done(self) -> bool:
        """Whether every store was claimed and nothing is left to be surveyed."""
        return not (self._controls.keys() - self._claimed) and not self._unseen()

    def _unseen(self) -> frozenset[str]:
        regions = self._outposts.regions
        log = self._desk.log
        return unseen_regions(log.broker(), {r: log.region(r) for r in regions}, regions)

    async def _ask_who_it_is(self, region: str) -> None:
        """Claim a store that is nobody's, and say of one that is not ours why it is out of use."""
        store, known = self._controls[region], self._trust.known(region)
        try:
            claims = await self._call(lambda: gatehouse.read_claims(store))
        except (StoreError, TimeoutError):
            return  # asked again at the next tick; a store that is silent starts nothing either
        match self._trust.judge(known, claims):
            case Sound():
                # Said again where it was in doubt: the right one is back.
                await self._desk.tell(f"regions/{region}", ClaimStore(store=claims.identity))
                self._claimed.add(region)
            case Unclaimed():
                await self._claim(region)
            case StoreDoubt() as doubt:
                self._claimed.discard(region)
                await self._doubt(region, doubt)
            case Superseded() as other:
                raise NewerIncarnationError(other.message)

    async def _claim(self, region: str) -> None:
        store, broker, name = self._controls[region], self._desk.log.broker(), self._draw_name()
        try:
            identity = await self._call(lambda: gatehouse.claim_identity(store, name))
            is_known = await self._desk.tell(f"regions/{region}", ClaimStore(store=identity))
            if not is_known:
                return
            life = life_name(broker, identity)
            is_ours = await self._call(
                lambda: gatehouse.claim_incarnation(store, broker.incarnation, life)
            )
        except (StoreError, TimeoutError):
            return
        if is_ours:
            self._claimed.add(region)
            # Where a person put another store in the place of a lost one, its copies are lost too.
            for run in tuple(self._desk.log.live_runs().values()):
                if any(region in checkpoint.regions for checkpoint in run.checkpoints):
                    await self._look_for_copies(run.name, (region,))

    async def _doubt(self, region: str, doubt: StoreDoubt) -> None:
        """Say in the log, and to every run that has something there, that the store is not ours."""
        if self._desk.log.region(region).doubt == doubt:
            return
        _log.error("%s: %s", region, doubt.message)
        command = DoubtStore(reason=doubt.reason, message=doubt.message)
        await self._desk.tell(f"regions/{region}", command)
        for run in tuple(self._desk.log.live_runs().values()):
            epoch = run.open_epoch
            is_here = epoch is not None and epoch.region == region
            if is_here or any(region in checkpoint.regions for checkpoint in run.checkpoints):
                await self._desk.tell(run.name, WarnRun(reason=doubt.reason, message=doubt.message))

    async def _call(self, call: Callable[[], T]) -> T:
        async with asyncio.timeout(STORE_WITHIN_S):
            return await self._off_loop(call)

    # ---- The survey -----------------------------------------------------------------------------

    async def _survey(self) -> None:
        """Read every region that was not waived; join all runs; then say that it was done."""
        waived = frozenset(self._outposts.regions) - self._wanted()
        readable = [region for region in sorted(self._wanted()) if self._is_whole(region)]
        missing = self._wanted() - set(readable)
        if missing:
            _log.info("after the restore, still to be seen: %s", ", ".join(sorted(missing)))
            return
        try:
            keys = await self._run_keys(readable)
            names = [run.name for run in await self._known(keys)]
            self._joined = set()
            # One run that cannot be joined is loud, and holds up the grants of all (R1).
            await self._desk.for_each(names, lambda name: self._join(name, readable))
            if len(self._joined) < len(names):
                return
        except (StoreError, TimeoutError) as error:
            _log.info("after the restore a store cannot be read: %s", error)
            return
        _log.info("surveyed %s; waived: %s", readable, sorted(waived))
        for region in readable:
            await self._desk.tell(BROKER_STREAM, RecordSurvey(region=region))

    def _wanted(self) -> frozenset[str]:
        """The regions that nobody waived, surveyed or not: a look joins all stores at once."""
        broker, log = self._desk.log.broker(), self._desk.log
        return frozenset(
            region
            for region in self._outposts.regions
            if log.region(region).waived_incarnation != broker.incarnation
        )

    def _is_whole(self, region: str) -> bool:
        sights = [self._sight.cluster(o.cluster) for o in self._outposts.of_region(region)]
        return region in self._claimed and all(s.is_whole for s in sights)

    async def _run_keys(self, regions: list[str]) -> frozenset[str]:
        found: set[str] = set()
        for region in regions:
            store = self._controls[region]
            names = await self._call(partial(store.list, "runs/"))
            found |= {name.rstrip("/") for name in names}
        return frozenset(found)

    async def _known(self, keys: frozenset[str]) -> list[Run]:
        """Return the runs of the log, ended ones too, of which a store has something."""
        runs: list[Run] = []
        query = RunQuery(page_size=PAGE)
        while True:
            page = await self._archive.list_runs(query)
            some = (self._desk.log.run(name) for name in page.names)
            runs += [run for run in some if run is not None and run.uid in keys]
            if page.next_after is None:
                return runs
            query = RunQuery(page_size=PAGE, after=page.next_after)

    async def _join(self, name: str, regions: list[str]) -> None:
        """Join one run with the stores, unless something of it cannot be read yet."""
        run = self._desk.log.run(name)
        if run is None:
            return
        for _ in range(ROUNDS):
            looks = {region: await self._look(region, run.uid) for region in regions}
            seen = tuple(looks[region].as_seen(region) for region in regions)
            last = run.next_epoch - 1
            # Taken once: what the revocations leave behind are traces too.
            top = self._tops.setdefault(
                run.uid, restore.top_number(last, seen, restore.DEFAULT_MARGIN)
            )
            found = restore.adopt(
                last, top, own_seals(run), seen, frozenset(), settled=settled(run)
            )
            match found:
                case restore.NotSeen():
                    await self._say_unread(name, found.names)
                    return
                case restore.Revocations():
                    for region, number in found.targets:
                        await self._revoke(region, run.uid, number)
                case restore.Adopted():
                    self._unread.pop(name, None)
                    if await self._take_over(run, found, looks):
                        self._joined.add(name)
                    return

    async def _say_unread(self, name: str, records: tuple[str, ...]) -> None:
        """Say once which records of a run keep every run from its next start."""
        if self._unread.get(name) == records:
            return
        message = (
            "nothing starts anywhere since the restore, because a record of this run cannot be"
            f" read: {', '.join(records)}; mend it, or waive its region"
        )
        _log.warning("%s: %s", name, message)
        if await self._desk.tell(
            name, WarnRun(reason=Reason.NOT_SEEN_SINCE_RESTORE, message=message)
        ):
            self._unread[name] = records

    async def _look(self, region: str, run_key: str) -> RunInStore:
        store, now_s = self._controls[region], self._clock.now().elapsed_s
        return await self._call(lambda: gatehouse.read_run(store, run_key, None, Closed(), now_s))

    async def _revoke(self, region: str, run_key: str, number: int) -> None:
        store = self._controls[region]
        await self._call(lambda: gatehouse.revoke(store, run_key, number, REVOKED_BY))

    async def _take_over(
        self, run: Run, found: restore.Adopted, looks: Mapping[str, RunInStore]
    ) -> bool:
        grants = {
            placement.grant.epoch: placement.grant
            for look in looks.values()
            for placement in look.placements.values()
            if isinstance(placement.grant, layout.Grant)
        }
        places = {one.placement: self._place(run, one) for one in (*found.over, *found.open)}
        told = taken_over(run, found, grants, places, self._clock.now())
        is_told = await self._desk.tell(run.name, *told)
        await self._look_for_copies(run.name, looks)
        return is_told

    def _place(self, run: Run, found: restore.FoundEpoch) -> Place:
        outposts = self._outposts.of_region(found.region)
        for outpost in outposts:
            sight = self._sight.cluster(outpost.cluster)
            seen = sight.placement(found.placement)
            if seen is not None or outpost == outposts[-1]:
                site = site_of(
                    run,
                    found.placement,
                    len(found.nonces),
                    cluster=outpost.cluster,
                    region=found.region,
                    seen=seen,
                    flavors=sight.facts.flavors,
                )
                return Place(site=site, nodes=_nodes(run, found.placement, sight))
        raise ValueError(f"{found.region} has no cluster")

    async def _look_for_copies(self, name: str, regions: Iterable[str]) -> None:
        """Write down which of a run's checkpoints these regions' stores hold, and which not.

        The log may be older than a copy: what it does not know of is found before anything is said
        to be lost.
        """
        run = self._desk.log.run(name)
        if run is None:
            return
        kind = run.intent.workload.checkpoint.format
        stores = sorted(frozenset(regions) & self._content.stores.keys())
        for checkpoint in run.checkpoints:
            ref, lost = checkpoint.ref, list[RecordLostCopy]()
            for region in stores:
                path = path_of(run.uid, ref)
                try:
                    is_sound = await self._content.is_sound_now(region, path, ref.digest, kind)
                except ContentError:
                    continue
                if is_sound:
                    await self._desk.tell(name, RecordCopy(ref=ref, region=region))
                else:
                    message = f"step {ref.step} is no longer in {region}"
                    lost.append(RecordLostCopy(ref=ref, region=region, message=message))
            await self._desk.tell(name, *lost)


def _nodes(run: Run, placement: str, sight: ClusterSight) -> tuple[NodesFrom, ...]:
    """Return since when a found placement has its machines; empty where nobody tells."""
    seen = sight.placement(placement)
    if seen is not None:
        return machines_of(run.placements.get(placement), seen, sight.seen_s)
    if sight.is_whole and sight.seen_s is not None:
        # Its cluster was seen whole and holds nothing of it any more.
        return (NodesFrom(at_s=sight.seen_s, nodes=0),)
    return ()
