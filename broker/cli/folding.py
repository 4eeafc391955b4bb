"""The events of a run as a person reads them: checkpoints many in one line, and nothing twice.

The rule: the order stays, nothing but checkpoints and repeated words is folded, and a lone
checkpoint is told as it is. Read ``Folding.take`` first.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from broker.cli import words
from broker.v1 import event_pb2

_SAVED = event_pb2.EVENT_TYPE_CHECKPOINT_COMPLETED
_COPIED = event_pb2.EVENT_TYPE_CHECKPOINT_COPIED
_PRUNED = event_pb2.EVENT_TYPE_CHECKPOINT_PRUNED
_FOLDED = frozenset({_SAVED, _COPIED, _PRUNED})
_EXPLAINED = event_pb2.EVENT_TYPE_WAIT_EXPLAINED


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Two or more events about checkpoints, one after the other."""

    events: tuple[event_pb2.Event, ...]

    @property
    def last(self) -> event_pb2.Event:
        """The last of them."""
        return self.events[-1]

    @property
    def message(self) -> str:
        """What they come to: ``12 checkpoints, newest step 480; copied to us-east4``."""
        saved = [event.step for event in self.events if event.type == _SAVED]
        copied = [event for event in self.events if event.type == _COPIED]
        pruned = sum(1 for event in self.events if event.type == _PRUNED)
        said = []
        if saved:
            said.append(f"{words.counted(len(saved), 'checkpoint')}, newest step {max(saved)}")
        if copied:
            places = ", ".join(dict.fromkeys(event.place.region for event in copied))
            copies = "1 copy" if len(copied) == 1 else f"{len(copied)} copies"
            newest = max(event.step for event in copied)
            said.append(f"{copies} to {places}, newest step {newest}")
        if pruned:
            said.append(f"{pruned} removed by retention")
        return "; ".join(said)


class Folding:
    """Folds events as they come."""

    def __init__(self) -> None:
        self._held: list[event_pb2.Event] = []
        self._explained = ("", "")

    def take(self, event: event_pb2.Event) -> Iterator[event_pb2.Event | Fold]:
        """Yield what is to be told now: nothing while checkpoints may still follow checkpoints."""
        if event.type in _FOLDED:
            self._held.append(event)
            self._explained = ("", "")
            return
        yield from self.rest()
        is_explained = event.type == _EXPLAINED
        said = (event.message, event.next_action) if is_explained else ("", "")
        # The same words with another time for the next look are no news.
        if not (is_explained and said == self._explained):
            yield event
        self._explained = said

    def rest(self) -> Iterator[event_pb2.Event | Fold]:
        """Yield what is held back, once nothing may follow."""
        held, self._held = tuple(self._held), []
        if len(held) > 1:
            yield Fold(events=held)
        else:
            yield from held


def folded(events: Iterable[event_pb2.Event]) -> list[event_pb2.Event | Fold]:
    """Return events as they are told."""
    folding = Folding()
    told = [one for event in events for one in folding.take(event)]
    return [*told, *folding.rest()]
