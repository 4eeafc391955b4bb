"""Which events the demo tells of, in which words.

The rule: the sentences are the broker's own; here is only picked what is worth a line, and what
comes again and again is told twice and then summed up. Read ``Narrator.hear`` first.
"""

from dataclasses import dataclass

from broker.v1 import event_pb2 as pb
from broker.v1.event_pb2 import Event
from broker.v1.placement_pb2 import (
    PLACEMENT_STATE_AT_GATE,
    PLACEMENT_STATE_PROVISIONING,
    PLACEMENT_STATE_QUEUED,
)

TOLD_IN_FULL = 2
STEPS_A_LINE = 50
SETTLED_S = 0.8
_CHECKPOINTS = (pb.EVENT_TYPE_CHECKPOINT_COMPLETED, pb.EVENT_TYPE_CHECKPOINT_COPIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One line, and how it looks."""

    text: str
    style: str = ""


_WORDS: dict[int, tuple[str, str]] = {
    pb.EVENT_TYPE_PLACEMENT_ADDED: ("a leg: {}", ""),
    pb.EVENT_TYPE_PLACEMENT_STUCK: ("judged stuck: {}", "yellow"),
    pb.EVENT_TYPE_WITHDRAWAL_ORDERED: ("withdrawn from {region}: {}", ""),
    pb.EVENT_TYPE_GRANTED: ("granted: {}", "green"),
    pb.EVENT_TYPE_EPOCH_STARTED: ("{}", ""),
    pb.EVENT_TYPE_GANG_RUNNING: ("{}", "green"),
    pb.EVENT_TYPE_DRAIN_REQUESTED: ("asked to save: {}", ""),
    pb.EVENT_TYPE_DRAIN_ACKNOWLEDGED: ("{}", "green"),
    pb.EVENT_TYPE_SEALED: ("sealed: {}", ""),
    pb.EVENT_TYPE_REQUEUED: ("queued again: {}", ""),
    pb.EVENT_TYPE_ENDED: ("the run is over: {}", "bold green"),
    pb.EVENT_TYPE_WARNED: ("warning: {}", "red"),
}


class Narrator:
    """Knows what was told already."""

    def __init__(self, regions: int) -> None:
        self._regions = regions
        self._homes: dict[int, str] = {}  # where each step's checkpoint was written
        self._copies: dict[int, list[str]] = {}  # and where copies of it came to stand
        self._places: dict[str, str] = {}  # the region of each placement
        self._withdrawn: set[str] = set()  # how these go is of no interest
        self._coming: dict[str, tuple[str, float]] = {}  # a placement's machines, and since when
        self._told_step = 0

    def hear(self, event: Event, now_s: float) -> list[Told]:
        """Return the lines for an event; most have none. ``now_s`` is the time it was heard."""
        if event.type in _CHECKPOINTS:
            return self._checkpoint(event)
        if event.type == pb.EVENT_TYPE_PLACEMENT_SEEN:
            return self._sighting(event, now_s)
        words = _WORDS.get(event.type)
        if words is None:
            return []
        if event.type == pb.EVENT_TYPE_WITHDRAWAL_ORDERED:
            self._withdrawn.add(event.placement)
        if event.type == pb.EVENT_TYPE_PLACEMENT_ADDED:
            self._places[event.placement] = event.place.region
        text = words[0].format(event.message, region=self._places.get(event.placement, ""))
        if event.type == pb.EVENT_TYPE_PLACEMENT_STUCK and event.next_action:
            text += f"; {event.next_action}"
        return [Told(text=text, style=words[1])]

    def settle(self, now_s: float) -> list[Told]:
        """Return a line for each placement to which no more machines came for a moment."""
        settled = [key for key, (_, at_s) in self._coming.items() if now_s - at_s >= SETTLED_S]
        return [Told(text=self._coming.pop(key)[0]) for key in settled]

    def step(self, step: int, loss: float | None) -> list[Told]:
        """Return a line every so many steps, with the checkpoints that were not told singly."""
        if loss is None or step // STEPS_A_LINE <= self._told_step // STEPS_A_LINE:
            return []
        self._told_step = step
        text = f"step {step}, loss {loss:.2f}"
        whole = [s for s, copies in self._copies.items() if len(copies) == self._regions - 1]
        if len(self._homes) > TOLD_IN_FULL and whole:
            text += f"; {len(self._homes)} checkpoints, step {max(whole)} is in every region"
        return [Told(text=text, style="dim")]

    def _checkpoint(self, event: Event) -> list[Told]:
        region = event.place.region
        if event.type == pb.EVENT_TYPE_CHECKPOINT_COMPLETED:
            self._homes[event.step] = region
        elif region != self._homes.get(event.step):
            self._copies.setdefault(event.step, []).append(region)
        copies = self._copies.get(event.step, [])
        if len(copies) < self._regions - 1 or list(self._homes).index(event.step) >= TOLD_IN_FULL:
            return []
        said = f"checkpoint of step {event.step} is complete in {self._homes[event.step]}"
        return [Told(text=f"{said}, and copied to {' and '.join(sorted(copies))}", style="cyan")]

    def _sighting(self, event: Event, now_s: float) -> list[Told]:
        """Keep how many machines came, to be told once no more do; tell other news at once."""
        if event.placement in self._withdrawn:
            return []
        if event.placement_state != PLACEMENT_STATE_PROVISIONING:
            self._coming.pop(event.placement, None)
            is_news = event.placement_state in (PLACEMENT_STATE_QUEUED, PLACEMENT_STATE_AT_GATE)
            return [Told(text=event.message)] if is_news else []
        if 0 < event.arrival.nodes_here < event.arrival.nodes_wanted:
            self._coming[event.placement] = (event.message, now_s)
        else:
            self._coming.pop(event.placement, None)  # none, or all: then the gate follows
        return []
