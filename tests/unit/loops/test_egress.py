"""What leaves a region within an hour is held against one budget."""

from broker.loops.egress import NO_BUDGET_BYTES, PERIOD_S, Egress
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
