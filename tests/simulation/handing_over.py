"""The laws as they hold for machines with a planned end, and for capacity that is booked.

The rule: as in ``laws``: each takes what really happened, and yields a sentence for each breach.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.history.events import (
    DrainRequested,
    EpochAdopted,
    EpochStarted,
    Granted,
    PlacementAdded,
    PlacementEnded,
    Recorded,
    Requeued,
    WithdrawalOrdered,
)
from broker.model.intent import CapacityType
from broker.model.reasons import Reason

PLANNED_S = 60.0  # from the first look at a gang that trains to its being asked to save


def law_8_who_leaves_as_planned_is_asked_to_save(
    placement: str, well_s: float, *, is_asked: bool
) -> Iterator[str]:
    """A planned end takes no gang that could have been asked to save: it trained, and all was well,
    for long enough to hear of the end and to be asked."""
    if well_s > PLANNED_S and not is_asked:
        yield f"the machines of {placement} go as planned, and nobody asked it to save"


def law_8_one_booking_at_a_time(stream: list[Recorded]) -> Iterator[str]:
    """Beside the gang that trains a run has one leg at most that may come to bill flex capacity."""
    booked: set[str] = set()
    granted: dict[str, str] = {}
    for one in stream:
        match one.event:
            case PlacementAdded() if one.event.site.capacity_type is CapacityType.FLEX:
                if booked:
                    yield f"{one.event.placement} is booked beside {sorted(booked)}"
                booked.add(one.event.placement)
            case WithdrawalOrdered() | PlacementEnded() | EpochAdopted():
                booked.discard(one.event.placement)
            case Granted():
                granted[one.event.epoch.folder] = one.event.placement
            case EpochStarted():
                booked.discard(granted.get(one.event.epoch.folder, ""))
            case _:
                pass


def law_7_a_handover_is_no_loss(stream: list[Recorded]) -> Iterator[str]:
    """A run that leaves its machines as planned was asked to once, and is charged for nothing."""
    asked = 0
    for one in stream:
        match one.event:
            case DrainRequested() if one.event.reason is Reason.PLANNED_END:
                asked += 1
            case Requeued() if one.event.reason is Reason.PLANNED_END:
                if asked != 1 or one.event.failure is not None:
                    yield f"it was asked {asked} times, and charged {one.event.failure}"
            case Granted():
                asked = 0
            case _:
                pass
