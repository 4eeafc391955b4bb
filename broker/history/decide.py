"""What follows from a command: ``decide(run, command, context) -> events``, or a refusal.

The rule: a decision reads its arguments and nothing else. What already holds yields no events, so
that a loop may send a command again after a crash; what may not be raises ``Refused`` and changes
nothing. A fact that comes too late, of an epoch that is closed, is not believed and not an error.
"""

from typing import assert_never

from broker.history.codec import check_writable
from broker.history.commands import RunCommand, SubmitRun
from broker.history.context import Context
from broker.history.deciding_checkpoint import CheckpointCommand, decide_checkpoint
from broker.history.deciding_epoch import EpochCommand, decide_epoch
from broker.history.deciding_life import LifeCommand, decide_life, submit
from broker.history.deciding_placement import PlacementCommand, decide_placement
from broker.history.deciding_restore import RestoreCommand, decide_restore
from broker.history.events import RunEvent
from broker.history.refusals import Code, Refused
from broker.model.reasons import Reason
from broker.model.run import Run

__all__ = ["Context", "decide"]


def decide(run: Run | None, command: RunCommand, context: Context) -> tuple[RunEvent, ...]:
    """Return the events that the command makes of the run, in order.

    ``run`` is None when the log has no such run. Raise Refused when the command may not be.
    """
    events = _decide(run, command, context)
    check_writable(events)
    return events


def _decide(run: Run | None, command: RunCommand, context: Context) -> tuple[RunEvent, ...]:
    if isinstance(command, SubmitRun):
        return submit(run, command)
    if run is None:
        raise Refused(Reason.NOT_FOUND, "there is no such run", code=Code.NOT_FOUND)
    if isinstance(command, PlacementCommand):
        return decide_placement(run, command, context)
    if isinstance(command, EpochCommand):
        return decide_epoch(run, command, context)
    if isinstance(command, CheckpointCommand):
        return decide_checkpoint(run, command, context.now)
    if isinstance(command, LifeCommand):
        return decide_life(run, command, context)
    if isinstance(command, RestoreCommand):
        return decide_restore(run, command)
    assert_never(command)
