"""The choices of a plan as the commands of the log."""

from typing import assert_never

from broker.history.commands import AddPlacement, ClimbLadder, ExplainWait, RunCommand
from broker.placement.choices import AddLeg, Choice, Climb, Plan, SayWait


def commands(plan: Plan) -> tuple[tuple[str, RunCommand], ...]:
    """Return what to tell the log, in the plan's order, each command with its run's name."""
    return tuple((name, _command(choice)) for name, choice in plan.choices)


def _command(choice: Choice) -> RunCommand:
    match choice:
        case AddLeg():
            return AddPlacement(
                placement=choice.placement,
                purpose=choice.purpose,
                site=choice.site,
                message=choice.message,
            )
        case Climb():
            return ClimbLadder(message=choice.message)
        case SayWait():
            return ExplainWait(
                reason=choice.reason,
                message=choice.message,
                next_action=choice.next_action,
                next_at_s=choice.next_at_s,
            )
        case _:
            assert_never(choice)
