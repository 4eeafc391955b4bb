"""What changes a run: ``cancel``, ``resume``, ``fork``, ``replace``.

The rule: each says what it did in a sentence, and what to type next. Read ``cancel`` first.
"""

from pathlib import Path

import click

from broker.cli import exits, following, words
from broker.cli.arguments import DURATION, FILE, RUN, Whole
from broker.cli.session import Session
from broker.cli.status import has_ended
from broker.cli.verbs import verb
from broker.sdk.errors import IntentError
from broker.v1 import run_pb2

CANCEL_GRACE_S = 60.0  # the broker's own, where none is given


@verb(
    example="""
    broker cancel digits
    broker cancel digits --grace 5m --message "wrong data"
    """
)
@click.argument("run", type=RUN)
@click.option("--grace", type=DURATION, metavar="TIME", help="To save; otherwise 60s, 0 for none.")
@click.option("--message", default="", help="Why, for those who read the timeline.")
@click.option("--wait", is_flag=True, help="Until it is over.")
def cancel(session: Session, run: str, *, grace: float | None, message: str, wait: bool) -> int:
    """End RUN. What trains is asked to save, and stopped after the grace."""
    name = session.run_name(run)
    found = session.client.runs.cancel(name, grace_s=grace, message=message)
    if wait:
        code = following.follow(session, name, after_sequence=found.sequence)
        return exits.OK if code == exits.RUN_FAILED else code
    if session.is_json:
        session.show_json(found)
    else:
        session.say(cancelled(found, CANCEL_GRACE_S if grace is None else grace))
        session.note(
            f"bring it back: broker resume {following.short(name)}"
            if has_ended(found)
            else f"see how far it is: broker status {following.short(name)}"
        )
    return exits.OK


def cancelled(run: run_pb2.Run, grace_s: float) -> str:
    """Return what a cancel came to: it is over, or what still runs has so long to save."""
    name = words.id_of(run.name)
    if has_ended(run):
        return f"{name}: {words.coloured(words.enum_name(run, 'state'))}, {run.why.message}"
    if run.draining:
        return f"{name}: cancel accepted; it has up to {words.span(grace_s)} to save, then stops"
    return f"{name}: cancel accepted; it stops now"


@verb(
    example="""
    broker resume digits
    broker resume digits --from-step 1200
    """
)
@click.argument("run", type=RUN)
@click.option("--from-step", type=Whole(min=0), metavar="N", help="An older checkpoint.")
@click.option("--from-beginning", is_flag=True, help="From nothing.")
@click.option("--wait", is_flag=True, help="Follow the run until it ends.")
def resume(
    session: Session, run: str, *, from_step: int | None, from_beginning: bool, wait: bool
) -> int:
    """Bring RUN back from its newest checkpoint, or send it to another one."""
    _check_one(from_step, from_beginning)
    name = session.run_name(run)
    found = session.client.runs.resume(name, step=from_step, from_beginning=from_beginning)
    if wait:
        return following.follow(session, name, after_sequence=found.sequence)
    _show(session, found, f"follow it: broker watch {following.short(name)}")
    return exits.OK


@verb(
    example="""
    broker fork digits --name digits-lr2 --from-step 1200
    broker fork digits --file other.yaml
    """
)
@click.argument("run", type=RUN)
@click.option("--name", "run_id", metavar="RUN", default="", help="The new run's id.")
@click.option("--from-step", type=Whole(min=0), metavar="N", help="An older checkpoint.")
@click.option("--from-beginning", is_flag=True, help="From nothing.")
@click.option("--file", type=FILE, help="Another intent; - for standard input.")
@click.option("--wait", is_flag=True, help="Follow the new run until it ends.")
def fork(
    session: Session,
    run: str,
    *,
    run_id: str,
    from_step: int | None,
    from_beginning: bool,
    file: Path | None,
    wait: bool,
) -> int:
    """Make a new run that begins from a checkpoint of RUN, which is left as it is."""
    _check_one(from_step, from_beginning)
    name = session.run_name(run)
    intent = None
    if file is not None:
        from broker.sdk.intent import load_intent

        loaded = load_intent(file)
        intent = loaded.message
        run_id = run_id or loaded.run_id
        if not intent.workload.bundle_digest:
            parent = session.client.runs.get(name)
            intent.workload.bundle_digest = parent.intent.workload.bundle_digest
    found = session.client.runs.fork(
        name, run_id=run_id, step=from_step, from_beginning=from_beginning, intent=intent
    )
    if wait:
        return following.follow(session, found.name)
    _show(session, found, f"follow it: broker watch {following.short(found.name)}")
    return exits.OK


@verb(example='broker replace digits --epoch 3 --message "the region burns" --yes')
@click.argument("run", type=RUN)
@click.option("--epoch", type=Whole(min=1), help="The open start; see broker status.")
@click.option("--message", required=True, help="Why, for those who read the timeline.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def replace(session: Session, run: str, *, epoch: int | None, message: str, yes: bool) -> int:
    """Let RUN go on elsewhere though its region does not answer and nobody could stop its gang.

    The gang may run, and cost, until its region is reached. Nothing it does counts any more.
    """
    name = session.run_name(run)
    if epoch is None:
        still_open = [
            one for one in session.client.runs.get(name).epochs if not one.HasField("close_time")
        ]
        if not still_open:
            raise IntentError("--epoch", f"{words.id_of(name)} has no open start")
        epoch = still_open[-1].number
    following.ask(
        f"Start {epoch} of {words.id_of(name)} may go on running and costing unheard. Go on?",
        is_sure=yes,
    )
    found = session.client.runs.replace(name, epoch=epoch, message=message)
    _show(session, found, f"follow it: broker watch {following.short(name)}")
    return exits.OK


def _check_one(step: int | None, from_beginning: bool) -> None:
    if step is not None and from_beginning:
        raise click.UsageError("--from-step and --from-beginning exclude each other")


def _show(session: Session, run: run_pb2.Run, hint: str) -> None:
    if session.is_json:
        session.show_json(run)
        return
    state = words.enum_name(run, "state")
    session.say(f"{words.id_of(run.name)}: {words.coloured(state)}, {run.why.message}")
    session.note(hint)
