"""Which checkpoints a start may resume from, and which of them it takes.

The rule: "newest" follows the lineage of the latest started epoch. That epoch's own sealed
checkpoints come first, then the one it resumed from and those of the same epoch before it, and so
on back. A later step on a branch that a rollback left is not on the lineage, so a rollback is never
undone by what it rolled back. Read ``resumable`` first.
"""

from collections.abc import Callable, Iterator

from broker.model.checkpoint import Checkpoint, CheckpointRef, EpochId
from broker.model.run import Run

STEPS_TOLD = 10  # in a sentence; a list of all is another question


def resumable(run: Run) -> tuple[Checkpoint, ...]:
    """Return what the next start may resume from, the preferred one first.

    A user's wish comes before the lineage: its step alone, or nothing at all for "from the start".
    Only what is sealed, not bad and still has a copy somewhere counts.
    """
    wish = run.resume_wish
    if wish is None:
        return _along_lineage(run, _counts)
    if wish.step is None:
        return ()
    named = named_step(run, wish.step)
    return () if named is None else (named,)


def lost(run: Run) -> tuple[Checkpoint, ...]:
    """Return what the next start would have resumed from had not every copy been lost.

    The preferred one first; empty while there is anything left to resume from, and where nothing
    was to be resumed from in the first place. While it is not empty no start begins from nothing:
    only a person says that.
    """
    wish = run.resume_wish
    if (wish is not None and wish.step is None) or resumable(run):
        return ()
    if wish is not None:
        named = (c for c in run.checkpoints if c.ref.step == wish.step and _was_lost(c))
        return tuple(sorted(named, key=lambda c: c.ref.epoch, reverse=True))
    return _along_lineage(run, _was_lost)


def pick(run: Run, region: str) -> CheckpointRef | None:
    """Return the checkpoint that a start in the region resumes from, None for from the start.

    None may also mean that the region holds none of them yet: ask ``is_within_reach`` first.
    """
    for checkpoint in resumable(run):
        if region in checkpoint.regions:
            return checkpoint.ref
    return None


def is_within_reach(run: Run, region: str) -> bool:
    """Return whether a start in the region would not lose the run's progress for want of a copy.

    True also when there is nothing to resume from. False is a wait for a copy, never a start from
    nothing.
    """
    wish = run.resume_wish
    if wish is not None and wish.step is not None:
        return pick(run, region) is not None
    candidates = resumable(run)
    return any(region in c.regions for c in candidates) or not (candidates or lost(run))


def named_step(run: Run, step: int) -> Checkpoint | None:
    """Return the sealed, good checkpoint of a step, on the lineage if it can be, or None."""
    for checkpoint in _along_lineage(run, _counts):
        if checkpoint.ref.step == step:
            return checkpoint
    others = [c for c in run.checkpoints if c.ref.step == step and _counts(c)]
    return max(others, key=lambda c: c.ref.epoch, default=None)


def nameable(run: Run) -> tuple[Checkpoint, ...]:
    """Return what a person may go back to or fork from, the preferred one first.

    Those of the open epoch are among them: what the log knows complete is in the seal, whenever
    it comes, and a start that names one waits for that seal.
    """
    epoch = run.open_epoch
    own = [c for c in run.checkpoints if epoch is not None and c.ref.epoch == epoch.id]
    fresh = [c for c in own if not c.is_bad and c.regions]
    fresh.sort(key=lambda c: c.ref.step, reverse=True)
    lineage = _along_lineage(run, _counts)
    rest = [c for c in reversed(run.checkpoints) if _counts(c) and c not in lineage]
    return (*fresh, *lineage, *rest)


def nameable_in_words(run: Run) -> str:
    """Return which steps a person may go back to or fork from, the preferred ones first."""
    steps = list(dict.fromkeys(c.ref.step for c in nameable(run)))
    if not steps:
        return "no checkpoint of it counts yet; from the beginning it can begin anew"
    shown = ", ".join(str(step) for step in steps[:STEPS_TOLD])
    rest = len(steps) - STEPS_TOLD
    return f"these can be named: {shown}" + (f" and {rest} more" if rest > 0 else "")


def has_anchor(run: Run) -> bool:
    """Return whether the run itself has a checkpoint that counts (law 5); a seed is not its own."""
    return any(c.is_sealed and not c.is_bad and c.ref.is_own for c in run.checkpoints)


def has_saved_since(run: Run) -> bool:
    """Return whether the latest start saved something good, and nobody asked for another since.

    Only then is what lies before it no longer needed. Until then what it was to begin with may turn
    out to be damaged or gone, and who named a step may take the word back.
    """
    latest = next((e for e in reversed(run.epochs) if e.started_s is not None), None)
    if latest is None or latest.id.number < run.resumed_at:
        return False
    return any(c.ref.epoch == latest.id and c.regions and not c.is_bad for c in run.checkpoints)


def descends_from(run: Run, start: CheckpointRef | None, ref: CheckpointRef) -> bool:
    """Return whether what began at ``start`` read ``ref``, itself or through its ancestors."""
    return any(ancestor == ref for ancestor in _ancestors(run, start))


def _along_lineage(run: Run, is_wanted: Callable[[Checkpoint], bool]) -> tuple[Checkpoint, ...]:
    """Return the wanted checkpoints of the lineage, the preferred one first."""
    latest = next((e for e in reversed(run.epochs) if e.started_s is not None), None)
    if latest is None:
        # Nothing has started: only what a fork was seeded with, or what an adopted log brought.
        return tuple(c for c in reversed(run.checkpoints) if is_wanted(c))
    found = _of_epoch(run, latest.id, None, is_wanted)
    for ancestor in _ancestors(run, latest.resume_from):
        if _is_bad(run, ancestor):
            # What was read from a bad checkpoint is as bad as it: only what lies before counts.
            found = []
        found += _of_epoch(run, ancestor.epoch, ancestor.step, is_wanted)
    return tuple(found)


def _ancestors(run: Run, start: CheckpointRef | None) -> Iterator[CheckpointRef]:
    """Yield ``start``, what its epoch resumed from, and so on back."""
    by_id = {epoch.id: epoch for epoch in run.epochs}
    ref = start
    while ref is not None:
        yield ref
        # An epoch resumes only from earlier ones, so this ends; one before the log is unknown.
        epoch = by_id.get(ref.epoch)
        ref = None if epoch is None else epoch.resume_from


def _of_epoch(
    run: Run, epoch: EpochId, up_to: int | None, is_wanted: Callable[[Checkpoint], bool]
) -> list[Checkpoint]:
    """Return the epoch's wanted checkpoints, newest first, none after ``up_to``."""
    own = [
        c
        for c in run.checkpoints
        if c.ref.epoch == epoch and is_wanted(c) and (up_to is None or c.ref.step <= up_to)
    ]
    own.sort(key=lambda c: c.ref.step, reverse=True)
    return own


def _counts(checkpoint: Checkpoint) -> bool:
    return checkpoint.is_sealed and not checkpoint.is_bad and bool(checkpoint.regions)


def _was_lost(checkpoint: Checkpoint) -> bool:
    return checkpoint.is_sealed and not checkpoint.is_bad and checkpoint.is_lost


def _is_bad(run: Run, ref: CheckpointRef) -> bool:
    return any(c.is_bad and c.ref == ref for c in run.checkpoints)
