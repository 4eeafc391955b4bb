"""Which checkpoints a run keeps because others were forked from them. Pure.

The rule: a fork needs what it began with until it has a checkpoint of its own that counts, or has
succeeded, or is no longer in the log; one that failed may be resumed, and then begins there again.
Nobody has to let go of anything: what is held follows from the forks as they are. Read ``held``.
"""

from collections.abc import Callable

from broker.history.lineage import has_anchor
from broker.model.checkpoint import HOLD_COMES_S, CheckpointRef, Hold
from broker.model.moment import Moment
from broker.model.run import Run
from broker.model.states import RunState

_OVER = frozenset({RunState.SUCCEEDED, RunState.REJECTED})


def held(run: Run, find: Callable[[str], Run | None], now: Moment) -> frozenset[CheckpointRef]:
    """Return the run's checkpoints that a fork still needs; ``find`` returns a run by its name."""
    return frozenset(
        checkpoint.ref
        for checkpoint in run.checkpoints
        if any(_is_needed(hold, find(hold.fork), checkpoint.ref, now) for hold in checkpoint.holds)
    )


def _is_needed(hold: Hold, fork: Run | None, ref: CheckpointRef, now: Moment) -> bool:
    if now.since(hold.since_s) < HOLD_COMES_S:
        return True
    if fork is None:
        return False
    # A name is free again once its run has left the log: another run may have taken it.
    is_of_it = any((c.ref.epoch, c.ref.step) == (ref.epoch, ref.step) for c in fork.checkpoints)
    return is_of_it and fork.state not in _OVER and not has_anchor(fork)
