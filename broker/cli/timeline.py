"""What happened to a run, and what its time and money went to.

Read ``timeline`` first.
"""

from collections.abc import Sequence
from datetime import datetime

import click

from broker.cli import words
from broker.cli.arguments import RUN, Whole
from broker.cli.folding import Fold, folded
from broker.cli.session import Session
from broker.cli.verbs import verb
from broker.sdk.showing import seconds_of
from broker.v1 import event_pb2, run_service_pb2

EVENTS_MAX = 100_000
EVENTS = ("NO", "TIME", "AFTER", "WHO", "WHAT", "WHERE", "SAID")
PLACEMENTS = ("PLACEMENT", "WHERE", "GPUS", "WAITED", "NODES", "GATE", "TRAINED", "COST", "END")
_QUIET = frozenset({event_pb2.EVENT_TYPE_PROGRESSED, event_pb2.EVENT_TYPE_PLACEMENT_SEEN})


@verb(
    example="""
    broker timeline digits
    broker timeline digits --all --output json
    """
)
@click.argument("run", type=RUN)
@click.option("--all", "is_all", is_flag=True, help="Each step, sighting and checkpoint by itself.")
@click.option("--limit", type=Whole(1, EVENTS_MAX), default=1000, show_default=True)
def timeline(session: Session, run: str, *, is_all: bool, limit: int) -> None:
    """Say what happened to RUN, oldest first, and what each attempt to start it took and cost."""
    found = session.client.runs.timeline(session.run_name(run), limit=limit)
    if session.is_json:
        session.show_json(found)
        return
    events: Sequence[event_pb2.Event | Fold] = found.events
    if not is_all:
        events = folded(event for event in found.events if event.type not in _QUIET)
    if found.events:
        began_s = words.wall_s(found.events[0].time)
        session.say(words.table(EVENTS, [_row(event, began_s) for event in events]))
    session.say()
    show_spending(session, found)
    hidden = len(found.events) - len(events)
    if hidden:
        session.note(f"{words.counted(hidden, 'event')} folded or left out: --all shows each")
    if found.next_page_token:
        session.note(f"the first {limit} events; --limit shows more")


def _row(told: event_pb2.Event | Fold, began_s: float) -> tuple[str, ...]:
    event = told.last if isinstance(told, Fold) else told
    at_s = words.wall_s(event.time)
    when = f"{datetime.fromtimestamp(at_s).astimezone():%m-%d %H:%M:%S}"
    after = f"+{words.span(at_s - began_s)}"
    if isinstance(told, Fold):
        numbers = f"{told.events[0].sequence}-{event.sequence}"
        return (numbers, when, after, _who(event), "checkpoints", "", told.message)
    state = ""
    if event.run_state:
        state = f"[{words.enum_name(event, 'run_state')}] "
    elif event.placement_end:
        state = f"[{words.enum_name(event, 'placement_end')}] "
    return (
        str(event.sequence),
        when,
        after,
        _who(event),
        words.enum_name(event, "type").lower().replace("_", " "),
        words.where(event.place) if event.HasField("place") else "",
        f"{state}{event.message}",
    )


def _who(event: event_pb2.Event) -> str:
    return event.actor.name or words.kind(event.actor, "kind")


def show_spending(session: Session, found: run_service_pb2.GetTimelineResponse) -> None:
    """Say what each attempt to start took and cost, and all of them together."""
    if found.placements:
        costs = words.shared(found.cost, [spent.cost for spent in found.placements])
        rows = [_placement(*one) for one in zip(found.placements, costs, strict=True)]
        session.say(words.table(PLACEMENTS, rows))
        session.say()
    if found.HasField("time_to_useful_work"):
        session.say(f"time to useful work  {words.span_of(found.time_to_useful_work)}")
    session.say(f"cost                 {words.dollars(found.cost)}")


def _placement(spent: run_service_pb2.PlacementSpending, cost: str) -> tuple[str, ...]:
    phases = spent.phases
    waited_s = seconds_of(phases.preparing) + seconds_of(phases.queued)
    return (
        words.id_of(spent.placement),
        words.where(spent.place),
        str(spent.gpus),
        words.span(waited_s),
        words.span_of(phases.provisioning),
        words.span_of(phases.at_gate),
        words.span_of(phases.running),
        cost,
        words.kind(spent, "end") if spent.end else "-",
    )
