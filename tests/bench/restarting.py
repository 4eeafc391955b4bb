"""A brokerd that starts over a log of 10,000 live runs and 100,000 events: how long, how much.

From the start of the process to its first right answer about a run, its clusters being there, and
on to the first change that it makes durable, for which it must have read every run; and the most
memory that it took until then. Every run is live, in the midst of its training: nothing may be left
to a snapshot of the past. Read ``measure`` first.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from broker.history.commands import (
    AcceptRun,
    AddPlacement,
    Command,
    GrantPlacement,
    MarkPrepared,
    RecordProgress,
    RecordRunning,
    RecordStart,
    ReportPlacement,
    SubmitRun,
)
from broker.model.capacity import FlavorKey
from broker.model.checkpoint import EpochId
from broker.model.intent import CapacityType, HardwareOption, Intent, Terms, Workload
from broker.model.reasons import Reason
from broker.model.run import Arrival, Purpose, Site
from broker.model.states import PlacementState
from broker.runtime.clock import MachineReadings, SystemClock
from broker.store.ledger import LOG_NAME, Ledger, open_ledger
from broker.store.recovery import read_mark
from broker.v1 import team_pb2
from tests.bench.figure import Figure, Size, median
from tests.bench.household import TEAM, Household
from tests.builders import BROKER

LAST_STEP = 100
REGION = "far-west1"  # none of brokerd's own, so that no agent has anything to do with the runs


async def measure(size: Size) -> list[Figure]:
    with Household() as brokerd:
        await brokerd.until_ready()
        brokerd.stop()
        log = brokerd.data / LOG_NAME
        events = await fill(log, size.restart_runs)
        kept = brokerd.data / "kept.db"
        shutil.copyfile(log, kept)
        answered, changed, megabytes = [], [], []
        for number in range(size.rounds):
            shutil.copyfile(kept, log)
            log.with_name(f"{LOG_NAME}-wal").unlink(missing_ok=True)
            began_s = time.perf_counter()
            brokerd.start()
            await brokerd.until_listening()
            async with brokerd.client() as client:
                found = await client.runs.get(_name(number % size.restart_runs))
                assert found.progress.step == LAST_STEP
                answered.append(time.perf_counter() - began_s)
                caps = team_pb2.TeamCaps(running_gpus=number + 1)
                await client.teams.set_caps(TEAM, caps, etag="1")
                changed.append(time.perf_counter() - began_s)
            megabytes.append(_peak_mb(brokerd.pid))
            brokerd.stop(signal.SIGKILL)
    anchor = f"{size.restart_runs} live runs, {events} events, {kept_size(size)}"
    return [
        Figure(
            name="restart, to the first answer",
            value=median(answered),
            aim="< 2",
            unit="s",
            anchor=f"{anchor}; a change is durable after {median(changed):g} s",
        ),
        Figure(
            name="restart, the most memory",
            value=median(megabytes),
            aim="< 200",
            unit="MB",
            anchor=anchor,
        ),
    ]


def kept_size(size: Size) -> str:
    return f"medians of {size.rounds} starts"


async def fill(path: Path, runs: int) -> int:
    """Write a log in which so many runs train; return how many events it holds."""
    clock = SystemClock(read_mark(path), MachineReadings())
    ledger = open_ledger(path, clock, regions=(REGION,), is_threaded=True)
    try:
        chance = random.Random(7)
        # Many at once, so that they share commits; each life in its own order.
        for first in range(0, runs, 200):
            numbers = range(first, min(first + 200, runs))
            await asyncio.gather(*(_live(ledger, chance, number) for number in numbers))
        return await ledger.head()
    finally:
        await ledger.close()


async def _live(ledger: Ledger, chance: random.Random, number: int) -> None:
    name = _name(number)
    for command in _life(name, number, f"{chance.getrandbits(48):012x}"):
        await ledger.handle(name, command, BROKER)


def _name(number: int) -> str:
    return f"teams/{TEAM}-{number % 20}/runs/run-{number}"


def _life(name: str, number: int, nonce: str) -> Iterator[Command]:
    """Yield what brings a run from its submit into its training: ten events."""
    placement = f"{number:012d}"
    epoch = EpochId(number=1, nonce=nonce)
    gang = HardwareOption(accelerator="H100", accelerators_per_node=8, nodes=2)
    yield SubmitRun(
        name=name,
        uid=f"{number:020d}",
        intent=Intent(
            team=name.split("/")[1],
            owner="ada",
            workload=Workload(
                command=("python3", "train.py", "--seed", f"{number}"), hardware=(gang,)
            ),
            terms=Terms(capacity_types=(CapacityType.SPOT,), max_wait_s=7200.0),
        ),
        request_id=f"request-{number}",
        body_digest=f"{number:064d}",
    )
    yield AcceptRun()
    yield AddPlacement(
        placement=placement,
        purpose=Purpose.FIRST,
        site=_site(),
        message=f"{REGION} starts soonest for the money: half of its starts within 4 minutes",
    )
    yield MarkPrepared(placement=placement)
    for state, reason in (
        (PlacementState.QUEUED, Reason.WAITING_FOR_QUOTA),
        (PlacementState.PROVISIONING, Reason.NODES_COMING),
    ):
        yield ReportPlacement(
            placement=placement,
            state=state,
            reason=reason,
            message="waiting for quota in far-west1, 24 H100 ahead",
            arrival=Arrival(ahead=3, ahead_gpus=24),
            cluster_uid=f"uid-{placement}",
        )
    yield GrantPlacement(placement=placement, nonce=nonce)
    yield RecordStart(epoch=epoch, nonces=(f"{nonce}0", f"{nonce}1"))
    yield RecordRunning(epoch=epoch)
    yield RecordProgress(epoch=epoch, step=LAST_STEP, loss=0.5)


def _site() -> Site:
    return Site(
        key=FlavorKey(cluster="far", queue="research", flavor="h100-spot"),
        region=REGION,
        capacity_type=CapacityType.SPOT,
        hardware_index=0,
        nodes=2,
        gpus=16,
        price_per_gpu_hour=Decimal("2.50"),
        forecast_p50_s=240.0,
        forecast_p90_s=900.0,
        forecast_chance=0.9,
    )


def _peak_mb(pid: int) -> float:
    """Return the most memory that a process has had resident."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel does not say how much memory a process took")
