"""A whole broker over simulated regions, for scenarios that a person directs; else all is well.

The rule: the agents, the log, the launcher's rules, the clusters' world and the stores are
production's, as in the simulator; a scenario says what goes wrong and when, and each law that the
simulator's witness knows must hold at its end. Read ``directed`` and ``Rig.until`` first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

from broker.history.commands import Command, MarkCheckpoint, RunCommand, SetPolicy, SubmitRun
from broker.history.events import Event
from broker.history.lineage import nameable
from broker.model.actor import Actor, ActorKind
from broker.model.intent import (
    CapacityType,
    CheckpointSpec,
    HardwareOption,
    Intent,
    Limits,
    Terms,
    Workload,
)
from broker.model.policy import Patience, RegionPolicy
from broker.model.run import Epoch, Run
from broker.runtime.clock import ClockMark, SystemClock
from broker.store.backup import back_up, restore
from broker.store.ledger import LOG_NAME
from regions.launcher import layout
from regions.local.config import FlavorConfig, QueueConfig, QuotaConfig, WorldConfig
from tests.simulation.life import Life, SimLog, ask
from tests.simulation.pieces import PRODUCTION, Pieces
from tests.simulation.place import Place
from tests.simulation.play import listen, out_of_time
from tests.simulation.processes import Process
from tests.simulation.stage import Stage
from tests.simulation.timeless import WorldReadings
from tests.simulation.training import Program
from tests.simulation.witness import Witness

USER = Actor(kind=ActorKind.USER, name="ada")
OPS = Actor(kind=ActorKind.OPS, name="ops")
FLAVOR = "h100-spot"
STEP_S = 1.0
PROGRAM = Program(steps=60, step_s=STEP_S, save_every=5)
PATIENCE = Patience(cluster_silent_s=30.0, start_report_s=60.0, verdict_s=10.0)
POLL_S = 0.25
SEED = 11


class Rig:
    """Regions, one broker over them, and what a scenario does to both."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._serial = 0
        self._backup_s: float | None = None

    # ---- Runs -----------------------------------------------------------------------------------

    async def submit(
        self,
        program: Program = PROGRAM,
        *,
        ranks: int = 2,
        terms: Terms | None = None,
        parent: str = "",
    ) -> str:
        """Submit a gang of so many ranks, one GPU each; return the run's name.

        ``parent`` is the run that it is forked from, at the checkpoint that comes first to mind.
        """
        self._serial += 1
        name = f"teams/vision/runs/run-{self._serial}"
        workload = Workload(
            command=program.command(),
            hardware=(HardwareOption(accelerator="H100", accelerators_per_node=1, nodes=ranks),),
            checkpoint=CheckpointSpec(keep_last=3),
        )
        intent = Intent(
            team="vision",
            owner="ada",
            workload=workload,
            terms=terms or Terms(capacity_types=(CapacityType.SPOT,), limits=Limits()),
        )
        command = SubmitRun(
            name=name,
            uid=f"{self._serial:020d}",
            intent=intent,
            request_id=f"request-{self._serial}",
            body_digest=f"{self._serial:064x}",
            forked_from=parent,
        )
        if parent:
            uid = self.run(parent).uid
            seed = nameable(self.run(parent))[0]
            pin = MarkCheckpoint(step=seed.ref.step, is_pinned=True)
            await self.tell(parent, pin)
            seed = replace(seed, ref=replace(seed.ref, run_uid=uid))
            command = replace(command, fork_checkpoint=seed)
        await ask(self.stage, lambda log: log.submit(command, USER))
        self.stage.witness.acked(command.request_id, name)
        return name

    async def tell(self, name: str, command: RunCommand) -> None:
        """Command something as a user. Raises Refused."""
        await ask(self.stage, lambda log: log.handle(name, command, USER))

    async def rule(self, region: str, **policy: object) -> None:
        """Set a region's policy beside the rig's own patience."""
        state = self.log.region(region)
        made = RegionPolicy(**{**_POLICY, **policy})  # type: ignore[arg-type]
        command = SetPolicy(policy=made, expected_generation=state.generation)
        await self.order(region, command)

    async def order(self, region: str, command: Command) -> None:
        """Command something of a region as ops."""
        await ask(self.stage, lambda log: log.handle(f"regions/{region}", command, OPS))

    @property
    def log(self) -> SimLog:
        """The log of the present life of the broker."""
        assert self.stage.life is not None
        assert self.stage.life.log is not None
        return self.stage.life.log

    def run(self, name: str) -> Run:
        """The run as it is now."""
        run = self.log.run(name)
        assert run is not None
        return run

    def epoch(self, name: str) -> Epoch:
        """The run's open epoch."""
        epoch = self.run(name).open_epoch
        assert epoch is not None
        return epoch

    async def until(self, name: str, holds: Callable[[Run], bool], within_s: float = 600.0) -> Run:
        """Wait until the log says something of a run; fail with its story when it does not."""
        until_s = self.stage.loop.time() + within_s
        while not holds(self.run(name)):
            if self.stage.loop.time() > until_s:
                raise AssertionError("\n".join(await self.story(name)))
            await asyncio.sleep(POLL_S)
        return self.run(name)

    def now_s(self) -> float:
        """Return broker time."""
        assert self.stage.life is not None
        return self.stage.life.broker_s()

    async def events(self, name: str) -> list[Event]:
        """All that happened to a run."""
        return [one.event for one in await self.log.ledger.read(name, 0, 10_000)]

    async def story(self, name: str) -> list[str]:
        """All that happened to a run and in its world, a line each."""
        told = await self.log.ledger.read(name, 0, 10_000)
        world = [f"{at_s:8.2f} {about}: {text}" for at_s, about, text in self.stage.witness.trace]
        return [*world, *(f"{one.at.elapsed_s:8.2f} {one.actor.name} {one.event}" for one in told)]

    # ---- The world ------------------------------------------------------------------------------

    def place(self, region: str) -> Place:
        """A region with its cluster and its store."""
        return self.stage.places[region]

    def gang(self, name: str) -> list[Process]:
        """The processes of a run that are there now, in any region, by rank."""
        uid = self.run(name).uid
        found = [
            process
            for place in self.stage.places.values()
            for process in place.processes.values()
            if process.spec.run_key == uid and not process.is_gone
        ]
        return sorted(found, key=lambda process: process.rank)

    def is_in_store(self, name: str, region: str, what: str) -> bool:
        """Whether the last epoch's ``owner``, ``drain`` or ``fence`` stands in a region's store."""
        run = self.run(name)
        keys, last = layout.RunKeys(run.uid), run.epochs[-1].id
        epoch = layout.EpochId(number=last.number, nonce=last.nonce)
        at = {"owner": keys.owner(epoch.number), "drain": keys.drain(epoch)}
        key = at.get(what, keys.fence(epoch))
        return self.place(region).objects.get(key) is not None

    async def meanwhile(self, holds: Callable[[], bool], within_s: float = 300.0) -> None:
        """Wait until something is so in the world."""
        until_s = self.stage.loop.time() + within_s
        while not holds():
            assert self.stage.loop.time() < until_s, "it never came to be so"
            await asyncio.sleep(POLL_S)

    async def die(self) -> None:
        """Kill brokerd; the next life begins by itself."""
        assert self.stage.life is not None
        self.stage.life.die()
        await self.stage.dead.wait()
        await self.stage.alive.wait()

    async def be_away(self, seconds: float) -> None:
        """Kill brokerd, and let the next life begin so much later."""
        assert self.stage.life is not None
        self.stage.is_held = True
        self.stage.life.die()
        await self.stage.dead.wait()
        await asyncio.sleep(seconds)
        self.stage.is_held = False
        await self.stage.alive.wait()

    async def back_up(self) -> None:
        """Take a backup of the log."""
        self._backup_s = self.stage.loop.time()
        back_up(self.stage.data / LOG_NAME, self.stage.data / "backup")

    async def restore(self) -> None:
        """Kill brokerd and let the next life begin with the backup."""
        stage = self.stage
        assert stage.life is not None
        stage.is_held = True
        stage.life.die()
        await stage.dead.wait()
        stage.restored_since_s = self._backup_s

        def clock(mark: ClockMark | None) -> SystemClock:
            return SystemClock(mark, stage.readings)

        restore(stage.data / "backup", stage.data, clock=clock, actor=OPS, is_told_to_replace=True)
        stage.is_held = False
        await stage.alive.wait()


