"""Where the GPU-seconds went, and what they cost."""

from __future__ import annotations

from decimal import Decimal

from broker.history.commands import AdoptEpoch
from broker.model.bill import Bill, NodesFrom, PaidTime, PhaseCost
from broker.model.billing import (
    gate_gpus,
    hourly,
    live_cost,
    run_bill,
    running_gpus,
    time_to_useful_work_s,
)
from broker.model.checkpoint import EpochId
from broker.model.run import CloseRule, PhaseSeconds, Purpose
from broker.model.states import PlacementState
from tests.builders import Story, make_site

HOUR_S = 3600.0
# A machine of the gang has one GPU at 2.50 an hour.


def steps(*told: tuple[float, int]) -> tuple[NodesFrom, ...]:
    return tuple(NodesFrom(at_s=at_s, nodes=nodes) for at_s, nodes in told)


def seconds(story: Story) -> tuple[float, float, float]:
    """GPU-seconds by phase: gathering, at the gate, past it."""
    time = run_bill(story.run, story.now).time
    return time.provisioning_ms / 1000, time.at_gate_ms / 1000, time.running_ms / 1000


def test_machines_are_paid_from_when_each_came() -> None:
    story = Story().accepted().wait(5).placed().wait(10).prepared().reported().wait(100)
    story.provisioned(0).wait(50).provisioned(1).wait(30).provisioned(2).wait(4)
    story.at_gate().wait(6).granted().started().wait(HOUR_S)
    assert seconds(story) == (1 * 30 + 2 * 4, 2 * 6, 2 * HOUR_S)
    assert live_cost(story.run, story.now) == Decimal("5.034722")
    story.closed(0, 0).wait(HOUR_S)
    assert live_cost(story.run, story.now) == story.run.spent == Decimal("5.034722")
    assert run_bill(story.run, story.now) == Bill(
        time=PaidTime(provisioning_ms=38_000, at_gate_ms=12_000, running_ms=7_200_000),
        cost=PhaseCost(
            provisioning=Decimal("0.026389"), at_gate=Decimal("0.008333"), running=Decimal("5")
        ),
    )


def test_a_stockout_without_a_machine_costs_nothing() -> None:
    story = Story().accepted().placed().prepared().reported()
    story.provisioned(0).wait(300).gone()
    assert live_cost(story.run, story.now) == 0
    assert hourly(story.run) == 0


def test_what_nobody_counts_is_paid_whole_once_it_is_on_its_way() -> None:
    story = Story().accepted().placed().prepared().reported().wait(10)
    story.provisioned(None).wait(HOUR_S)
    assert live_cost(story.run, story.now) == Decimal("5")


def test_machines_that_vanish_one_by_one_are_paid_one_by_one() -> None:
    story = Story().accepted().training().wait(100)
    story.provisioned(1).wait(50).provisioned(0).wait(1000)
    assert story.placement("alpha").state is PlacementState.RUNNING
    assert seconds(story) == (0, 0, 2 * 100 + 1 * 50)


def test_a_change_that_is_told_late_counts_from_its_own_time() -> None:
    # Silent for an hour; one machine was lost after ten minutes of it.
    story = Story().accepted().training()
    began_s = story.now.elapsed_s
    story.wait(HOUR_S)
    assert live_cost(story.run, story.now) == Decimal("5")  # unknown is not zero
    story.provisioned(1, nodes=steps((began_s, 2), (began_s + 600, 1)))
    assert seconds(story) == (0, 0, 2 * 600 + 1 * 3000)


def test_an_end_that_is_told_late_counts_from_its_own_time() -> None:
    story = Story().accepted().training().closed(rule=CloseRule.UNREACHABLE)
    began_s = story.now.elapsed_s
    story.wait(HOUR_S)
    assert live_cost(story.run, story.now) == Decimal("5")
    story.gone(nodes=steps((began_s, 2), (began_s + 36, 0)))
    assert live_cost(story.run, story.now) == Decimal("0.05")
    assert story.placement("alpha").phases.running == 36.0


def test_an_end_without_a_time_is_paid_until_it_is_seen() -> None:
    story = Story().accepted().training().wait(HOUR_S).preempted()
    assert live_cost(story.run, story.now) == Decimal("5")


def test_what_is_booked_stays_whatever_is_told_later() -> None:
    story = Story().accepted().placed().prepared().reported().wait(100).provisioned(2).wait(100)
    story.at_gate()
    story.provisioned(1, nodes=steps((0.0, 0), (150.0, 1)))
    assert seconds(story) == (200, 0, 0)
    assert hourly(story.run) == Decimal("2.5")


def test_a_placement_that_came_and_went_between_two_looks_is_paid() -> None:
    story = Story().accepted().placed().prepared().reported().wait(HOUR_S)
    story.gone(nodes=steps((100.0, 2), (460.0, 1), (820.0, 0)))
    assert seconds(story) == (2 * 360 + 1 * 360, 0, 0)


def test_a_gang_that_came_and_started_unseen_trained_from_when_it_was_whole() -> None:
    # Granted with its placement, it needs nobody: the broker was away for an hour.
    story = Story().accepted().placed().prepared().granted().reported().wait(HOUR_S)
    story.started(nodes=steps((1000.0, 1), (1100.0, 2)))
    assert seconds(story) == (100, 0, 2 * 2500)
    assert story.placement("alpha").phases == PhaseSeconds(queued=1100.0, running=0.0)


def test_an_adopted_start_is_paid_from_when_its_machines_came_until_they_went() -> None:
    story = Story().accepted().wait(HOUR_S)
    story.do(
        AdoptEpoch(
            epoch=EpochId(number=7, nonce="n" * 12),
            placement="p" * 12,
            site=make_site(),
            nonces=("a", "b"),
            resume_from=None,
            seals=(),
            nodes=steps((1000.0, 2), (1360.0, 0)),
        )
    )
    assert seconds(story) == (0, 0, 720)
    story.wait(HOUR_S).closed(0, 0)
    assert seconds(story) == (0, 0, 720)
    assert story.run.spent == Decimal("0.5")


def test_each_placement_is_paid_at_its_own_price() -> None:
    story = Story().accepted().placed().placed("beta", price_per_gpu_hour=Decimal("4.00"))
    story.prepared().prepared("beta").reported().reported("beta")
    story.provisioned(2).provisioned(1, "beta").wait(HOUR_S)
    assert hourly(story.run) == Decimal("9")
    assert live_cost(story.run, story.now) == Decimal("9")


def test_a_gang_that_may_still_run_is_still_paid() -> None:
    story = Story().accepted().training().closed(rule=CloseRule.UNREACHABLE).wait(HOUR_S)
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
