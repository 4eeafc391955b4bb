"""The real thing killed: thirty gangs, fifty kills of brokerd, one of each cluster, preemptions.

Read ``drive`` first; what must hold afterwards is in ``laws``.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.history.events import Recorded
from broker.sdk.intent import parse_intent
from broker.store import log
from broker.store.ledger import LOG_NAME
from broker.store.schema import open_database
from broker.v1 import errors_pb2, run_pb2
from tests.killed import laws
from tests.killed.town import ACCELERATOR, REGIONS, Town

SEED = 20261129
RUNS, KILLS, RANKS = 30, 50, 2
STEPS, SAVE_EVERY, STEP_S = 24, 6, 0.25
DRIVEN_WITHIN_S, ENDED_WITHIN_S = 900.0, 300.0  # a quiet machine takes two minutes and some s
STUMBLES, BREAKS = frozenset({4, 14, 24}), frozenset({9, 19})
CLUSTER_KILLS = {11: REGIONS[0], 23: REGIONS[1], 37: REGIONS[2]}
PREEMPTIONS = {6: 0.0, 9: 2.0, 15: 2.0, 19: 0.0, 27: 2.0, 33: 0.0, 41: 2.0, 46: 0.0}  # notice, s
GANG = Path(__file__).with_name("gang.py")
ENDED = (run_pb2.RUN_STATE_SUCCEEDED, run_pb2.RUN_STATE_FAILED)


@pytest.fixture
def town() -> Iterator[Town]:
    town = Town()
    try:
        yield town
    finally:
        town.close()


@pytest.mark.alone
def test_whatever_is_killed_every_run_ends_once_and_as_it_should(town: Town) -> None:
    names = asyncio.run(drive(town))
    runs = asyncio.run(until_all_ended(town))
    still_standing = asyncio.run(town.standing())
    assert town.stop() == 0

    assert sorted(run.name for run in runs) == sorted(names), "one run for each request"
    assert {run.name: outcome(run) for run in runs} == {
        name: expected(number) for number, name in enumerate(names)
    }
    assert [placement.placement for placement in still_standing] == []
    assert town.gangs() == []
    assert town.errors() == [], "nothing that was killed may bring brokerd into trouble"
    assert town.tool("rebuild", "--check") == "the views follow from the events\n"

    lines, events = laws.read_diary(town.diary), events_of(town)
    assert laws.gangs_at_once(lines) == []
    assert laws.started_twice(lines) == []
    assert laws.epochs_at_once(events) == []
    assert laws.unsealed_resumes(lines, events) == []
    assert laws.wrong_states(lines) == []
    whole = {name for number, name in enumerate(names) if number not in BREAKS}
    assert laws.finished(lines) == {name: set(range(RANKS)) for name in whole}
    assert any(line.resumed for line in lines), "nothing was resumed: the test showed too little"


async def drive(town: Town) -> list[str]:
    """Submit all runs while brokerd is killed at every turn; return their names.

    brokerd lives when this returns.
    """
    chance = random.Random(SEED)
    turns = asyncio.Semaphore(0)
    async with asyncio.timeout(DRIVEN_WITHIN_S), asyncio.TaskGroup() as group:
        submitting = group.create_task(submit_all(town, turns))
        for number in range(KILLS):
            for _ in range((number + 1) * RUNS // KILLS - number * RUNS // KILLS):
                turns.release()
            town.start()
            if chance.random() < 0.25:
                await asyncio.sleep(chance.uniform(0.05, 1.5))  # often before it answers
            else:
                await town.until_ready()
                await strike(town, number)
                await asyncio.sleep(chance.uniform(0.0, 2.0))
            town.kill()
        town.start()
    return submitting.result()


async def strike(town: Town, number: int) -> None:
    """Let what else is to go wrong during this life of brokerd go wrong."""
    if number in CLUSTER_KILLS:
        assert town.kill_cluster(CLUSTER_KILLS[number])
    if number in PREEMPTIONS:
        for region in REGIONS:
            if await town.preempt(region, PREEMPTIONS[number]):
                return


async def submit_all(town: Town, turns: asyncio.Semaphore) -> list[str]:
    """Submit each run when its turn comes, twice by the same request id."""
    names = []
    async with town.client(retry_for_s=60.0) as client:
        for number in range(RUNS):
            await turns.acquire()
            intent = parse_intent(intent_of(town, number).encode(), "intent.yaml", {}).message
            request_id = f"request-{number}"
            run = await client.runs.submit("killed", intent, request_id=request_id)
            again = await client.runs.submit("killed", intent, request_id=request_id)
            assert again.name == run.name
            names.append(run.name)
    return names


async def until_all_ended(town: Town) -> list[run_pb2.Run]:
    """Wait until every run has ended, and nothing of it is left in a cluster."""
    async with asyncio.timeout(ENDED_WITHIN_S), town.client(retry_for_s=30.0) as client:
        while True:
            found = (await client.runs.find("killed", limit=2 * RUNS)).runs
            if all(run.state in ENDED for run in found) and not await town.standing():
                return [await client.runs.get(run.name) for run in found]
            await asyncio.sleep(0.25)


def outcome(run: run_pb2.Run) -> tuple[str, str]:
    state = run_pb2.RunState.Name(run.state).removeprefix("RUN_STATE_")
    return state, errors_pb2.Reason.Name(run.why.reason).removeprefix("REASON_")


def expected(number: int) -> tuple[str, str]:
    if number in BREAKS:
        return "FAILED", "FAILED_BEFORE_CHECKPOINT"
    return "SUCCEEDED", "COMPLETED"


def intent_of(town: Town, number: int) -> str:
    way = "stumbles" if number in STUMBLES else "breaks" if number in BREAKS else "steady"
    command = (
        f"{sys.executable} {GANG} --diary {town.diary} --steps {STEPS} --save-every {SAVE_EVERY}"
        f" --step-seconds {STEP_S} --way {way}"
    )
    return (
        f"workload:\n  command: {command}\n  hardware:\n    - accelerator: {ACCELERATOR}\n"
        f"      accelerators_per_node: 1\n      nodes: {RANKS}\nterms:\n  capacity_types: [spot]\n"
    )


def events_of(town: Town) -> list[Recorded]:
    database = open_database(town.data / LOG_NAME, is_read_only=True)
    try:
        return list(log.read_all(database))
    finally:
        database.close()
