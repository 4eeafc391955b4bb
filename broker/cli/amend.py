"""``broker amend``: change a run's terms.

Read ``amend`` first.
"""

from pathlib import Path
from typing import Any

import click

from broker.cli.arguments import FILE, RUN, source_of
from broker.cli.following import short
from broker.cli.options import put_terms, with_terms
from broker.cli.session import Session
from broker.cli.status import has_ended
from broker.cli.verbs import verb
from broker.sdk.errors import IntentError
from broker.sdk.showing import as_yaml
from broker.v1 import intent_pb2, run_pb2


@verb(
    example="""
    broker amend digits --max-wait 6h --capacity spot --capacity on-demand
    broker amend digits --budget none
    broker amend digits --edit
    """
)
@click.argument("run", type=RUN)
@click.option("--file", type=FILE, help="New terms, whole; - for standard input.")
@click.option("--edit", is_flag=True, help="Open the terms in your editor.")
@with_terms
def amend(session: Session, run: str, *, file: Path | None, edit: bool, **said: Any) -> None:
    """Change the terms of RUN: what a flag names, or all of them from a file or an editor.

    A flag that can be given several times replaces the whole list; none clears what may be unset.
    A start that the new terms do not accept is stopped, and the run waits again.
    """
    name = session.run_name(run)
    before = session.client.runs.get(name)
    terms = intent_pb2.Terms()
    terms.CopyFrom(before.intent.terms)
    if file is not None:
        terms = _from_file(source_of(file), _read(file))
    if edit:
        terms = _edited(terms)
    has_said = put_terms(terms, said)
    if not (has_said or edit or file):
        raise click.UsageError("say what to change: a flag, --file or --edit; see --help")
    found = session.client.runs.amend(name, terms, etag=before.etag)
    if session.is_json:
        session.show_json(found)
        return
    for line in differences(before.intent.terms, found.intent.terms):
        session.say(line)
    session.note(what_follows(found))


def what_follows(run: run_pb2.Run) -> str:
    """Return what to type next: to a run that is over, new terms bring nothing by themselves."""
    name = short(run.name)
    if has_ended(run):
        # One that succeeded goes on with nothing: it is told what to go back to.
        step = " --from-step N" if run.state == run_pb2.RUN_STATE_SUCCEEDED else ""
        return f"it has ended, and stays so until it is brought back: broker resume {name}{step}"
    return f"see what it brings: broker explain {name}"


def differences(before: intent_pb2.Terms, after: intent_pb2.Terms) -> list[str]:
    """Return one line for each term that changed."""
    old, new = as_yaml(before), as_yaml(after)
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if not changed:
        return ["the terms are as they were"]
    return [f"{name}: {_said(old.get(name))} -> {_said(new.get(name))}" for name in changed]


def _said(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)


def _read(file: Path) -> bytes:
    from broker.sdk.intent import read_file

    return read_file(file)


def _edited(terms: intent_pb2.Terms) -> intent_pb2.Terms:
    from broker.cli.yamlout import dumped

    text = click.edit(dumped(as_yaml(terms)), extension=".yaml")
    if text is None:
        raise click.Abort
    return _from_file("the edited terms", text.encode())


def _from_file(source: str, data: bytes) -> intent_pb2.Terms:
    from broker.sdk.reading import fill
    from broker.sdk.yamltext import parse

    document = parse(data, source)
    tree = document.tree
    if not isinstance(tree, dict):
        raise IntentError(source, "must be a map of terms")
    if "terms" in tree and "workload" in tree:  # a whole intent: its terms are meant
        tree = {"terms": tree["terms"]}
    terms = intent_pb2.Terms()
    is_named = list(tree) == ["terms"]
    with document.naming_lines("" if is_named else "terms."):
        fill(terms, tree["terms"] if is_named else tree, "terms")
    return terms
