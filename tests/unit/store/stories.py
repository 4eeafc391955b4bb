"""Random lives of many runs, told to a ledger: what the store's properties stand on.

The rule it keeps: whatever is drawn is a command that a broker could send; what may not be is
refused and changes nothing. Read ``tell`` first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from broker.history.commands import (
    AcceptRun,
    AddPlacement,
    BeginIncarnation,
    CancelRun,
    CloseEpoch,
    Command,
    CordonRegion,
    EndPlacement,
    FailRun,
    GrantPlacement,
    MarkCheckpoint,
    MarkPrepared,
    PayDebt,
    RecordCheckpoint,
    RecordCopy,
    RecordProgress,
    RecordRunning,
    RecordStart,
    ReportPlacement,
    ResumeRun,
    SetCaps,
    StopEpoch,
    UncordonRegion,
    WarnRun,
    WithdrawPlacement,
)
from broker.history.refusals import Refused
from broker.model.checkpoint import CheckpointRef
from broker.model.policy import TeamCaps
from broker.model.reasons import Reason
from broker.model.run import Arrival, CloseRule, Purpose, RankEnd, Run
from broker.model.states import PlacementEnd, PlacementState
from broker.store.batch import Order
from broker.store.ledger import Ledger
from tests.builders import BROKER, GANG, make_site
from tests.fakes.readings import HandReadings
from tests.unit.store.ledgers import REGIONS, opened, submit_of

TEAMS = ("vision", "speech")


@dataclass
class Teller:
    """Draws one command after the other from a seed, looking at what the ledger holds."""

    chance: Random
    serial: int = 0
    submitted: list[str] = field(default_factory=list)
    pauses_s: tuple[float, ...] = (0.0, 0.25, 5.0, 60.0, 3_600.0, 40_000.0)

    def step(self, ledger: Ledger, readings: HandReadings) -> tuple[str, Command]:
        """Return the next command and its stream, some time later."""
        readings.wait(self.chance.choice(self.pauses_s))
        self.serial += 1
        if self.chance.random() < 0.1:
            return self._small(ledger)
        live = sorted(ledger.live_runs())
        if len(live) < 2 or self.chance.random() < 0.05:
            submit = submit_of(f"run-{self.serial}", self.chance.choice(TEAMS))
            self.submitted.append(submit.name)
            return submit.name, submit
        if self.submitted and self.chance.random() < 0.05:
            return self.chance.choice(self.submitted), ResumeRun(step=None, from_start=False)
        name = self.chance.choice(live)
        return name, self._of_run(ledger.live_runs()[name])

    def _small(self, ledger: Ledger) -> tuple[str, Command]:
        region, team = self.chance.choice(REGIONS), self.chance.choice(TEAMS)
        caps = TeamCaps(running_gpus=self.chance.choice((None, 4, 64)))
        return self.chance.choice(
            (
                (f"regions/{region}", CordonRegion(message=f"reason {self.serial}")),
                (f"regions/{region}", UncordonRegion()),
                (
                    f"teams/{team}",
                    SetCaps(caps=caps, expected_generation=ledger.team(team).generation),
                ),
                ("broker", BeginIncarnation(incarnation=self.serial, is_restored=False)),
            )
        )

    def _of_run(self, run: Run) -> Command:
        region = self.chance.choice(REGIONS)
        purpose = self.chance.choice(list(Purpose))
        add = AddPlacement(
            placement=f"place{self.serial:0>7}",
            purpose=purpose,
            site=make_site(region),
            message="soonest",
        )
        choices: list[Command] = [add, AcceptRun()]
        if self.chance.random() < 0.1:
            choices += [
                CancelRun(grace_s=0.0, message="no longer needed"),
                FailRun(reason=Reason.MAX_WAIT_PASSED, message="waited too long"),
                WarnRun(reason=Reason.UNKNOWN, message=f"warning {self.serial}"),
            ]
        for placement in run.live_placements:
            choices += self._of_placement(placement.id)
        choices += self._of_epoch(run) * 3
        return self.chance.choice(choices)

    def _of_placement(self, placement: str) -> list[Command]:
        report = ReportPlacement(
            placement=placement,
            state=self.chance.choice(
                (PlacementState.QUEUED, PlacementState.PROVISIONING, PlacementState.AT_GATE)
            ),
            reason=Reason.WAITING_FOR_QUOTA,
            message=f"seen {self.serial}",
            arrival=Arrival(ahead=self.serial),
            cluster_uid=f"uid-{placement}",
        )
        grant = GrantPlacement(placement=placement, nonce=f"nonce{self.serial:0>7}")
        word = {"reason": Reason.OTHER_LEG_STARTED, "message": "enough"}
        return [
            MarkPrepared(placement=placement),
            report,
            report,
            grant,
            WithdrawPlacement(placement=placement, **word),  # type: ignore[arg-type]
            EndPlacement(placement=placement, end=PlacementEnd.WITHDRAWN, **word),  # type: ignore[arg-type]
        ]

    def _of_epoch(self, run: Run) -> list[Command]:
        choices: list[Command] = [PayDebt(epoch=e.id) for e in run.epochs if e.is_owed]
        if run.checkpoints:
            step = self.chance.choice(run.checkpoints).ref.step
            choices.append(MarkCheckpoint(step=step, is_pinned=self.chance.random() < 0.5))
        epoch = run.open_epoch
        if epoch is None:
            return choices
        step = self.serial * 10
        digest = f"{epoch.id.number:0>8}{step:0>56}"
        found = RecordCheckpoint(
            ref=CheckpointRef(epoch=epoch.id, step=step, digest=digest),
            size_bytes=1_000,
            region=epoch.region,
            written_wall_s=1_700_000_000.0,
        )
        nonces = tuple(f"{epoch.id.nonce}-{rank}" for rank in range(GANG.nodes))
        code = self.chance.choice((0, 1, None))
        return [
            *choices,
            RecordStart(epoch=epoch.id, nonces=nonces),
            RecordRunning(epoch=epoch.id),
            RecordProgress(epoch=epoch.id, step=step, loss=0.5),
            found,
            *(
                RecordCopy(ref=c.ref, region=self.chance.choice(REGIONS))
                for c in run.checkpoints[-1:]
            ),
            StopEpoch(reason=Reason.REGION_DRAINING, message="leave"),
            self._close(run, code, found),
        ]

    def _close(self, run: Run, code: int | None, found: RecordCheckpoint) -> CloseEpoch:
        epoch = run.open_epoch
        assert epoch is not None
        rule = self.chance.choice(list(CloseRule))
        has_ends = rule in (CloseRule.SEEN_ENDED, CloseRule.FENCE_HEARD)
        ends = tuple(RankEnd(rank=rank, exit_code=code) for rank in range(len(epoch.nonces)))
        return CloseEpoch(
            epoch=epoch.id,
            rule=rule,
            ends=ends if has_ends else (),
            found=(found,) if self.chance.random() < 0.3 else (),
            cause=Reason.NODE_PREEMPTED if code is None else None,
            message="closed",
        )


async def tell(ledger: Ledger, readings: HandReadings, seed: int, steps: int) -> int:
    """Tell the ledger so many random commands; return how many it did not refuse."""
    return await tell_on(Teller(chance=Random(seed)), ledger, readings, steps)


async def tell_on(teller: Teller, ledger: Ledger, readings: HandReadings, steps: int) -> int:
    """Let a teller tell so many more commands; return how many were not refused."""
    accepted = 0
    for _ in range(steps):
        stream, command = teller.step(ledger, readings)
        try:
            await ledger.handle(stream, command, BROKER)
        except Refused:
            continue
        accepted += 1
    return accepted


async def draw_orders(path: Path, seed: int, count: int) -> list[Order]:
    """Return what a random story tells, refusals left out."""
    readings, teller, orders = HandReadings(), Teller(chance=Random(seed)), list[Order]()
    async with opened(path, readings) as ledger:
        while len(orders) < count:
            stream, command = teller.step(ledger, readings)
            try:
                if await ledger.handle(stream, command, BROKER):
                    orders.append(Order(stream=stream, command=command, actor=BROKER))
            except Refused:
                continue
    return orders
