"""Where the GPU-seconds went, and what they cost."""

from __future__ import annotations

from decimal import Decimal

from broker.history.billing import (
    gate_gpu_seconds,
    gate_gpus,
    live_cost,
    live_gpu_seconds,
    running_gpus,
    time_to_useful_work_s,
)
from broker.model.reasons import Reason
from broker.model.run import CloseRule, PhaseSeconds, Purpose
from broker.model.states import PlacementState
from tests.builders import Story


def test_gpus_are_paid_from_the_moment_their_nodes_are_bought() -> None:
    story = Story().accepted().wait(5).placed().wait(10).prepared().reported().wait(100)
    story.reported(state=PlacementState.PROVISIONING, reason=Reason.NODES_COMING).wait(30)
    story.at_gate().wait(6).granted().started().wait(3600)
    # Two GPUs at 2.50: an hour and 36 seconds of each.
    assert live_cost(story.run, story.now) == Decimal("5.05")
    assert live_gpu_seconds(story.run, story.now) == PhaseSeconds(
        preparing=20.0, queued=200.0, provisioning=60.0, at_gate=12.0, running=7200.0
    )
    story.closed(0, 0).wait(3600)
    assert live_cost(story.run, story.now) == story.run.spent == Decimal("5.05")
    assert gate_gpu_seconds(story.run, story.now) == 12.0


def test_a_gang_that_may_still_run_is_still_paid() -> None:
    story = Story().accepted().training().closed(rule=CloseRule.UNREACHABLE).wait(3600)
    assert live_cost(story.run, story.now) == Decimal("5.00")
    assert running_gpus(story.run) == 2
    story.gone("alpha")
    assert running_gpus(story.run) == 0


def test_a_grant_holds_its_gpus_against_the_cap_at_once() -> None:
    story = Story().accepted().placed().prepared()
    assert (running_gpus(story.run), gate_gpus(story.run)) == (0, 0)
    story.granted()
    assert (running_gpus(story.run), gate_gpus(story.run)) == (2, 0)


def test_a_hedge_holds_gate_gpus_from_the_start_a_first_leg_from_its_nodes() -> None:
    story = Story().accepted().placed("alpha").placed("beta", Purpose.HEDGE)
    assert gate_gpus(story.run) == 2
    story.at_gate("alpha")
    assert gate_gpus(story.run) == 4


def test_time_to_useful_work_ends_with_the_first_step() -> None:
    story = Story().accepted().wait(90).training()
    assert time_to_useful_work_s(story.run) is None
    story.wait(5).trained(1).wait(60).trained(9)
    assert time_to_useful_work_s(story.run) == 95.0
