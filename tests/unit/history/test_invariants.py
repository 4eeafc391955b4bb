"""Each invariant rings when its fault is planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from broker.history.invariants import violations
from broker.model.bill import Bill, Meter, PaidTime, PhaseCost
from broker.model.checkpoint import EpochId
from broker.model.reasons import Reason
from broker.model.run import Ending, Epoch, Placement, Run, Why
from broker.model.states import EpochState, PlacementState, RunState
from tests.builders import Story, make_checkpoint

WITHDRAWN = Why(reason=Reason.STOCKOUT, message="moved", since_s=0.0)


def training() -> Run:
    return Story().accepted().training().run


def resumed() -> Run:
    return Story().accepted().training().saved(100).preempted().training().run


def with_epoch(change: Callable[[Epoch], Epoch], run: Run | None = None) -> Run:
    run = run or training()
    return replace(run, epochs=(*run.epochs[:-1], change(run.epochs[-1])))


def with_placement(change: Callable[[Placement], Placement], run: Run | None = None) -> Run:
    run = run or training()
    changed = {key: change(placement) for key, placement in run.placements.items()}
    return replace(run, placements=changed)


def billed(bill: Bill) -> Run:
    return replace(Story().accepted().run, bill=bill)


def metered(meter: Meter) -> Run:
    return with_placement(lambda p: replace(p, meter=meter))


def second_open(run: Run) -> Run:
    epoch = run.epochs[-1]
    second = replace(epoch, id=EpochId(number=2, nonce="second"))
    return replace(run, epochs=(epoch, second), next_epoch=3)


QUEUED = Story().accepted().run
PLACED = Story().accepted().placed().run
ENDED = Story().accepted().training().closed(0, 0).run

FAULTS: dict[str, Run] = {
    "two epochs are open": second_open(training()),
    "an epoch's number is used twice": replace(training(), next_epoch=1),
    "a closed epoch has no end": with_epoch(
        lambda e: replace(e, state=EpochState.CLOSED), replace(training(), state=RunState.QUEUED)
    ),
    "a started epoch names no rank": with_epoch(lambda e: replace(e, nonces=())),
    "nobody ordered the stop": with_epoch(lambda e: replace(e, state=EpochState.STOPPING)),
    "an open epoch owes its fence": with_epoch(lambda e: replace(e, is_owed=True)),
    "a queued run has an open epoch": replace(training(), state=RunState.QUEUED),
    "a running run has none": replace(QUEUED, state=RunState.RUNNING),
    "it runs before every rank reported": with_epoch(lambda e: replace(e, running_s=None)),
    "the open epoch's placement has ended": with_placement(
        lambda p: replace(p, state=PlacementState.ENDED)
    ),
    "the open epoch's placement is another's": with_placement(
        lambda p: replace(p, epoch=EpochId(number=7, nonce="x"))
    ),
    "the open epoch's placement waits": with_placement(
        lambda p: replace(p, state=PlacementState.AT_GATE)
    ),
    "the open epoch's placement is withdrawn": with_placement(
        lambda p: replace(p, withdraw=WITHDRAWN)
    ),
    "capacity is kept after the close": with_placement(
        lambda p: replace(p, epoch=EpochId(number=1, nonce="x"), withdraw=None), PLACED
    ),
    "an ended run's leg still waits": replace(ENDED, placements=PLACED.placements),
    "it waits twice in one place": replace(
        PLACED, placements={**PLACED.placements, "copy": next(iter(PLACED.placements.values()))}
    ),
    "a queued run waits since never": replace(QUEUED, wait_began_s=None),
    "a running run still waits": replace(training(), wait_began_s=0.0),
    "a wait has no next action": replace(QUEUED, why=replace(QUEUED.why, next_action="")),
    "a ladder of no wait is climbed": replace(training(), climbed=True),
    "an ended run has no end": replace(ENDED, ended=None),
    "an end waits for nothing": replace(
        QUEUED,
        ending=Ending(
            state=RunState.FAILED, reason=Reason.BUDGET_SPENT, message="spent", grace_s=0.0
        ),
    ),
    "one step is there twice": replace(
        QUEUED,
        checkpoints=(
            make_checkpoint(),
            make_checkpoint(ref=replace(make_checkpoint().ref, digest="e" * 64)),
        ),
    ),
    "a closed epoch's checkpoint is not sealed": replace(
        QUEUED, checkpoints=(make_checkpoint(is_sealed=False),)
    ),
    "it resumes from what does not count": replace(resumed(), checkpoints=()),
    "it goes on from a bad step": replace(
        resumed(), checkpoints=tuple(replace(c, is_bad=True) for c in resumed().checkpoints)
    ),
    "a cost is negative": billed(Bill(cost=PhaseCost(running=Decimal(-1)))),
    "a cost is no number": billed(Bill(cost=PhaseCost(at_gate=Decimal("NaN")))),
    "time runs backwards": billed(Bill(time=PaidTime(running_ms=-1))),
    "machines are fewer than none": metered(Meter(nodes=-1)),
    "machines are more than asked for": metered(Meter(nodes=3)),
    "a meter runs backwards": metered(Meter(paid=PaidTime(at_gate_ms=-1))),
    "a count is negative": replace(QUEUED, user_failures=-1),
}


@pytest.mark.parametrize("run", [QUEUED, PLACED, ENDED, training(), resumed()])
def test_a_sound_run_rings_no_alarm(run: Run) -> None:
    assert violations(run) == ()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault: str) -> None:
    assert violations(FAULTS[fault]) != ()
