"""``broker submit``: pack the working directory, submit, and perhaps wait.

Read ``submit`` first.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from broker.cli import checking, exits, following, words
from broker.cli.options import intent_of, with_intent
from broker.cli.places import show_estimate
from broker.cli.run import show_manifests
from broker.cli.session import Session
from broker.cli.verbs import VerbWithCommand, verb
from broker.sdk.intent import IntentFile
from broker.v1 import run_pb2


@verb(
    kind=VerbWithCommand,
    example="""
    broker submit intent.yaml --wait
    broker submit --name digits --hardware 8xH100 --capacity spot -- python train.py
    broker submit intent.yaml --max-wait 2h --validate-only
    broker init - | broker submit - --name digits
    """,
)
@click.option("--name", metavar="RUN", help="The run's id; otherwise the broker draws one.")
@click.option(
    "--workdir",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    help="What is packed.",
)
@click.option("--no-workdir", is_flag=True, help="Pack nothing: the image holds all.")
@click.option(
    "--pack-key",
    "keys",
    multiple=True,
    metavar="PATH",
    help="Pack a file, or a pattern, that holds a key all the same.",
)
@click.option("--request-id", metavar="TEXT", help="Makes it repeatable.")
@click.option("--wait", is_flag=True, help="Follow the run until it ends.")
@click.option("--validate-only", is_flag=True, help="Only check, and say where it would go.")
@click.option("--manifest", is_flag=True, help="With --validate-only: show what would be sent.")
@with_intent
def submit(
    session: Session,
    *,
    name: str | None,
    workdir: str,
    no_workdir: bool,
    keys: tuple[str, ...],
    request_id: str | None,
    wait: bool,
    validate_only: bool,
    manifest: bool,
    **said: Any,
) -> int:
    """Submit a run, from an intent FILE, from flags and a COMMAND after --, or from both.

    A FILE named - is standard input.

    The working directory goes with it: what git would keep, at most 256 MiB packed, and no file
    that looks like a key. Where a flag and the file differ, the flag counts; none clears what the
    file says. The run's name is printed. Where it has an image it is waited until that was looked
    up; a run that is rejected for it ends with the code of a field that is not as it must be.
    """
    if manifest and not validate_only:
        raise click.UsageError(
            "--manifest goes with --validate-only; or: broker run show --manifest"
        )
    found = intent_of(said)
    team = found.team or session.team
    run_id = name or found.run_id
    if validate_only:
        answer = session.client.runs.validate(team, found.message, run_id=run_id, manifest=manifest)
        show_estimate(session, answer.estimate, answer)
        if answer.HasField("manifest") and not session.is_json:
            session.say()
            show_manifests(session, [answer.manifest], whole=False)
        # What a submit would be refused for ends as that would.
        return exits.INVALID if answer.estimate.never_fits else exits.OK
    if not no_workdir and not found.message.workload.bundle_digest:
        _bring_bundle(session, found, team, workdir, keys)
    run = session.client.runs.submit(
        team, found.message, run_id=run_id, request_id=request_id or ""
    )
    if wait:
        session.note(f"submitted {run.name}")
        return following.follow(session, run.name)
    if not session.is_json:
        session.say(run.name)  # also for who does not wait for what follows
    if found.message.workload.image:
        with _progress("checking the image") as tell:
            run = checking.checked(session, run, tell)
    if session.is_json:
        session.show_json(run)
    else:
        _say_next(session, run)
    return checking.code_of(run)


def _say_next(session: Session, run: run_pb2.Run) -> None:
    if run.state == run_pb2.RUN_STATE_REJECTED:
        session.note(f"rejected: {run.why.message}")
        return
    if run.image:
        session.note(f"it runs {run.image}")
    session.note(f"follow it: broker watch {following.short(run.name)}")


@contextmanager
def _progress(what: str = "looking at the working directory") -> Iterator[Callable[[str], None]]:
    """Show what takes a while, to a person who looks."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as live:
        yield live.update


def _bring_bundle(
    session: Session, found: IntentFile, team: str, workdir: str, keys: tuple[str, ...]
) -> None:
    from broker.sdk.bundle import pack
    from broker.sdk.quantities import size_text

    with _progress() as tell:
        bundle = pack(
            workdir,
            keys_allowed=keys,
            on_progress=lambda done, of: tell(f"packing: {done} of {of} files"),
        )
    with bundle, _progress() as tell:
        if not bundle.paths:
            return
        tell(f"sending {size_text(bundle.size_bytes)}")
        stored = session.client.runs.upload_bundle(team, bundle)
        session.note(
            f"packed {words.counted(len(bundle.paths), 'file')}, {size_text(bundle.size_bytes)}"
        )
        found.message.workload.bundle_digest = stored.digest
