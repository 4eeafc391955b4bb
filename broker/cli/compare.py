"""``broker compare``: runs side by side.

Read ``compare`` first.
"""

import click

from broker.cli import words
from broker.cli.arguments import RUN
from broker.cli.session import Session
from broker.cli.status import has_ended, step_of, where_it_is
from broker.cli.verbs import verb
from broker.sdk.showing import as_json, as_yaml
from broker.v1 import run_pb2

RUNS_MAX = 8
NOTHING = "-"


@verb(example="broker compare digits digits-2")
@click.argument("runs", type=RUN, nargs=-1, required=True)
def compare(session: Session, runs: tuple[str, ...]) -> None:
    """Show RUNS side by side: how each went, and where their intents differ."""
    if not 2 <= len(runs) <= RUNS_MAX:
        raise click.UsageError(f"name 2 to {RUNS_MAX} runs")
    found = [session.client.runs.get(session.run_name(run)) for run in runs]
    if session.is_json:
        session.show_json({"runs": [as_json(run) for run in found]})
        return
    rows = _outcome(found, session.now_s) + _differences(found)
    headers = ("", *(words.id_of(run.name) for run in found))
    session.say(words.table(headers, rows))


def _outcome(found: list[run_pb2.Run], now_s: float) -> list[tuple[str, ...]]:
    columns = [_outcome_of(run, now_s) for run in found]
    return [(label, *(column[label] for column in columns)) for label in columns[0]]


def _outcome_of(run: run_pb2.Run, now_s: float) -> dict[str, str]:
    end_s = words.wall_s(run.end_time) if has_ended(run) else now_s
    step = step_of(run)
    has_loss = run.HasField("progress") and run.progress.HasField("loss")
    return {
        "state": words.coloured(words.enum_name(run, "state")),
        "why": words.enum_name(run.why, "reason"),
        "where": where_it_is(run) or NOTHING,
        "step": NOTHING if step is None else str(step),
        "loss": f"{run.progress.loss:.4g}" if has_loss else NOTHING,
        "took": words.span(end_s - words.wall_s(run.create_time)),
        "first step after": words.span_of(run.time_to_useful_work)
        if run.HasField("time_to_useful_work")
        else NOTHING,
        "starts": str(len(run.epochs)),
        "own failures": str(run.restarts.user_failures),
        "lost machines": str(run.restarts.infrastructure_losses),
        "cost": words.dollars(run.spending.cost),
    }


def _differences(found: list[run_pb2.Run]) -> list[tuple[str, ...]]:
    flat = [dict(_flat(as_yaml(run.intent), "")) for run in found]
    paths = dict.fromkeys(path for one in flat for path in one)
    rows = []
    for path in paths:
        values = tuple(one.get(path, NOTHING) for one in flat)
        if len(set(values)) > 1:
            rows.append((path, *values))
    return rows


def _flat(value: object, path: str) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [
            leaf
            for name, one in value.items()
            for leaf in _flat(one, f"{path}.{name}" if path else name)
        ]
    if isinstance(value, list):
        if all(isinstance(one, str) for one in value):
            return [(path, " ".join(value))]
        return [leaf for i, one in enumerate(value) for leaf in _flat(one, f"{path}[{i}]")]
    return [(path, str(value))]
