"""Fold what happened into the run: ``evolve(run, recorded) -> Run``.

The rule: evolve trusts the event and decides nothing; it only refuses what no table allows. Given
the same events it builds the same run, for ever. The states of a run hold their invariants between
commands, not between the events of one command: fold a command's whole batch, then look.
"""

from collections.abc import Iterable

from broker.history.events import Recorded, Submitted
from broker.history.evolving_checkpoint import CheckpointEvent, evolve_checkpoint
from broker.history.evolving_epoch import EpochEvent, evolve_epoch
from broker.history.evolving_life import LifeEvent, begin, evolve_life
from broker.history.evolving_placement import PlacementEvent, evolve_placement
from broker.history.refusals import IllegalMoveError
from broker.model.replacing import replace
from broker.model.run import Run


def evolve(run: Run | None, recorded: Recorded) -> Run:
    """Return the run after one event.

    Raise IllegalMoveError for an event that the state cannot take, that is out of sequence, or
    that belongs to another kind of stream.
    """
    event = recorded.event
    if run is None:
        if not isinstance(event, Submitted) or recorded.stream_version != 1:
            raise IllegalMoveError(f"{recorded.stream}: a run begins with Submitted, at version 1")
        return begin(event, recorded.at)
    if recorded.stream_version != run.stream_version + 1:
        raise IllegalMoveError(
            f"{run.name}: version {recorded.stream_version} after {run.stream_version}"
        )
    at = recorded.at
    stamped = replace(run, updated=at, stream_version=recorded.stream_version)
    if isinstance(event, PlacementEvent):
        return evolve_placement(stamped, event, at)
    if isinstance(event, EpochEvent):
        return evolve_epoch(stamped, event, at)
    if isinstance(event, CheckpointEvent):
        return evolve_checkpoint(stamped, event)
    if isinstance(event, LifeEvent):
        return evolve_life(stamped, event, at)
    raise IllegalMoveError(f"{run.name}: {type(event).__name__} is no event of a living run")


def fold(run: Run | None, events: Iterable[Recorded]) -> Run | None:
    """Return the run after all the events; None when there were none and there was no run."""
    for recorded in events:
        run = evolve(run, recorded)
    return run
