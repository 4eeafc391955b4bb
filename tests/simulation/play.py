"""One seed, played: a world, trouble in it, then none, and everything comes to its end.

The rule: the same seed is the same play, event for event. Read ``play`` first.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import random
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path

from msgspec import structs

from broker.history.commands import UncordonRegion
from regions.local.config import FlavorConfig, QueueConfig, QuotaConfig, WorldConfig
from tests.simulation.disks import Disks
from tests.simulation.extent import OFTEN, Extent, drawn
from tests.simulation.life import Alarm, Life
from tests.simulation.people import People
from tests.simulation.pieces import PRODUCTION, Pieces
from tests.simulation.place import Place
from tests.simulation.stage import Stage
from tests.simulation.timeless import VirtualLoop, WorldReadings
from tests.simulation.trouble import Trouble
from tests.simulation.users import Users
from tests.simulation.witness import Breach, Witness

CALM_S = 3_000.0  # after the troubles, until all must be over
LOOK_S = 10.0
YEAR_S = 365 * 86_400.0
REGIONS = ("alpha", "beta", "gamma")
MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a play went. ``digest`` is of the log's events, the same for the same seed.

    ``counts`` say what it covered: the troubles, deaths, starts, closes and events of it.
    """

    seed: int
    breaches: tuple[Breach, ...]
    digest: str
    events: int
    lives: int
    gangs: int
    lasted_s: float
    counts: Mapping[str, int]
    trace: tuple[tuple[float, str, str], ...]


class Enough(Exception):
    """A law is broken, and nobody wants to see more."""


def play(
    seed: int,
    pieces: Pieces = PRODUCTION,
    *,
    is_patient: bool = True,
    often: Mapping[Extent, int] = OFTEN,
) -> Outcome:
    """Play one seed to its end; when not ``is_patient``, to the first law that is broken.

    ``often`` is what its extent is drawn from.
    """
    with out_of_time() as (loop, folder):
        theater = Theater(seed, loop, folder, pieces, is_patient=is_patient, often=often)
        listen(theater.stage)
        return loop.run_until_complete(theater.play())


@contextmanager
def out_of_time() -> Iterator[tuple[VirtualLoop, Path]]:
    """Give a loop on simulated seconds and a folder for a log; leave nothing of either behind."""
    loop = VirtualLoop()
    gc.disable()  # what a play leaves goes at its end, all at once
    folder = tempfile.mkdtemp(prefix="sim-", dir=MEMORY if MEMORY.is_dir() else None)
    logger = logging.getLogger("broker")
    before = (logger.level, logger.propagate)
    try:
        asyncio.set_event_loop(loop)
        yield loop, Path(folder)
    finally:
        logger.handlers = []
        logger.setLevel(before[0])
        logger.propagate = before[1]
        with suppress(RuntimeError):
            _cancel_all(loop)
        asyncio.set_event_loop(None)
        loop.close()
        shutil.rmtree(folder, ignore_errors=True)
        gc.enable()


def listen(stage: Stage) -> None:
    """Make what agents log as errors a breach on a stage, until the loop is left."""
    logger = logging.getLogger("broker")
    logger.handlers, logger.propagate = [Alarm(stage)], False


