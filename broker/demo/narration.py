"""Which events the demo tells of, in which words.

The rule: the sentences are the broker's own; here is only picked what is worth a line. Read
``sentence`` first.
"""

from dataclasses import dataclass

from broker.v1 import event_pb2 as pb
from broker.v1.event_pb2 import Event
from broker.v1.placement_pb2 import (
    PLACEMENT_STATE_AT_GATE,
    PLACEMENT_STATE_PROVISIONING,
    PLACEMENT_STATE_QUEUED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One line, and how it looks."""

    text: str
    style: str = ""


_WORDS: dict[int, tuple[str, str]] = {
    pb.EVENT_TYPE_PLACEMENT_ADDED: ("a leg: {}", ""),
    pb.EVENT_TYPE_PLACEMENT_STUCK: ("judged stuck: {}", "yellow"),
    pb.EVENT_TYPE_WITHDRAWAL_ORDERED: ("withdrawn: {}", ""),
    pb.EVENT_TYPE_GRANTED: ("granted: {}", "green"),
    pb.EVENT_TYPE_EPOCH_STARTED: ("{}", ""),
    pb.EVENT_TYPE_GANG_RUNNING: ("{}", "green"),
    pb.EVENT_TYPE_CHECKPOINT_COMPLETED: ("{}", "dim"),
    pb.EVENT_TYPE_CHECKPOINT_COPIED: ("{}", "dim"),
    pb.EVENT_TYPE_DRAIN_REQUESTED: ("asked to save: {}", ""),
    pb.EVENT_TYPE_DRAIN_ACKNOWLEDGED: ("{}", "green"),
    pb.EVENT_TYPE_SEALED: ("sealed: {}", ""),
    pb.EVENT_TYPE_REQUEUED: ("queued again: {}", ""),
    pb.EVENT_TYPE_ENDED: ("the run is over: {}", "bold green"),
    pb.EVENT_TYPE_WARNED: ("warning: {}", "red"),
}
_SEEN = (PLACEMENT_STATE_QUEUED, PLACEMENT_STATE_PROVISIONING, PLACEMENT_STATE_AT_GATE)


def sentence(event: Event) -> Told | None:
    """Return the line for an event, None when it is not worth one."""
    if event.type == pb.EVENT_TYPE_PLACEMENT_SEEN and event.placement_state in _SEEN:
        return Told(text=event.message)
    words = _WORDS.get(event.type)
    if words is None:
        return None
    text = words[0].format(event.message)
    if event.type == pb.EVENT_TYPE_PLACEMENT_STUCK and event.next_action:
        text += f"; {event.next_action}"
    return Told(text=text, style=words[1])
