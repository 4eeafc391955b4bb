"""``broker team``: teams, what they hold, and what they may.

Read ``caps`` first.
"""

import click

from broker.cli import words
from broker.cli.session import Session
from broker.cli.verbs import Family, verb
from broker.sdk.reading import fill
from broker.sdk.showing import as_json
from broker.v1 import team_pb2

TEAMS = ("TEAM", "GPUS RUNNING", "AT GATES", "GATE MINUTES TODAY", "SPENT", "COPIES A DAY")
NONE = "none"


@click.group(
    cls=Family, default="list", name="team", example="broker team caps vision --running-gpus 64"
)
def team() -> None:
    """See teams and set their caps. Without a verb those with caps are listed."""


@verb(name="list", example="broker team list")
def listing(session: Session) -> None:
    """List the teams that have caps."""
    found = session.client.teams.find()
    if session.is_json:
        session.show_json({"teams": [as_json(one) for one in found]})
    elif not found:
        session.say("no team has caps; broker team caps TEAM sets them")
    else:
        session.say(words.table(TEAMS, [_row(one) for one in found]))


@verb(name="show", example="broker team show vision")
@click.argument("name", metavar="[TEAM]", required=False)
def show(session: Session, name: str | None) -> None:
    """Show what TEAM holds, and of how much."""
    _said(session, session.client.teams.get(name or session.team))


@verb(
    name="caps",
    example="""
    broker team caps vision --running-gpus 64 --budget 5000
    broker team caps vision --gate-gpus none
    """,
)
@click.argument("name", metavar="TEAM")
@click.option("--running-gpus", metavar="N", help="GPUs that train at once.")
@click.option("--gate-gpus", metavar="N", help="GPUs that its gangs hold at gates at once.")
@click.option(
    "--gate-minutes", "gate_gpu_minutes_per_day", metavar="N", help="GPU-minutes at gates a day."
)
@click.option("--budget", metavar="USD", help="US dollars over all its runs.")
@click.option(
    "--copies-per-day", metavar="USD", help="US dollars for copies of checkpoints within a day."
)
def caps(session: Session, name: str, **said: str | None) -> None:
    """Change the caps of TEAM that are named; none removes one."""
    changes = {field: value for field, value in said.items() if value is not None}
    if not changes:
        raise click.UsageError("say which cap to change; see --help")
    before = session.client.teams.get(name)
    wanted = team_pb2.TeamCaps()
    wanted.CopyFrom(before.caps)
    for field in changes:
        wanted.ClearField(field)  # type: ignore[arg-type]  # the options are named as the fields
    fill(wanted, {field: value for field, value in changes.items() if value != NONE}, "caps")
    _said(session, session.client.teams.set_caps(name, wanted, etag=before.etag))


def _said(session: Session, found: team_pb2.Team) -> None:
    if session.is_json:
        session.show_json(found)
    else:
        session.say(words.table(TEAMS, [_row(found)]))


def _row(team: team_pb2.Team) -> tuple[str, ...]:
    held, caps = team.standing, team.caps
    return (
        words.id_of(team.name),
        _of(str(held.running_gpus), caps.HasField("running_gpus"), str(caps.running_gpus)),
        _of(str(held.gate_gpus), caps.HasField("gate_gpus"), str(caps.gate_gpus)),
        _of(
            f"{held.gate_gpu_minutes_today:.0f}",
            caps.HasField("gate_gpu_minutes_per_day"),
            f"{caps.gate_gpu_minutes_per_day:g}",
        ),
        _of(words.dollars(held.spent), caps.HasField("budget"), words.dollars(caps.budget)),
        words.dollars(caps.copies_per_day) if caps.HasField("copies_per_day") else "-",
    )


def _of(held: str, has_cap: bool, cap: str) -> str:
    return f"{held} of {cap}" if has_cap else held


for _one in (listing, show, caps):
    team.add_command(_one)