class Theater:
    """Puts a stage up, and plays on it."""

    def __init__(
        self,
        seed: int,
        loop: VirtualLoop,
        data: Path,
        pieces: Pieces,
        *,
        is_patient: bool,
        often: Mapping[Extent, int],
    ) -> None:
        self._loop = loop
        self.stage = Stage(
            seed=seed,
            loop=loop,
            data=data,
            pieces=pieces,
            readings=WorldReadings(loop),
            witness=Witness(loop),
        )
        # Runs that are over leave the log within some plays, and within the others never.
        self.stage.retention_s = self.stage.dice("retention").choice((120.0, YEAR_S, YEAR_S))
        self._extent = drawn(self.stage.dice("extent"), often)
        self.stage.witness.counts[f"{self._extent.name} worlds"] += 1
        self._lives = 0
        self._is_patient = is_patient

    async def play(self) -> Outcome:
        """Play: trouble, then calm, then the end."""
        began_s = self._loop.time()
        with suppress(Enough):
            try:
                await self._all_acts()
            except* Enough:
                raise Enough from None
        self.stage.witness.check_stories()
        return self._outcome(self._loop.time() - began_s)

    async def _all_acts(self) -> None:
        stage, loop = self.stage, self._loop
        for region in REGIONS:
            self._put_up(region)
        async with asyncio.TaskGroup() as group:
            users, trouble = Users(stage, group, self._extent), Trouble(stage, self._extent)
            disks = Disks(stage)
            people = People(stage, users)
            keeper = group.create_task(self._keep_alive(group))
            watcher = group.create_task(self._watch())
            await users.prepare()
            until_s = loop.time() + self._extent.trouble_s
            working = group.create_task(users.work(until_s))
            spoiling = group.create_task(disks.work(until_s))
            emptying = group.create_task(stage.shelves.work(until_s))
            watching = group.create_task(people.work())
            await trouble.work(until_s)
            stage.witness.note("trouble", "it is calm now")
            await spoiling
            await emptying
            trouble.heal()
            disks.heal()
            people.take_what_is_there()
            await working
            for region in REGIONS:
                await users.tell(f"regions/{region}", UncordonRegion())
            await self._come_to_rest()
            stage.is_over = True
            watcher.cancel()
            watching.cancel()
            for life in (stage.life, stage.former):
                if life is not None:
                    life.die()
            keeper.cancel()

    def _put_up(self, region: str) -> None:
        stage = self.stage
        chance = stage.dice(f"world {region}")
        flavors = [_flavor(chance, kind) for kind in ("SPOT", "ON_DEMAND", "FLEX")]
        stays_s = stage.dice(f"stays {region}").choice((None, 50.0, 130.0, 130.0))
        flavors[-1] = structs.replace(flavors[-1], max_run_s=stays_s)
        quotas = tuple(
            QuotaConfig(flavor=flavor.name, nominal=4, borrowing_limit=2) for flavor in flavors
        )
        theirs = tuple(QuotaConfig(flavor=flavor.name, nominal=2) for flavor in flavors)
        config = WorldConfig(
            cluster=region,
            region=region,
            store="/store",
            flavors=tuple(flavors),
            queues=(
                QueueConfig(name="train", quotas=quotas),
                QueueConfig(name="theirs", quotas=theirs, is_foreign=True),
            ),
            keep_ended=40,
        )
        place = Place(
            config,
            loop=self._loop,
            chance=stage.dice(f"place {region}"),
            witness=stage.witness,
            pieces=stage.pieces,
        )
        stage.places[region] = place
        place.on_planned_end = stage.planned_end
        place.on_queue = partial(stage.shelves.queued, region)
        stage.shelves.there[region] = set()
        stage.witness.objects[region] = place.objects

    async def _keep_alive(self, group: asyncio.TaskGroup) -> None:
        """Begin the next life of the broker whenever one is over, or stands aside."""
        stage = self.stage
        while not stage.is_over:
            if stage.is_held or self._loop.time() < stage.down_until_s:
                await asyncio.sleep(0.5)
                continue
            self._lives += 1
            stage.witness.counts["lives"] += 1
            stage.dead.clear()
            stage.life = life = Life(stage, self._lives)
            group.create_task(life.live())
            await life.left.wait()
            stage.alive.clear()
            stage.dead.set()
            await asyncio.sleep(0.2)

    async def _watch(self) -> None:
        """Look at the world from time to time, as the laws that speak of durations want it."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.stage.look()
            if self.stage.witness.breaches and not self._is_patient:
                raise Enough

    async def _come_to_rest(self) -> None:
        """Wait until all is over, or say what is not."""
        stage = self.stage
        give_up_s = self._loop.time() + CALM_S
        left: list[tuple[str, str]] = []
        while self._loop.time() < give_up_s:
            await asyncio.sleep(LOOK_S)
            left = stage.unfinished()
            if not left:
                return
        for about, sentence in left:
            stage.witness.breach("liveness", about, [sentence])

    def _outcome(self, lasted_s: float) -> Outcome:
        witness = self.stage.witness
        text = "\n".join(
            f"{stream} {one.at} {one.actor.name} {one.event}"
            for stream, some in sorted(witness.record.log.items())
            for one in some
        )
        return Outcome(
            seed=self.stage.seed,
            breaches=tuple(witness.breaches),
            digest=hashlib.sha256(text.encode()).hexdigest(),
            events=sum(map(len, witness.record.log.values())),
            lives=self._lives,
            gangs=len(witness.record.gangs),
            lasted_s=lasted_s,
            counts=dict(witness.counts),
            trace=tuple(deque(witness.trace)),
        )


def _flavor(chance: random.Random, kind: str) -> FlavorConfig:
    values: dict[str, object] = {
        "name": f"h100-{kind.lower().replace('_', '-')}",
        "accelerator": "H100",
        "capacity_type": kind,
        "zones": ("a",),
        "price_per_gpu_hour": Decimal(chance.choice(("2.0", "3.5", "8.0"))),
        "max_nodes": chance.choice((4, 6)),
        "startup_s": chance.choice((2.0, 15.0, 40.0)),
        "spread_s": chance.choice((0.0, 4.0)),
        "preemption_notice_s": chance.choice((0.0, 25.0)),
    }
    if kind == "FLEX":
        values["flex_wait_s"] = chance.choice((5.0, 60.0))
    return FlavorConfig(**values)  # type: ignore[arg-type]


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
