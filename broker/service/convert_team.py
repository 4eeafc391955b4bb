"""Teams and their caps, from the wire and back."""

from broker.history.regional import TeamState
from broker.model.policy import TeamCaps, TeamStanding
from broker.service import fields, wire
from broker.service.errors import invalid
from broker.v1 import team_pb2


def caps_of(message: team_pb2.TeamCaps) -> TeamCaps:
    """Return the caps of a request. Raises InvalidArgument."""
    has = message.HasField
    minutes = message.gate_gpu_minutes_per_day
    if has("gate_gpu_minutes_per_day") and not minutes >= 0:
        raise invalid("caps.gate_gpu_minutes_per_day", "is not a number of 0 or more")
    return TeamCaps(
        running_gpus=fields.not_negative(message.running_gpus, "caps.running_gpus")
        if has("running_gpus")
        else None,
        gate_gpus=fields.not_negative(message.gate_gpus, "caps.gate_gpus")
        if has("gate_gpus")
        else None,
        gate_gpu_minutes_per_day=fields.finite(minutes, "caps.gate_gpu_minutes_per_day")
        if has("gate_gpu_minutes_per_day")
        else None,
        budget=fields.money(message.budget, "caps.budget") if has("budget") else None,
        copies_usd_per_day=fields.money(message.copies_per_day, "caps.copies_per_day")
        if has("copies_per_day")
        else None,
    )


def team_message(state: TeamState, standing: TeamStanding) -> team_pb2.Team:
    """Return a team, its caps, and what it holds."""
    caps = team_pb2.TeamCaps(
        running_gpus=state.caps.running_gpus,
        gate_gpus=state.caps.gate_gpus,
        gate_gpu_minutes_per_day=state.caps.gate_gpu_minutes_per_day,
    )
    if state.caps.budget is not None:
        caps.budget.CopyFrom(wire.money(state.caps.budget))
    if state.caps.copies_usd_per_day is not None:
        caps.copies_per_day.CopyFrom(wire.money(state.caps.copies_usd_per_day))
    return team_pb2.Team(
        name=f"teams/{state.id}",
        caps=caps,
        standing=team_pb2.TeamStanding(
            running_gpus=standing.running_gpus,
            gate_gpus=standing.gate_gpus,
            gate_gpu_minutes_today=standing.gate_gpu_minutes_today,
            spent=wire.money(standing.spent),
        ),
        etag=str(state.generation),
    )
