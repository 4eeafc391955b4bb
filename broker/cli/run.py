"""``broker run show``: a run as it was asked for, and what is sent to clusters for it.

Read ``show`` first.
"""

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from broker.cli import words
from broker.cli.arguments import RUN
from broker.cli.session import Session
from broker.cli.verbs import Family, verb
from broker.sdk.showing import as_yaml

if TYPE_CHECKING:
    from broker.v1 import run_service_pb2

LONGEST = 2_000  # characters of one value: what is longer is bytes that nobody reads


@click.group(cls=Family, default="show", name="run", example="broker run show digits --manifest")
def run() -> None:
    """A run as it was asked for, and what is sent for it. Without a verb it is shown."""


@verb(
    example="""
    broker run show digits > again.yaml
    broker run show digits --manifest
    """
)
@click.argument("run", type=RUN)
@click.option("--manifest", is_flag=True, help="Show what its clusters are told instead.")
@click.option("--placement", metavar="ID", help="Of this placement; otherwise of all that live.")
@click.option("--whole", is_flag=True, help="Leave out nothing: the launcher's bytes, too.")
def show(session: Session, run: str, *, manifest: bool, placement: str | None, whole: bool) -> None:
    """Show the intent of RUN, as `broker submit` takes it; or what is sent to clusters for it.

    What is sent is shown as YAML, object by object in the order of their creation, with what is
    worth knowing of it as comments. Secrets are in it by name alone.
    """
    if (placement or whole) and not manifest:
        raise click.UsageError("--placement and --whole go with --manifest")
    name = session.run_name(run)
    if manifest:
        answer = session.client.runs.manifest(name, placement=placement or "")
        if session.is_json:
            session.show_json(answer)
        else:
            show_manifests(session, answer.manifests, whole=whole)
        return
    found = session.client.runs.get(name)
    if session.is_json:
        session.show_json(found)
        return
    from broker.cli.yamlout import dumped

    head = {"name": words.id_of(found.name), "team": words.team_of(found.name)}
    session.say(dumped({**head, **as_yaml(found.intent)}).rstrip())


def show_manifests(
    session: Session, manifests: "Iterable[run_service_pb2.Manifest]", *, whole: bool
) -> None:
    """Write what is sent for each placement as one stream of YAML."""
    for line in (line for one in manifests for line in lines_of(one, whole=whole)):
        session.say(line)


def lines_of(manifest: "run_service_pb2.Manifest", *, whole: bool) -> Iterator[str]:
    """Yield what is sent for one placement: comments, then its objects."""
    from broker.cli.yamlout import dumped

    place = manifest.place
    which = f"placement {words.id_of(manifest.placement)}" if manifest.placement else "if placed"
    said = [f"{place.region}: cluster {place.cluster}, {place.queue}/{place.flavor}, {which}"]
    if manifest.refusal:
        said.append(f"nothing is sent: {manifest.refusal}")
    for line in (line for one in (*said, *manifest.notes) for line in one.splitlines()):
        yield f"# {line}"
    for sent in manifest.objects:
        yield "---"
        content = json.loads(sent.json)
        yield dumped(content if whole else _shortened(content)).rstrip()


def _shortened(value: Any) -> Any:
    match value:
        case dict():
            return {name: _shortened(one) for name, one in value.items()}
        case list():
            return [_shortened(one) for one in value]
        case str() if len(value) > LONGEST:
            return f"({len(value)} characters, which --whole shows)"
        case _:
            return value


run.add_command(show)
