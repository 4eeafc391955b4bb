"""Law: the run of the demo ends with the weights of one that nothing happened to."""

from __future__ import annotations

import asyncio
import hashlib
import io
from pathlib import Path

import pytest
from rich.console import Console

from broker.demo.household import Household
from broker.demo.screen import Screen
from broker.demo.stage import FIRST, REGIONS, SECOND, THIRD
from broker.demo.story import Pace, tell
from broker.v1 import run_pb2
from broker.v1.placement_pb2 import PLACEMENT_END_PREEMPTED as PREEMPTED
from broker.v1.placement_pb2 import PLACEMENT_END_SUCCEEDED as SUCCEEDED
from broker.v1.placement_pb2 import PLACEMENT_END_WITHDRAWN as WITHDRAWN
from tests.demo.onlooker import STORY
from tests.unit.demo.gang import undisturbed

pytestmark = pytest.mark.alone

STEPS = 200
TOLD = (*STORY, "cost $")
PACE = Pace(steps=STEPS, step_s=0.12, kill_at=5, preempt_at=45)


def test_stuck_moved_orphaned_and_preempted_gives_the_same_weights_bit_for_bit(
    tmp_path: Path,
) -> None:
    told = io.StringIO()
    household = Household()
    try:
        household.open()
        with Screen(REGIONS, Console(file=told)) as screen:
            run = asyncio.run(tell(household, screen, PACE))
        starts = [(epoch.region, epoch.resume_step > 0) for epoch in run.epochs]
        disturbed = _digest(_final_weights(household, run))
    finally:
        is_clean = household.close()
    assert starts == [(SECOND, False), (THIRD, True)], told.getvalue()
    legs = [(leg.place.region, leg.end) for leg in run.placements]
    assert legs == [(FIRST, WITHDRAWN), (SECOND, PREEMPTED), (THIRD, SUCCEEDED)], told.getvalue()
    words = " ".join(told.getvalue().split())
    assert [one for one in TOLD if one not in words] == [], told.getvalue()
    assert disturbed == _digest(undisturbed(tmp_path, STEPS))
    assert is_clean


def _final_weights(household: Household, run: run_pb2.Run) -> Path:
    epoch = household.store(THIRD) / "runs" / run.uid / run.epochs[-1].folder
    return epoch / "checkpoints" / f"step-{STEPS}" / "weights.npy"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