_POLICY: dict[str, object] = {
    "patience": PATIENCE,
    "gate_timeout_s": 240.0,
    "fence_grace_s": 8.0,
    "drain_s": 20.0,
    "hedge_width": 1,
}


def spot(region: str, price: Decimal) -> FlavorConfig:
    """Machines that come within seconds and stay."""
    return FlavorConfig(
        name=FLAVOR,
        accelerator="H100",
        capacity_type="SPOT",
        zones=("a",),
        price_per_gpu_hour=price,
        max_nodes=6,
        startup_s=2.0,
    )


def directed(
    *regions: str,
    pieces: Pieces = PRODUCTION,
    machines: Callable[[str, Decimal], FlavorConfig] = spot,
) -> Callable[[Callable[[Rig], Awaitable[None]]], Callable[[], None]]:
    """Make a test of a scenario: the regions stand, the first is the cheapest, all is well.

    ``machines`` says what each region has, by its name and its price.
    """

    def made(scenario: Callable[[Rig], Awaitable[None]]) -> Callable[[], None]:
        def test() -> None:
            with out_of_time() as (loop, folder):
                stage = Stage(
                    seed=SEED,
                    loop=loop,
                    data=folder,
                    pieces=pieces,
                    readings=WorldReadings(loop),
                    witness=Witness(loop),
                )
                listen(stage)
                loop.run_until_complete(_direct(Rig(stage), regions, scenario, machines))
                assert [str(breach) for breach in stage.witness.breaches] == []

        test.__doc__, test.__name__ = scenario.__doc__, scenario.__name__
        return test

    return made


