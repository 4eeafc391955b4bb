"""What ``broker status`` says of machines with a planned end, and of who follows."""

from broker.cli.status import rendered
from broker.model.intent import CapacityType
from broker.model.reasons import Reason
from broker.model.run import Purpose
from broker.model.states import PlacementState
from broker.service.convert_run import run_message
from tests.builders import Story, make_intent, make_terms

TERMS = make_terms(capacity_types=(CapacityType.FLEX, CapacityType.SPOT))


def test_who_asks_reads_when_the_machines_end_and_where_the_run_goes_on() -> None:
    story = Story(make_intent(terms=TERMS)).accepted().training()
    story.reported("alpha", PlacementState.RUNNING, Reason.TRAINING, machines_end_s=7_200.0)
    story.placed("beta", Purpose.SUCCESSOR, capacity_type=CapacityType.FLEX).prepared("beta")
    story.reported("beta", reason=Reason.WAITING_FOR_FLEX, expected_s=3_600.0)
    said = rendered(run_message(story.run, story.now), story.now.wall_s)
    here, there = (line for line in said.splitlines() if "a GPU-hour" in line)
    assert "its machines end in 2h00m" in here
    assert "expected in 1h00m" in there
    assert "the run goes on there when its present machines end" in there


def test_nothing_is_said_of_machines_that_stay() -> None:
    story = Story().accepted().training()
    said = rendered(run_message(story.run, story.now), story.now.wall_s)
    assert "machines end" not in said
