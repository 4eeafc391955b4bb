"""The one gate through which a state changes: the tables of ``model/states.py``."""

from broker.history.refusals import IllegalMoveError
from broker.model.run import Epoch, Placement, Run
from broker.model.states import (
    EPOCH_MOVES,
    PLACEMENT_MOVES,
    RUN_MOVES,
    EpochState,
    PlacementState,
    RunState,
)


def begin_run(name: str) -> RunState:
    """Return the state in which a run begins: SUBMITTED is left in the instant that it is in."""
    if RunState.VALIDATING not in RUN_MOVES[RunState.SUBMITTED]:
        raise IllegalMoveError(f"{name}: nothing is validated")
    return RunState.VALIDATING


def move_run(run: Run, to: RunState) -> RunState:
    """Return ``to``; raise IllegalMoveError unless the table lists the move."""
    if to not in RUN_MOVES[run.state]:
        raise IllegalMoveError(f"{run.name}: no move from {run.state} to {to}")
    return to


def move_placement(placement: Placement, to: PlacementState) -> PlacementState:
    """Return ``to``; raise IllegalMoveError unless it is listed, or the placement stands there."""
    if to is not placement.state and to not in PLACEMENT_MOVES[placement.state]:
        raise IllegalMoveError(f"placement {placement.id}: no move from {placement.state} to {to}")
    return to


def move_epoch(epoch: Epoch, to: EpochState) -> EpochState:
    """Return ``to``; raise IllegalMoveError unless the table lists the move."""
    if to not in EPOCH_MOVES[epoch.state]:
        raise IllegalMoveError(f"epoch {epoch.id.folder}: no move from {epoch.state} to {to}")
    return to
