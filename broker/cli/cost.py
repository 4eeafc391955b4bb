"""``broker cost``: what a run was paid for, in the words of whoever pays.

The rule: a total and its parts are of one moment and add up as they are printed; what was paid
with nothing on it is said apart (idle). Read ``cost`` first.
"""

from collections.abc import Iterator

import click

from broker.cli import words
from broker.cli.arguments import RUN, Whole
from broker.cli.session import Session
from broker.cli.timeline import show_spending
from broker.cli.verbs import verb
from broker.sdk.showing import as_json, seconds_of
from broker.v1 import placement_pb2, run_pb2

COSTS = ("RUN", "STATE", "GPU-HOURS", "COST", "IDLE", "BUDGET LEFT")


@verb(
    example="""
    broker cost digits
    broker cost --limit 100
    """
)
@click.argument("run", type=RUN, required=False)
@click.option("--limit", type=Whole(1, 10_000), default=50, show_default=True)
def cost(session: Session, run: str | None, *, limit: int) -> None:
    """Say what RUN's time and money went to, or, without RUN, what the team's runs cost."""
    if run is None:
        _team_cost(session, limit)
        return
    name = session.run_name(run)
    found = session.client.runs.timeline(name, limit=1)
    if session.is_json:
        said = as_json(found)
        session.show_json(
            {
                "name": name,
                "spending": said["spending"],
                "placements": said["placements"],
                "cost": said["cost"],
            }
        )
        return
    show_spending(session, found)
    for line in parts_of(found.spending):
        session.say(line)
    if found.spending.HasField("budget_left"):
        session.say(f"budget left          {words.dollars(found.spending.budget_left)}")


def parts_of(spending: run_pb2.Spending) -> Iterator[str]:
    """Yield a line for each thing that was paid for; their amounts add up to the cost."""
    time, by_phase = spending.gpu_time, spending.cost_by_phase
    phases = (
        ("training", by_phase.running, time.running, ""),
        ("idle, incomplete", by_phase.provisioning, time.provisioning, _INCOMPLETE),
        ("idle, at its gate", by_phase.at_gate, time.at_gate, _AT_GATE),
    )
    amounts = words.shared(spending.cost, [amount for _, amount, _, _ in phases])
    for (name, _, paid, why), amount in zip(phases, amounts, strict=True):
        hours = f"{words.hours(seconds_of(paid))} GPU-hours"
        yield f"  {name:<17}  {amount:<8}  {hours}{why}"


_INCOMPLETE = ": machines that stood while the rest of their gang was on its way"
_AT_GATE = ": the whole gang stood and waited for its start"


def paid_s(time: placement_pb2.PhaseDurations) -> float:
    """Return the accelerator seconds that were paid for."""
    return seconds_of(time.provisioning) + seconds_of(time.at_gate) + seconds_of(time.running)


def _team_cost(session: Session, limit: int) -> None:
    found = session.client.runs.find(session.team, limit=limit)
    team = session.client.teams.get(session.team)
    if session.is_json:
        runs = [{"name": run.name, "spending": as_json(run.spending)} for run in found.runs]
        session.show_json({"team": as_json(team), "runs": runs})
        return
    session.say(words.table(COSTS, [_run_cost(run) for run in found.runs]))
    session.say()
    session.say(f"team {session.team}: {words.dollars(team.standing.spent)} over all its runs")
    if team.caps.HasField("budget"):
        session.say(f"its budget is {words.dollars(team.caps.budget)}")


def _run_cost(run: run_pb2.Run) -> tuple[str, ...]:
    spending = run.spending
    return (
        words.id_of(run.name),
        words.coloured(words.enum_name(run, "state")),
        words.hours(paid_s(spending.gpu_time)),
        words.dollars(spending.cost),
        words.idle(spending),
        words.dollars(spending.budget_left) if spending.HasField("budget_left") else "-",
    )
