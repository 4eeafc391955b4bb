"""Whatever ends the demo, and whenever, no process and no file of it is left."""

from __future__ import annotations

from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM, Signals

import pytest

from broker.demo.__main__ import INTERRUPTED
from tests.demo.onlooker import looking_on

pytestmark = pytest.mark.alone

EARLY = ("--kill-at", "3", "--preempt-at", "45")


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (SIGINT, "The capacity broker"),  # brokerd is starting
        (SIGTERM, "5 of 8 machines"),  # gangs stand at gates
        (SIGINT, "kill -9"),  # there is no brokerd
        (SIGHUP, "are preempted"),  # the training saves
    ],
)
def test_an_interrupted_demo_leaves_nothing(number: Signals, moment: str) -> None:
    with looking_on(*EARLY) as demo:
        demo.wait_for(moment)
        demo.signal(number)
        demo.wait_for("demo: interrupted")
        demo.signal(SIGINT)  # whoever is impatient must not stop the clean-up
        assert demo.end() == INTERRUPTED, demo.said
        assert (demo.processes(), demo.files()) == ({}, [])
        assert "Traceback" not in demo.said


def test_a_demo_that_is_killed_takes_broker_regions_and_gangs_with_it() -> None:
    with looking_on(*EARLY) as demo:
        demo.wait_for("every rank runs")
        commands = " ".join(demo.processes().values())
        demo.signal(SIGKILL)
        assert demo.end() == -SIGKILL
        for expected in ("broker.daemon", "regions.local", "train.py", "broker.demo.sweeper"):
            assert expected in commands
        demo.eventually_nothing_is_left()
