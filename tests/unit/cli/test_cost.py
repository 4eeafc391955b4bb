"""What a run was paid for, as it is printed: the parts add up to the total."""

from __future__ import annotations

from decimal import Decimal

import pytest
from google.type.money_pb2 import Money
from hypothesis import given
from hypothesis import strategies as st

from broker.cli import words
from broker.cli.cost import parts_of
from broker.cli.session import Session
from broker.cli.timeline import show_spending
from broker.v1.run_pb2 import Spending
from broker.v1.run_service_pb2 import GetTimelineResponse

MICROS = st.integers(min_value=0, max_value=10**13)


def money(micros: int) -> Money:
    return Money(currency_code="USD", units=micros // 1_000_000, nanos=micros % 1_000_000 * 1_000)


@given(st.lists(MICROS, min_size=3, max_size=3))
def test_what_is_printed_adds_up_to_what_is_printed(parts: list[int]) -> None:
    total = money(sum(parts))
    shown = words.shared(total, [money(part) for part in parts])
    assert sum(Decimal(one[1:]) for one in shown) == Decimal(words.dollars(total)[1:])
    for part, one in zip(parts, shown, strict=True):
        assert abs(Decimal(one[1:]) - Decimal(part) / 1_000_000) < Decimal("0.015")


def test_parts_that_are_not_all_of_the_total_are_told_as_they_are() -> None:
    assert words.shared(money(5_000_000), [money(1_000_000)]) == ["$1.00"]


def test_the_attempts_of_a_run_add_up_to_its_cost(capsys: pytest.CaptureFixture[str]) -> None:
    found = GetTimelineResponse(cost=money(38_281))
    for micros in (5_301, 32_980):
        found.placements.add(cost=money(micros), gpus=1)
    show_spending(Session(server="", team="", is_json=False), found)
    first, second = (line.split()[-2] for line in capsys.readouterr().out.splitlines()[1:3])
    assert (first, second) == ("$0.01", "$0.03")


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0.00"), (38, "0.0106"), (359, "0.0997"), (7200, "2.00")]
)
def test_hours_of_seconds_are_told_with_digits_that_say_something(
    seconds: float, said: str
) -> None:
    assert words.hours(seconds) == said


def test_idle_machines_are_told_apart_from_training() -> None:
    spending = Spending(cost=money(5_034_722))
    spending.cost_by_phase.provisioning.CopyFrom(money(26_389))
    spending.cost_by_phase.at_gate.CopyFrom(money(8_333))
    spending.cost_by_phase.running.CopyFrom(money(5_000_000))
    spending.gpu_time.running.FromSeconds(7200)
    spending.gpu_time.provisioning.FromSeconds(38)
    training, incomplete, at_gate = parts_of(spending)
    assert training == "  training           $5.00     2.00 GPU-hours"
    assert incomplete.startswith(
        "  idle, incomplete   $0.02     0.0106 GPU-hours: machines that stood"
    )
    assert at_gate.startswith("  idle, at its gate  $0.01     0.00 GPU-hours: the whole gang stood")
    assert words.idle(spending) == "$0.03"
