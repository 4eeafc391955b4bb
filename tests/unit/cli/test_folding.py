"""Checkpoints are told many in one line, the rest as it is and in its order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.cli.folding import Fold, folded
from broker.cli.following import event_line
from broker.v1 import event_pb2, offer_pb2

Event = event_pb2.Event
SAVED = event_pb2.EVENT_TYPE_CHECKPOINT_COMPLETED
COPIED = event_pb2.EVENT_TYPE_CHECKPOINT_COPIED
PRUNED = event_pb2.EVENT_TYPE_CHECKPOINT_PRUNED
EXPLAINED = event_pb2.EVENT_TYPE_WAIT_EXPLAINED
WARNED = event_pb2.EVENT_TYPE_WARNED
KINDS = (SAVED, COPIED, PRUNED, EXPLAINED, WARNED)


def copied(step: int, region: str) -> Event:
    return Event(type=COPIED, step=step, place=offer_pb2.Place(region=region))


def test_checkpoints_that_follow_each_other_are_one_line() -> None:
    events = [
        *(Event(type=SAVED, step=step) for step in range(40, 520, 40)),
        copied(440, "us-east4"),
        copied(480, "us-east4"),
        copied(480, "eu-west4"),
        Event(type=PRUNED, step=40),
    ]
    (fold,) = folded(events)
    assert isinstance(fold, Fold)
    assert fold.message == (
        "12 checkpoints, newest step 480; 3 copies to us-east4, eu-west4, newest step 480;"
        " 1 removed by retention"
    )
    assert event_line(fold).endswith(f"  {fold.message}")


def test_a_lone_checkpoint_is_told_as_it_is() -> None:
    saved, warned = Event(type=SAVED, step=1, message="one"), Event(type=WARNED)
    assert folded([saved, warned, saved]) == [saved, warned, saved]


def test_the_same_words_are_told_once_until_something_else_is_said() -> None:
    wait = Event(type=EXPLAINED, message="24 H100 ahead", next_action="look again")
    later = Event(type=EXPLAINED, message="24 H100 ahead", next_action="look again", sequence=9)
    other = Event(type=EXPLAINED, message="8 H100 ahead", next_action="look again")
    warned = Event(type=WARNED)
    assert folded([wait, later, other, wait, warned, wait]) == [wait, other, wait, warned, wait]


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 3))))
def test_nothing_is_lost_and_the_order_stays(drawn: list[tuple[int, int]]) -> None:
    events = [
        Event(sequence=at, type=event_pb2.EventType.ValueType(kind), step=n, message=f"{n}")
        for at, (kind, n) in enumerate(drawn, start=1)
    ]
    told: list[int] = []
    for one in folded(events):
        told += [e.sequence for e in one.events] if isinstance(one, Fold) else [one.sequence]
    repeats = {e.sequence for e in events if e.type == EXPLAINED} - set(told)
    assert told == [e.sequence for e in events if e.sequence not in repeats]
    for sequence in repeats:
        before = events[sequence - 2]
        assert (before.type, before.message) == (EXPLAINED, events[sequence - 1].message)
