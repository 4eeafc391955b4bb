"""Events in the words of a trace: what a reader wants to see, and nothing that he said himself."""

from broker.history.events import (
    DrainRequested,
    Ended,
    GangRunning,
    Granted,
    LadderClimbed,
    PlacementAdded,
    PlacementEnded,
    PlacementStuck,
    Requeued,
    RunEvent,
    Sealed,
    StopOrdered,
    WaitExplained,
    Warned,
    WithdrawalOrdered,
)
from broker.model.run import Run


def short(name: str) -> str:
    return name.rpartition("/")[2]


def said(event: RunEvent, run: Run) -> str:
    """Return what a reader wants to see of an event; empty for what the scenario itself said."""

    def where(placement: str) -> str:
        site = run.placements[placement].site
        return f"{site.region}/{site.key.flavor}"

    match event:
        case PlacementAdded():
            return f"{event.purpose} leg in {where(event.placement)}: {event.message}"
        case WaitExplained():
            at_s = event.next_at_s
            when = "" if at_s is None else f" at {at_s:g} s"
            return f"waits {event.reason}: {event.message}; next: {event.next_action}{when}"
        case PlacementStuck():
            return f"stuck {event.cause} in {where(event.placement)}: {event.evidence}"
        case WithdrawalOrdered():
            return f"withdraws {where(event.placement)}: {event.reason}"
        case PlacementEnded():
            return f"left {where(event.placement)}: {event.end} {event.reason}"
        case Granted():
            resume = "the start" if event.resume_from is None else f"step {event.resume_from.step}"
            return f"granted epoch {event.epoch.number} in {where(event.placement)} from {resume}"
        case StopOrdered():
            return f"stops epoch {event.epoch.number}: {event.reason}: {event.message}"
        case DrainRequested():
            return f"drains until {event.deadline_s:g} s: {event.reason}"
        case Sealed():
            return f"sealed epoch {event.epoch.number} {event.rule}: {event.reason}"
        case Requeued():
            return f"requeued: {event.reason}"
        case LadderClimbed():
            return f"climbs: {event.message}"
        case Ended():
            return f"ended {event.state}: {event.reason}: {event.message}"
        case Warned():
            return f"WARNS {event.reason}: {event.message}"
        case GangRunning():
            return "runs"
        case _:
            return ""
