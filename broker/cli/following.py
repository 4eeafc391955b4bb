"""Following a run until it ends: on a terminal one live line under the events, else lines alone.

The rule: it goes on where it was when the broker is away and comes back; it says at the end how to
see more; and an interruption says how to go on. Read ``follow`` first.
"""

import click

from broker.cli import exits, words
from broker.cli.folding import Fold, Folding
from broker.cli.saying import harmless
from broker.cli.session import Session
from broker.cli.status import has_ended, rendered
from broker.sdk.streams import Watch
from broker.v1 import event_pb2, run_pb2

# What a person need not see: the explained wait says the same as the sighting, and on a terminal
# the live line says the same as the logged step.
_QUIET = frozenset({event_pb2.EVENT_TYPE_PLACEMENT_SEEN})
_QUIET_LIVE = _QUIET | {event_pb2.EVENT_TYPE_PROGRESSED}


def follow(session: Session, name: str, *, after_sequence: int = 0, is_all: bool = False) -> int:
    """Tell what happens to a run until it ends; return 0 when it succeeded, else 1.

    ``is_all``: every event in a line of its own, as they come.
    """
    watch = Watch(name, after_sequence=after_sequence)
    try:
        if session.is_json:
            for update in session.patient_client.follow(watch):
                is_event = isinstance(update, event_pb2.Event)
                _tell_json(session, update, "event" if is_event else "progress")
        elif words.width() is None or is_all:
            _tell_lines(session, watch, is_all)
        else:
            _tell_live(session, watch)
    except KeyboardInterrupt:
        session.note(
            f"\n{words.id_of(name)} goes on without you. Watch on: broker watch"
            f" {short(name)} --after {watch.sequence}. End it: broker cancel {short(name)}"
        )
        return exits.INTERRUPTED
    return _end(session, name)


def _tell_json(session: Session, update: event_pb2.Event | run_pb2.Progress, key: str) -> None:
    from broker.sdk.showing import as_json

    session.show_json({key: as_json(update)}, is_line=True)


def _tell_lines(session: Session, watch: Watch, is_all: bool) -> None:
    folding = Folding()
    try:
        for update in session.patient_client.follow(watch):
            if not isinstance(update, event_pb2.Event):
                continue
            if is_all:
                session.say(event_line(update))
            elif update.type not in _QUIET:
                for told in folding.take(update):
                    session.say(event_line(told))
    finally:
        for told in folding.rest():
            session.say(event_line(told))


def _tell_live(session: Session, watch: Watch) -> None:
    # Only a terminal needs it: everything else is spared its import.
    from rich.console import Console
    from rich.text import Text

    console, folding, saved = Console(), Folding(), ""
    with console.status("waiting for news") as live:
        try:
            for update in session.patient_client.follow(watch):
                if isinstance(update, run_pb2.Progress):
                    live.update(Text(progress_line(update) + saved))
                elif update.type not in _QUIET_LIVE:
                    if update.type == event_pb2.EVENT_TYPE_CHECKPOINT_COMPLETED:
                        saved = f"; saved step {update.step}"
                    for told in folding.take(update):
                        console.print(Text(event_line(told)))
                    if update.next_action:
                        live.update(Text(harmless(f"next: {update.next_action}")))
                    elif update.run_state:
                        live.update("waiting for news")
        finally:
            for told in folding.rest():
                console.print(Text(event_line(told)))


def progress_line(progress: run_pb2.Progress) -> str:
    """Return how far the training is."""
    loss = f", loss {progress.loss:.4g}" if progress.HasField("loss") else ""
    return f"step {progress.step}{loss}"


def event_line(told: event_pb2.Event | Fold) -> str:
    """Return an event, or several folded, in one line: when, what, where, why."""
    from datetime import datetime

    if isinstance(told, Fold):
        at = datetime.fromtimestamp(words.wall_s(told.last.time)).astimezone()
        return harmless(f"{at:%H:%M:%S}  {told.message}")
    event = told
    at = datetime.fromtimestamp(words.wall_s(event.time)).astimezone()
    what = words.enum_name(event, "type").lower().replace("_", " ")
    where = f" in {event.place.region}" if event.HasField("place") else ""
    state = ""
    if event.run_state:
        state = f" [{words.enum_name(event, 'run_state')}]"
    elif event.placement_end:
        state = f" [{words.enum_name(event, 'placement_end')}]"
    said = f": {event.message}" if event.message else ""
    return harmless(f"{at:%H:%M:%S}  {what}{where}{state}{said}")


def _end(session: Session, name: str) -> int:
    run = session.client.runs.get(name)
    if not session.is_json:
        session.say()
        session.say(rendered(run, session.now_s))
        session.note(f"more: broker timeline {short(name)}, broker logs {short(name)}")
    if has_ended(run) and run.state != run_pb2.RUN_STATE_SUCCEEDED:
        return exits.RUN_FAILED
    return exits.OK


def short(name: str) -> str:
    """Return TEAM/RUN, which every verb takes."""
    return f"{words.team_of(name)}/{words.id_of(name)}"


def ask(question: str, *, is_sure: bool) -> None:
    """Ask a person before something that cannot be taken back. Aborts on no."""
    if not is_sure:
        click.confirm(question, abort=True, err=True)
