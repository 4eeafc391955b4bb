"""``broker policy``: read and set what a region allows, as YAML.

Read ``edit_policy`` first.
"""

from pathlib import Path

import click

from broker.cli.arguments import FILE, REGION, source_of
from broker.cli.session import Session
from broker.cli.verbs import Family, verb
from broker.cli.yamlout import dumped
from broker.sdk.errors import IntentError
from broker.sdk.showing import as_yaml
from broker.v1 import region_pb2


@click.group(cls=Family, name="policy", example="broker policy edit us-east4")
def policy() -> None:
    """Read and set what a region allows: capacity types, price caps, patience, hedging, copies."""


@verb(name="get", example="broker policy get us-east4 > policy.yaml")
@click.argument("region", type=REGION)
def get_policy(session: Session, region: str) -> None:
    """Print the policy of REGION with its etag, for policy set to take back."""
    found = session.client.regions.policy(region)
    if session.is_json:
        session.show_json(found)
    else:
        click.echo(dumped(as_yaml(found)), nl=False)


@verb(
    name="set",
    example="""
    broker policy set us-east4 policy.yaml
    broker policy get us-east4 | sed 's/weight: .*/weight: 0.5/' | broker policy set us-east4 -
    """,
)
@click.argument("region", type=REGION)
@click.argument("file", type=FILE)
def set_policy(session: Session, region: str, *, file: Path) -> None:
    """Replace the policy of REGION by a YAML file, - for standard input.

    The etag in the file must be the present one. What waits there against the new policy leaves.
    """
    _set(session, region, _parsed(_read(file), source_of(file)))


@verb(name="edit", example="broker policy edit us-east4")
@click.argument("region", type=REGION)
def edit_policy(session: Session, region: str) -> None:
    """Open the policy of REGION in your editor, and set it when you save."""
    before = dumped(as_yaml(session.client.regions.policy(region)))
    after = click.edit(before, extension=".yaml")
    if after is None or after == before:
        session.note("the policy is as it was")
        return
    _set(session, region, _parsed(after.encode(), "the edited policy"))


def _set(session: Session, region: str, wanted: region_pb2.Policy) -> None:
    found = session.client.regions.set_policy(region, wanted)
    if session.is_json:
        session.show_json(found)
    else:
        click.echo(dumped(as_yaml(found)), nl=False)


def _parsed(data: bytes, source: str) -> region_pb2.Policy:
    from broker.sdk.intent import parse_message

    found = region_pb2.Policy()
    parse_message(data, source, found)
    if not found.etag:
        raise IntentError("etag", f"is missing in {source}: begin with broker policy get")
    return found


def _read(file: Path) -> bytes:
    from broker.sdk.intent import read_file

    return read_file(file)


for _one in (get_policy, set_policy, edit_policy):
    policy.add_command(_one)