async def _direct(
    rig: Rig,
    regions: tuple[str, ...],
    scenario: Callable[[Rig], Awaitable[None]],
    machines: Callable[[str, Decimal], FlavorConfig],
) -> None:
    stage = rig.stage
    for index, region in enumerate(regions):
        _put_up(stage, region, machines(region, Decimal(2) + index))
    keeper = asyncio.ensure_future(_keep_alive(stage))
    await stage.alive.wait()
    try:
        for region in regions:
            await rig.rule(region)
        await scenario(rig)
    finally:
        stage.is_over = True
        if stage.life is not None:
            stage.life.die()
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper


def _put_up(stage: Stage, region: str, flavor: FlavorConfig) -> None:
    config = WorldConfig(
        cluster=region,
        region=region,
        store="/store",
        flavors=(flavor,),
        queues=(QueueConfig(name="train", quotas=(QuotaConfig(flavor=flavor.name, nominal=6),)),),
        keep_ended=40,
    )
    place = Place(
        config,
        loop=stage.loop,
        chance=stage.dice(f"place {region}"),
        witness=stage.witness,
        pieces=stage.pieces,
    )
    stage.places[region] = place
    stage.witness.objects[region] = place.objects


async def _keep_alive(stage: Stage) -> None:
    number = 0
    while not stage.is_over:
        if stage.is_held:
            await asyncio.sleep(0.5)
            continue
        number += 1
        stage.dead.clear()
        stage.life = Life(stage, number)
        await asyncio.ensure_future(stage.life.live())
        stage.alive.clear()
        stage.dead.set()
        await asyncio.sleep(0.2)
