"""``broker ls``: runs, one a line.

Read ``ls`` first.
"""

import click

from broker.cli import words
from broker.cli.arguments import REGION, Whole, one_of
from broker.cli.session import Session
from broker.cli.status import step_of, where_it_is
from broker.cli.verbs import verb
from broker.v1 import run_pb2, run_service_pb2

LIMIT_MAX = 10_000
STATES = [name.removeprefix("RUN_STATE_").lower() for name in run_pb2.RunState.keys()[1:]]
HEADERS = ("RUN", "STATE", "WHERE", "STEP", "COST", "AGE", "WHY")


@verb(
    example="""
    broker ls
    broker ls --state running --region us-east4
    broker ls --all-teams --label goal=7b --limit 20
    """
)
@click.option(
    "--state",
    "states",
    type=one_of("state", "active", "ended", *STATES),
    multiple=True,
    metavar="STATE",
    help="Or active, or ended.",
)
@click.option("--owner", metavar="NAME", help="Only runs of this user.")
@click.option("--region", type=REGION, metavar="REGION", help="Only runs that waited or ran there.")
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Only runs labelled so."
)
@click.option("--all-teams", is_flag=True, help="Runs of every team.")
@click.option("--oldest-first", is_flag=True, help="Newest first otherwise.")
@click.option("--limit", type=Whole(1, LIMIT_MAX), default=50, show_default=True)
def ls(
    session: Session,
    states: tuple[str, ...],
    *,
    owner: str | None,
    region: str | None,
    labels: tuple[str, ...],
    all_teams: bool,
    oldest_first: bool,
    limit: int,
) -> None:
    """List runs, newest first."""
    found = session.client.runs.find(
        "-" if all_teams else session.team,
        query=query_of(states=states, owner=owner, region=region, labels=labels),
        order_by="create_time" if oldest_first else "",
        limit=limit,
    )
    if session.is_json:
        session.show_json(found)
        return
    _show(session, found, all_teams=all_teams)


def _show(session: Session, found: run_service_pb2.ListRunsResponse, *, all_teams: bool) -> None:
    if not found.runs:
        session.say("no runs" if all_teams else f"no runs of team {session.team}")
    else:
        rows = [_row(run, session.now_s, is_full=all_teams) for run in found.runs]
        session.say(words.table(HEADERS, rows))
    if found.total_size > len(found.runs):
        session.note(f"{len(found.runs)} of {found.total_size} runs; --limit shows more")
    if found.unreachable:
        session.note(f"no answer from {', '.join(found.unreachable)}: runs there may be further on")


def _row(run: run_pb2.Run, now_s: float, *, is_full: bool) -> tuple[str, ...]:
    name = (
        f"{words.team_of(run.name)}/{words.id_of(run.name)}" if is_full else words.id_of(run.name)
    )
    step = step_of(run)
    return (
        name,
        words.coloured(words.enum_name(run, "state")),
        where_it_is(run) or "-",
        "-" if step is None else str(step),
        words.dollars(run.spending.cost),
        words.span(now_s - words.wall_s(run.create_time)),
        run.why.message,
    )


def query_of(
    *,
    states: tuple[str, ...] = (),
    owner: str | None = None,
    region: str | None = None,
    labels: tuple[str, ...] = (),
) -> str:
    """Return the filter of ListRuns that these options mean."""
    parts = []
    if states:
        any_of = " OR ".join(f"state = {_quoted(state.upper())}" for state in states)
        parts.append(f"({any_of})")
    if owner:
        parts.append(f"owner = {_quoted(owner)}")
    if region:
        parts.append(f"region = {_quoted(region)}")
    for label in labels:
        key, is_pair, value = label.partition("=")
        if not (key and is_pair):
            raise click.BadParameter(f"{label!r} is not KEY=VALUE", param_hint="--label")
        parts.append(f"labels.{key} = {_quoted(value)}")
    return " AND ".join(parts)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
