"""Broker time: what moves it, and what must not."""

from __future__ import annotations

import pytest

from broker.model.moment import Moment
from broker.runtime.clock import ClockMark, MachineReadings, SystemClock
from tests.fakes.readings import HandReadings


def test_a_new_log_begins_at_zero_and_lives_by_the_monotonic_clock() -> None:
    readings = HandReadings()
    clock = SystemClock(None, readings)
    assert clock.now() == Moment(elapsed_s=0.0, wall_s=1_700_000_000.0)
    readings.wait(30.0)
    assert clock.now() == Moment(elapsed_s=30.0, wall_s=1_700_000_030.0)


@pytest.mark.parametrize("step_s", [86_400.0 * 365, -86_400.0 * 365])
def test_a_step_of_the_wall_clock_moves_no_wait(step_s: float) -> None:
    readings = HandReadings()
    clock = SystemClock(None, readings)
    readings.wait(10.0)
    readings.step_wall(step_s)
    readings.wait(10.0)
    assert clock.now() == Moment(elapsed_s=20.0, wall_s=1_700_000_020.0 + step_s)


@pytest.mark.parametrize("step_s", [0.0, 7_200.0, -7_200.0])
def test_a_downtime_on_the_same_boot_counts_by_the_boot_clock(step_s: float) -> None:
    readings = HandReadings()
    first = SystemClock(None, readings)
    readings.wait(100.0)
    mark = first.mark()
    readings.wait(40.0)
    readings.step_wall(step_s)
    assert SystemClock(mark, readings).now().elapsed_s == 140.0


def test_a_downtime_over_a_reboot_counts_by_the_wall_clock() -> None:
    readings = HandReadings()
    first = SystemClock(None, readings)
    readings.wait(100.0)
    mark = first.mark()
    readings.reboot(3_600.0)
    assert SystemClock(mark, readings).now().elapsed_s == 3_700.0


def test_time_never_goes_back_when_the_wall_clock_does_over_a_reboot() -> None:
    readings = HandReadings()
    readings.wait(100.0)
    mark = SystemClock(None, readings).mark()
    readings.reboot(5.0)
    readings.step_wall(-10_000.0)
    assert SystemClock(mark, readings).now().elapsed_s == mark.elapsed_s


def test_a_system_that_does_not_say_which_boot_it_is_falls_back_to_the_wall_clock() -> None:
    readings = HandReadings()
    mark = ClockMark(
        elapsed_s=50.0, wall_s=readings.wall_s() - 8.0, boot_s=readings.boot_s() - 3.0, boot_id=""
    )
    assert SystemClock(mark, readings).now().elapsed_s == 58.0


def test_the_machine_has_clocks_that_do_not_go_back() -> None:
    readings = MachineReadings()
    clock = SystemClock(None, readings)
    first, second = clock.now(), clock.now()
    assert 0.0 <= first.elapsed_s <= second.elapsed_s
    assert readings.boot_s() > 0.0
