"""What failed and is tried again: left alone for its time, forgotten after it, and bounded."""

from broker.loops.later import AGAIN_S, KEPT, LONG_AGAIN_S, Later
from broker.model.reasons import Reason
from broker.runtime.clock import SystemClock
from replicator.errors import Corrupt, StoreUnreachable
from tests.fakes.readings import HandReadings


def test_what_failed_is_left_alone_for_its_time() -> None:
    readings = HandReadings()
    later: Later[str] = Later(SystemClock(None, readings))
    later.put_off("one", 10.0)
    readings.wait(9.0)
    assert later.is_too_soon("one")
    assert not later.is_too_soon("other")
    readings.wait(1.0)
    assert not later.is_too_soon("one")
    assert later.waiting == ()


def test_only_of_what_cannot_pass_by_itself_its_run_is_told() -> None:
    readings = HandReadings()
    later: Later[str] = Later(SystemClock(None, readings))
    assert later.failed("away", "alpha", StoreUnreachable("alpha", "no answer")) == ()
    (told,) = later.failed("rotten", "alpha", Corrupt("step 3", "it is not what was sealed"))
    assert told.reason is Reason.COPY_NOT_VERIFIED
    assert told.message == "content for alpha: step 3: it is not what was sealed"
    readings.wait(AGAIN_S)
    assert (later.is_too_soon("away"), later.is_too_soon("rotten")) == (False, True)
    readings.wait(LONG_AGAIN_S - AGAIN_S)
    assert not later.is_too_soon("rotten")


def test_what_nobody_asks_for_again_is_forgotten_and_the_latest_are_not() -> None:
    later: Later[int] = Later(SystemClock(None, HandReadings()))
    for number in range(KEPT):
        later.put_off(number, 10.0)
    later.put_off(0, 10.0)
    later.put_off(KEPT, 10.0)
    assert len(later.waiting) == KEPT
    assert later.is_too_soon(0)
    assert not later.is_too_soon(1)
