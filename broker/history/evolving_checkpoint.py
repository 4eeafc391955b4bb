"""What an event of a checkpoint makes of the run."""

from decimal import Decimal
from typing import assert_never

from broker.history.events import (
    CheckpointCompleted,
    CheckpointCopied,
    CheckpointLost,
    CheckpointMarked,
    CheckpointPruned,
    CheckpointRefused,
    RetirementBegun,
)
from broker.history.refusals import IllegalMoveError
from broker.model.checkpoint import Checkpoint, CheckpointRef, Hold, RefusedCheckpoint
from broker.model.copying import CopySpend
from broker.model.replacing import replace
from broker.model.run import Run

CheckpointEvent = (
    CheckpointCompleted
    | CheckpointRefused
    | CheckpointCopied
    | CheckpointLost
    | CheckpointMarked
    | CheckpointPruned
    | RetirementBegun
)

REFUSED_KEPT = 100  # on the run; the log has them all


def evolve_checkpoint(run: Run, event: CheckpointEvent) -> Run:
    """Return the run after an event of one of its checkpoints."""
    if isinstance(event, CheckpointCompleted):
        return _completed(run, event)
    if isinstance(event, CheckpointRefused):
        return _refused(run, event)
    if isinstance(event, RetirementBegun):
        return replace(run, is_retiring=True)
    checkpoint = next((c for c in run.checkpoints if c.ref == event.ref), None)
    if checkpoint is None:
        raise IllegalMoveError(f"{run.name}: no checkpoint {event.ref}")
    match event:
        case CheckpointCopied():
            here = frozenset({event.region})
            regions, lost_in = checkpoint.regions | here, checkpoint.lost_in - here
            put = _put(run, replace(checkpoint, regions=regions, lost_in=lost_in))
            return replace(put, copy_spends=_spent(run, event)) if event.source else put
        case CheckpointLost():
            gone = frozenset({event.region})
            regions, lost_in = checkpoint.regions - gone, checkpoint.lost_in | gone
            return _put(run, replace(checkpoint, regions=regions, lost_in=lost_in))
        case CheckpointMarked():
            return _put(run, _marked(checkpoint, event, run.updated.elapsed_s))
        case CheckpointPruned():
            return _pruned(run, event.ref)
        case _:
            assert_never(event)


def seal(run: Run, refs: tuple[CheckpointRef, ...], home: str) -> tuple[Checkpoint, ...]:
    """Return the run's checkpoints with these sealed; unknown ones are added, with no copy yet.

    A restored broker learns from a grant that a checkpoint counts before it has seen the files.
    """
    wanted = set(refs)
    sealed = [replace(c, is_sealed=True) if c.ref in wanted else c for c in run.checkpoints]
    known = {c.ref for c in run.checkpoints}
    sealed += [
        Checkpoint(
            ref=ref,
            size_bytes=0,
            home=home,
            written_wall_s=run.updated.wall_s,
            regions=frozenset(),
            is_sealed=True,
        )
        for ref in refs
        if ref not in known
    ]
    return tuple(sealed)


def doubted_anew(checkpoint: Checkpoint) -> Checkpoint:
    """Return a lost checkpoint as if its copies were there: they are looked for once more."""
    if not checkpoint.is_lost:
        return checkpoint
    return replace(checkpoint, regions=checkpoint.lost_in, lost_in=frozenset())


def _put(run: Run, checkpoint: Checkpoint) -> Run:
    changed = (checkpoint if c.ref == checkpoint.ref else c for c in run.checkpoints)
    return replace(run, checkpoints=tuple(changed))


def _completed(run: Run, event: CheckpointCompleted) -> Run:
    if any(c.ref == event.ref for c in run.checkpoints):
        raise IllegalMoveError(f"{run.name}: checkpoint {event.ref} completed twice")
    checkpoint = Checkpoint(
        ref=event.ref,
        size_bytes=event.size_bytes,
        home=event.region,
        written_wall_s=event.written_wall_s,
        regions=frozenset({event.region}),
    )
    left = tuple(r for r in run.refused if (r.epoch, r.step) != (event.ref.epoch, event.ref.step))
    return replace(run, checkpoints=(*run.checkpoints, checkpoint), refused=left)


def _spent(run: Run, event: CheckpointCopied) -> tuple[CopySpend, ...]:
    """Return what copies cost by region, with one more."""
    others = tuple(one for one in run.copy_spends if one.region != event.region)
    before = next((one for one in run.copy_spends if one.region == event.region), None)
    before = before or CopySpend(region=event.region, copies=0, sent_bytes=0, usd=Decimal(0))
    now = CopySpend(
        region=event.region,
        copies=before.copies + 1,
        sent_bytes=before.sent_bytes + event.sent_bytes,
        usd=before.usd + event.usd,
    )
    return (*others, now)


def _pruned(run: Run, ref: CheckpointRef) -> Run:
    kept = tuple(c for c in run.checkpoints if c.ref != ref)
    epoch = run.open_epoch
    if epoch is None or epoch.id != ref.epoch:
        return replace(run, checkpoints=kept)
    remembering = replace(epoch, let_go=epoch.let_go | {ref.step})
    return replace(run, checkpoints=kept, epochs=(*run.epochs[:-1], remembering))


def _refused(run: Run, event: CheckpointRefused) -> Run:
    refused = RefusedCheckpoint(
        epoch=event.epoch,
        step=event.step,
        region=event.region,
        why=event.why,
        wall_s=run.updated.wall_s,
    )
    return replace(run, refused=(*run.refused, refused)[-REFUSED_KEPT:])


def _marked(checkpoint: Checkpoint, event: CheckpointMarked, now_s: float) -> Checkpoint:
    holds = (Hold(fork=event.held_for, since_s=now_s),) if event.held_for else ()
    return replace(
        checkpoint,
        holds=(*checkpoint.holds, *holds),
        is_bad=checkpoint.is_bad if event.is_bad is None else event.is_bad,
        is_pinned=checkpoint.is_pinned if event.is_pinned is None else event.is_pinned,
        label=checkpoint.label if event.label is None else event.label,
    )
