"""What leaves a region within an hour is held against one budget."""

from decimal import Decimal

from broker.loops.egress import DAY_S, NO_BUDGET_BYTES, PERIOD_S, Egress
from broker.runtime.clock import SystemClock
from tests.fakes.readings import HandReadings


def test_what_left_a_region_counts_for_an_hour() -> None:
    readings = HandReadings()
    egress = Egress(SystemClock(None, readings))
    egress.book("alpha", 70)
    readings.wait(PERIOD_S / 2)
    egress.book("alpha", 20)
    assert (egress.left_bytes("alpha", 100), egress.left_bytes("beta", 100)) == (10, 100)
    readings.wait(PERIOD_S / 2 + 1.0)
    assert egress.left_bytes("alpha", 100) == 80
    assert egress.left_bytes("alpha", None) == NO_BUDGET_BYTES - 20


def test_what_was_there_already_did_not_leave_and_makes_no_room_for_what_did() -> None:
    readings = HandReadings()
    egress = Egress(SystemClock(None, readings))
    booking = egress.book("alpha", 70)
    readings.wait(PERIOD_S / 2)
    egress.book("alpha", 60)
    booking.sent_bytes = 0
    assert egress.left_bytes("alpha", 100) == 40
    readings.wait(PERIOD_S / 2 + 1.0)
    assert egress.left_bytes("alpha", 100) == 40


def test_what_copies_cost_a_team_counts_for_a_day_and_as_it_is_corrected() -> None:
    readings = HandReadings()
    egress = Egress(SystemClock(None, readings))
    first = egress.book("alpha", 70)
    egress.charge(first, "vision", Decimal("1.5"))
    readings.wait(DAY_S / 2)
    egress.charge(egress.book("beta", 10), "vision", Decimal("0.25"))
    assert egress.charged_usd("vision") == Decimal("1.75")
    assert egress.charged_usd("nlp") == Decimal(0)
    first.usd = Decimal("0.5")
    assert egress.charged_usd("vision") == Decimal("0.75")
    readings.wait(DAY_S / 2 + 1.0)
    assert egress.charged_usd("vision") == Decimal("0.25")
