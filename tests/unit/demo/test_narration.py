"""What the demo says of what it hears."""

from __future__ import annotations

from broker.demo.narration import Narrator, Told
from broker.v1 import event_pb2 as pb
from broker.v1 import placement_pb2
from broker.v1.offer_pb2 import Place

PROVISIONING = placement_pb2.PLACEMENT_STATE_PROVISIONING
LEG = "teams/t/runs/r/placements/p"


def test_a_checkpoint_is_told_once_all_copies_stand_and_only_the_first_two_are() -> None:
    narrator = Narrator(regions=3)
    told = [
        narrator.hear(event, 0.0)
        for step in (20, 40, 60)
        for event in (completed(step, "a"), copied(step, "c"), copied(step, "b"))
    ]
    line = "checkpoint of step {} is complete in a, and copied to b and c"
    assert [lines[0].text for lines in told if lines] == [line.format(20), line.format(40)]


def test_later_checkpoints_are_counted_beside_the_steps() -> None:
    narrator = Narrator(regions=2)
    assert narrator.step(49, 3.0) == []
    assert narrator.step(51, 2.5) == [Told(text="step 51, loss 2.50", style="dim")]
    for event in (completed(20, "a"), copied(20, "b"), completed(40, "a"), completed(60, "a")):
        narrator.hear(event, 0.0)
    assert narrator.step(99, 2.4) == []
    assert narrator.step(100, None) == []
    (told,) = narrator.step(104, 2.25)
    assert told.text == "step 104, loss 2.25; 3 checkpoints, step 20 is in every region"


def test_machines_are_told_once_no_more_of_them_come() -> None:
    narrator = Narrator(regions=3)
    told = []
    for at_s, here in ((0.0, 0), (0.1, 3), (0.7, 4), (1.3, 5)):
        told += narrator.hear(seen_at(PROVISIONING, here), at_s)
        told += narrator.settle(at_s + 0.5)
    assert told == []
    assert narrator.settle(2.2) == [Told(text="5 machines")]
    assert narrator.settle(3.2) == []


def test_the_whole_gang_is_told_at_once_and_its_machines_no_more() -> None:
    narrator = Narrator(regions=3)
    narrator.hear(seen_at(PROVISIONING, 7), 0.0)
    at_gate = seen_at(placement_pb2.PLACEMENT_STATE_AT_GATE, 8)
    assert narrator.hear(at_gate, 0.1) == [Told(text="8 machines")]
    assert narrator.settle(5.0) == []


def test_a_withdrawal_names_the_region_of_its_leg_and_a_stuck_wait_what_is_next() -> None:
    narrator = Narrator(regions=3)
    added = pb.Event(
        type=pb.EVENT_TYPE_PLACEMENT_ADDED, placement=LEG, place=Place(region="a"), message="8 GPUs"
    )
    stuck = pb.Event(
        type=pb.EVENT_TYPE_PLACEMENT_STUCK, placement=LEG, message="five came", next_action="move"
    )
    withdrawn = pb.Event(
        type=pb.EVENT_TYPE_WITHDRAWAL_ORDERED, placement=LEG, message="b was first"
    )
    told = [line.text for event in (added, stuck, withdrawn) for line in narrator.hear(event, 0.0)]
    assert told == [
        "a leg: 8 GPUs",
        "judged stuck: five came; move",
        "withdrawn from a: b was first",
    ]
    assert narrator.hear(seen_at(placement_pb2.PLACEMENT_STATE_QUEUED, 0), 0.0) == []


def completed(step: int, region: str) -> pb.Event:
    kind = pb.EVENT_TYPE_CHECKPOINT_COMPLETED
    return pb.Event(type=kind, step=step, place=Place(region=region))


def copied(step: int, region: str) -> pb.Event:
    return pb.Event(type=pb.EVENT_TYPE_CHECKPOINT_COPIED, step=step, place=Place(region=region))


def seen_at(state: placement_pb2.PlacementState.ValueType, here: int) -> pb.Event:
    arrival = placement_pb2.Arrival(nodes_here=here, nodes_wanted=8)
    return pb.Event(
        type=pb.EVENT_TYPE_PLACEMENT_SEEN,
        placement=LEG,
        placement_state=state,
        arrival=arrival,
        message=f"{here} machines",
    )
