"""What people do: submit and submit again, cancel, amend, resume, mark, cordon, drain.

The rule: a request without an answer is repeated as it was until one comes, as the SDK does; a
refusal is an answer. Read ``Users.work`` first.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from decimal import Decimal

from broker.history.commands import (
    AmendTerms,
    CancelRun,
    Command,
    CordonRegion,
    DrainRegion,
    MarkCheckpoint,
    ResumeRun,
    SetCaps,
    SetPolicy,
    SubmitRun,
    UncordonRegion,
)
from broker.history.refusals import Refused
from broker.model.actor import Actor, ActorKind
from broker.model.intent import (
    AfterMaxWait,
    CapacityType,
    CheckpointSpec,
    HardwareOption,
    Intent,
    Limits,
    Terms,
    Workload,
)
from broker.model.policy import Patience, RegionPolicy, TeamCaps
from broker.model.run import Run
from broker.runtime.entropy import Ids
from tests.simulation.extent import Extent
from tests.simulation.life import ask
from tests.simulation.shelves import TAG
from tests.simulation.stage import BUNDLE_DIGEST, Stage
from tests.simulation.training import Program

USER = Actor(kind=ActorKind.USER, name="ada")
OPS = Actor(kind=ActorKind.OPS, name="ops")
TEAMS = ("vision", "speech")
PATIENCE = Patience(
    quota_s=60.0,
    capacity_s=30.0,
    partial_s=20.0,
    flex_silent_s=60.0,
    image_pull_s=60.0,
    pods_s=60.0,
    wedged_s=40.0,
    cluster_silent_s=30.0,
    start_report_s=40.0,
    verdict_s=8.0,
    content_s=200.0,
)
GATE_TIMEOUT_S = 240.0
LONG = 0.15  # of the runs


class Users:
    """Everybody who talks to the broker."""

    def __init__(self, stage: Stage, group: asyncio.TaskGroup, extent: Extent) -> None:
        self._stage = stage
        self._extent = extent
        self._chance: random.Random = stage.user_dice
        self._ids = Ids(self._chance.randrange)
        self._serial = 0
        self._group = group
        self._races = stage.dice("races")
        self._long = stage.dice("long runs")
        self._haste = self._races.choice((0.0, 0.1, 0.5))
        self._until_s = 0.0
        stage.witness.on_grant = self._hear_of_a_grant

    async def prepare(self) -> None:
        """Set policies and caps before anything else happens."""
        for region in sorted(self._stage.places):
            policy = RegionPolicy(
                patience=PATIENCE,
                gate_timeout_s=GATE_TIMEOUT_S,
                fence_grace_s=8.0,
                drain_s=20.0,
                hedge_width=self._chance.choice((1, 2, 3)),
                weight=self._chance.choice((0.5, 1.0, 1.0)),
                replace_unreachable_after_s=self._chance.choice((None, 120.0, 300.0)),
                checkpoint_copies=self._chance.choice((0, 1, 2)),
            )
            await self.tell(f"regions/{region}", SetPolicy(policy=policy, expected_generation=1))
        if self._chance.random() < 0.5:
            caps = TeamCaps(running_gpus=4, gate_gpus=self._chance.choice((None, 6)))
            self._stage.witness.record.caps[TEAMS[0]] = 4
            await self.tell(f"teams/{TEAMS[0]}", SetCaps(caps=caps, expected_generation=1))

    async def work(self, until_s: float) -> None:
        """Submit some runs, then meddle with them until it is enough."""
        loop, chance, extent = self._stage.loop, self._chance, self._extent
        self._until_s = until_s
        for _ in range(chance.randint(*extent.runs)):
            await self.submit()
            await asyncio.sleep(chance.choice(extent.arrives_s))
        while loop.time() < until_s:
            await asyncio.sleep(chance.uniform(*extent.meddles_s))
            await self._meddle()

    async def submit(self) -> None:
        """Submit a run, and sometimes once more."""
        self._serial += 1
        team = self._chance.choice(TEAMS)
        await self._hand_in(
            SubmitRun(
                name=f"teams/{team}/runs/run-{self._serial}",
                uid=self._ids.run_uid(),
                intent=self._intent(team),
                request_id=f"request-{self._serial}",
                body_digest=f"{self._serial:064x}",
            )
        )

    async def _hand_in(self, command: SubmitRun) -> None:
        team = command.intent.team
        for _ in range(1 + (self._chance.random() < 0.3)):
            name = await self._accepted(command)
            self._stage.witness.acked(command.request_id, name)
            again = f"teams/{team}/runs/again-{self._serial}"
            command = replace(command, name=again, uid=self._ids.run_uid())

    async def _accepted(self, command: SubmitRun) -> str:
        return await ask(self._stage, lambda log: log.submit(command, USER))

    async def tell(self, stream: str, command: Command) -> bool:
        """Hand in a command; a refusal is an answer, and gives False."""
        by = USER if "/runs/" in stream else OPS
        try:
            await ask(self._stage, lambda log: log.handle(stream, command, by))
        except Refused as refusal:
            self._stage.witness.note(stream, f"refused {type(command).__name__}: {refusal}")
            return False
        return True

    def _intent(self, team: str) -> Intent:
        chance, extent = self._chance, self._extent
        nodes = chance.choice(extent.nodes)
        program = Program(
            steps=chance.choice(extent.steps),
            step_s=chance.choice(extent.step_s),
            save_every=chance.choice(extent.save_every),
            fails_at=chance.choice((0, 0, 2, 7, 15)),
            fails=chance.choice((1, 1, 2, 9)),
            is_stubborn=chance.random() < 0.2,
            peer_s=chance.choice((8.0, 8.0, 60.0)),
        )
        types: tuple[CapacityType, ...]
        types = (CapacityType.SPOT, CapacityType.ON_DEMAND, CapacityType.FLEX)
        if self._long.random() < LONG:
            # It outlasts machines that are given for a while, and has no others.
            steps = self._long.choice((100, 160))
            program = replace(program, steps=steps, step_s=1.0, save_every=10)
            types = (CapacityType.FLEX,)
        max_wait_s = chance.choice((None, None, 300.0, 900.0))
        return Intent(
            team=team,
            owner="ada",
            workload=Workload(
                command=program.command(),
                image=TAG if self._stage.has_registries else "",
                hardware=(
                    HardwareOption(accelerator="H100", accelerators_per_node=1, nodes=nodes),
                ),
                bundle_digest=chance.choice(("", BUNDLE_DIGEST)),
                checkpoint=CheckpointSpec(keep_last=chance.choice((1, 2, 3))),
            ),
            terms=Terms(
                capacity_types=chance.choice((types, types, types[:2], types[:1])),
                regions=chance.choice(((), (), ("alpha", "beta"), ("gamma",))),
                max_wait_s=max_wait_s,
                after_max_wait=chance.choice(tuple(AfterMaxWait)),
                max_requeue_wait_s=chance.choice((None, None, 600.0)),
                expected_duration_s=float(program.steps * program.step_s),
                budget=chance.choice((None, None, Decimal(50))),
                priority=chance.choice((0, 0, 5)),
                limits=Limits(user_restarts=chance.choice((1, 3)), infrastructure_losses=50),
            ),
        )

    # ---- Meddling -------------------------------------------------------------------------------

    async def _meddle(self) -> None:
        chance = self._chance
        runs = await self._runs()
        region = chance.choice(sorted(self._stage.places))
        dice = chance.random()
        if dice < 0.12:
            await self.tell(f"regions/{region}", CordonRegion(message="work on its power"))
        elif dice < 0.22:
            order = DrainRegion(message="work on its network", grace_s=chance.choice((5.0, 30.0)))
            await self.tell(f"regions/{region}", order)
        elif dice < 0.45:
            await self.tell(f"regions/{region}", UncordonRegion())
        elif dice < 0.55:
            await self.submit()
        elif dice < 0.62:
            await self._fork(runs)
        elif runs:
            await self._meddle_with(chance.choice(runs))

    async def _meddle_with(self, run: Run) -> None:
        chance = self._chance
        steps = [one.ref.step for one in run.checkpoints]
        command: Command
        match chance.randrange(6):
            case 0:
                command = CancelRun(grace_s=chance.choice((0.0, 10.0)), message="not needed")
            case 1:
                terms = replace(
                    run.terms,
                    priority=chance.choice((0, 5, 9)),
                    regions=chance.choice(((), ("alpha",), ("beta", "gamma"))),
                )
                command = AmendTerms(terms=terms, expected_generation=run.terms_generation)
            case 2 if steps:
                command = MarkCheckpoint(step=chance.choice(steps), is_bad=True)
            case 3 | 4 if steps:
                command = ResumeRun(step=chance.choice(steps), from_start=False)
            case _:
                command = ResumeRun(step=None, from_start=chance.random() < 0.2)
        await self.tell(run.name, command)

    async def _fork(self, runs: list[Run]) -> None:
        """Begin a run with a sealed checkpoint of another, which is pinned there first."""
        chance = self._chance
        seeds = [
            (run, one)
            for run in runs
            for one in run.checkpoints
            if one.is_sealed and not one.is_bad and one.ref.is_own
        ]
        if not seeds:
            return
        parent, seed = chance.choice(seeds)
        pin = MarkCheckpoint(step=seed.ref.step, is_pinned=True)
        if not await self.tell(parent.name, pin):
            return
        self._serial += 1
        ref = replace(seed.ref, run_uid=parent.uid)
        self._stage.witness.counts["forks"] += 1
        await self._hand_in(
            SubmitRun(
                name=f"teams/{parent.intent.team}/runs/run-{self._serial}",
                uid=self._ids.run_uid(),
                intent=parent.intent,
                request_id=f"request-{self._serial}",
                body_digest=f"{self._serial:064x}",
                forked_from=parent.name,
                fork_checkpoint=replace(seed, ref=ref),
            )
        )

    def _hear_of_a_grant(self, name: str) -> None:
        """Say something else of the run at just that moment, sometimes."""
        loop = self._stage.loop
        if loop.time() < self._until_s and self._races.random() < self._haste:
            wait_s = self._races.choice((0.0, 0.05, 1.0, 4.0))
            loop.call_later(wait_s, lambda: self._group.create_task(self._race(name)))

    async def _race(self, name: str) -> None:
        life, races = self._stage.life, self._races
        run = None if life is None or life.log is None else life.log.run(name)
        if run is None:
            return
        self._stage.witness.counts["races"] += 1
        command: Command = CancelRun(grace_s=races.choice((0.0, 10.0)), message="not that one")
        if races.random() < 0.7:
            terms = replace(run.terms, regions=races.choice((("alpha",), ("beta", "gamma"))))
            command = AmendTerms(terms=terms, expected_generation=run.terms_generation)
        await self.tell(name, command)

    async def _runs(self) -> list[Run]:
        acked = sorted(one.name for one in self._stage.witness.record.acked.values())
        life = self._stage.life
        if life is None or life.log is None or life.is_dead:
            return []
        found = (life.log.run(name) for name in acked)
        return [run for run in found if run is not None]
