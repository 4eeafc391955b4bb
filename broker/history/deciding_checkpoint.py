"""Commands about checkpoints: found complete, copied, lost, marked, pruned, all to go."""

from collections.abc import Iterable
from typing import assert_never

from broker.history.commands import (
    BeginRetirement,
    MarkCheckpoint,
    RecordCheckpoint,
    RecordCopy,
    RecordLostCopy,
    RecordPruned,
    RefuseCheckpoint,
)
from broker.history.deciding_life import refuse_retiring, stop_order
from broker.history.events import (
    CheckpointCompleted,
    CheckpointCopied,
    CheckpointLost,
    CheckpointMarked,
    CheckpointPruned,
    CheckpointRefused,
    Resumed,
    RetirementBegun,
    RunEvent,
    Warned,
)
from broker.history.evolving_checkpoint import evolve_checkpoint
from broker.history.lineage import descends_from, has_saved_since, resumable
from broker.history.refusals import Code, Refused
from broker.model.checkpoint import HOLD_COMES_S, STEP_MAX, Checkpoint, CheckpointRef
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Epoch, Run

CheckpointCommand = (
    RecordCheckpoint
    | RefuseCheckpoint
    | RecordCopy
    | RecordLostCopy
    | MarkCheckpoint
    | RecordPruned
    | BeginRetirement
)

LABEL_MAX = 100  # characters
REFUSALS_MAX = 100  # said of one epoch: whatever garbles its markers is known by then
HOLDS_MAX = 1_000  # forks of one checkpoint: each is part of the run's state


def decide_checkpoint(run: Run, command: CheckpointCommand, now: Moment) -> tuple[RunEvent, ...]:
    """Return what a command about a checkpoint makes of the run."""
    match command:
        case RecordCheckpoint():
            return _complete(run, command)
        case RefuseCheckpoint():
            epoch = run.open_epoch
            return () if epoch is None else refuse(run, epoch, (command,))
        case RecordCopy():
            known = _find(run, command.ref)
            if known is None or command.region in known.regions:
                return ()
            copied = CheckpointCopied(
                ref=command.ref,
                region=command.region,
                source=command.source,
                sent_bytes=command.sent_bytes,
                usd=command.usd,
            )
            return (copied,)
        case RecordLostCopy():
            return _lose(run, command)
        case MarkCheckpoint():
            return _mark(run, command)
        case RecordPruned():
            return _prune(run, command.ref, now)
        case BeginRetirement():
            return _retire(run, now)
        case _:
            assert_never(command)


def _find(run: Run, ref: CheckpointRef) -> Checkpoint | None:
    return next((c for c in run.checkpoints if c.ref == ref), None)


def _complete(run: Run, command: RecordCheckpoint) -> tuple[RunEvent, ...]:
    epoch = run.open_epoch
    ref = command.ref
    # A closed epoch is never scanned again (B3), and one that has not started writes nothing (B4).
    if epoch is None or ref.epoch != epoch.id or epoch.started_s is None:
        return ()
    if not 0 <= ref.step <= STEP_MAX or command.size_bytes < 0:
        return ()
    if command.region != epoch.region:
        raise Refused(
            Reason.INVALID_FIELD,
            f"epoch {epoch.id.folder} writes in {epoch.region}",
            "region",
            Code.INVALID_ARGUMENT,
        )
    if ref.step in epoch.let_go:
        return ()  # the look began before the step was let go
    if any(c.ref.epoch == ref.epoch and c.ref.step == ref.step for c in run.checkpoints):
        return ()
    completed = CheckpointCompleted(
        ref=ref,
        size_bytes=command.size_bytes,
        region=command.region,
        written_wall_s=command.written_wall_s,
    )
    return (completed,)


def refuse(
    run: Run, epoch: Epoch, refused: Iterable[RefuseCheckpoint]
) -> tuple[CheckpointRefused, ...]:
    """Return what is to be said of an epoch's markers that do not hold: once for each step."""
    if epoch.started_s is None:
        return ()
    known = {c.ref.step for c in run.checkpoints if c.ref.epoch == epoch.id}
    known |= {said.step for said in run.refused if said.epoch == epoch.id} | epoch.let_go
    room = REFUSALS_MAX - sum(said.epoch == epoch.id for said in run.refused)
    news = {
        one.step: CheckpointRefused(epoch=epoch.id, step=one.step, region=epoch.region, why=one.why)
        for one in refused
        if one.epoch == epoch.id and one.step not in known and 0 <= one.step <= STEP_MAX
    }
    return tuple(news[step] for step in sorted(news))[: max(0, room)]


def _lose(run: Run, command: RecordLostCopy) -> tuple[RunEvent, ...]:
    """Take a copy off; with the last one of what the next start was to read, say so loudly."""
    known = _find(run, command.ref)
    if known is None or command.region not in known.regions:
        return ()
    gone = CheckpointLost(ref=command.ref, region=command.region, message=command.message)
    before = resumable(run)
    if known.regions != {command.region} or not before or before[0].ref != command.ref:
        return (gone,)
    left = resumable(evolve_checkpoint(run, gone))
    # With nothing left the run ends, and its end says what was lost.
    fallback = f"; the next start goes back to step {left[0].ref.step}" if left else ""
    message = f"no copy of step {command.ref.step} is left in any store{fallback}"
    return (gone, Warned(reason=Reason.CHECKPOINT_LOST, message=message))


def _mark(run: Run, command: MarkCheckpoint) -> tuple[RunEvent, ...]:
    refuse_retiring(run)
    same_step = [c for c in run.checkpoints if c.ref.step == command.step]
    if not same_step:
        raise Refused(
            Reason.NOT_FOUND, f"no checkpoint of step {command.step}", "step", Code.NOT_FOUND
        )
    if command.label is not None and len(command.label) > LABEL_MAX:
        raise Refused(
            Reason.INVALID_FIELD,
            f"a label has up to {LABEL_MAX} characters",
            "label",
            Code.INVALID_ARGUMENT,
        )
    if command.hold_for and any(len(c.holds) >= HOLDS_MAX for c in same_step):
        raise Refused(
            Reason.ILLEGAL_IN_STATE, f"{HOLDS_MAX} runs were forked from this step; take another"
        )
    # A step that was trained twice, before and after a rollback, is marked in both.
    changed = [c for c in same_step if _changes(c, command)]
    events: list[RunEvent] = [
        CheckpointMarked(
            ref=c.ref,
            is_bad=command.is_bad,
            is_pinned=command.is_pinned,
            label=command.label,
            held_for=command.hold_for,
        )
        for c in changed
    ]
    if command.is_bad:
        events += _leave_bad(run, command.step, [c.ref for c in changed])
    return tuple(events)


def _changes(checkpoint: Checkpoint, command: MarkCheckpoint) -> bool:
    return (
        command.is_bad not in (None, checkpoint.is_bad)
        or command.is_pinned not in (None, checkpoint.is_pinned)
        or command.label not in (None, checkpoint.label)
        or command.hold_for not in ("", *(hold.fork for hold in checkpoint.holds))
    )


def _leave_bad(run: Run, step: int, bad: list[CheckpointRef]) -> list[RunEvent]:
    """Stop what read the step, and drop the wish to read it."""
    events: list[RunEvent] = []
    wish = run.resume_wish
    if bad and wish is not None and wish.step == step:
        events.append(Resumed(step=None, from_start=False))
    epoch = run.open_epoch
    if epoch is not None and any(descends_from(run, epoch.resume_from, ref) for ref in bad):
        events += stop_order(run, Reason.STEP_MARKED_BAD, f"Step {step} was marked bad")
    return events


def _prune(run: Run, ref: CheckpointRef, now: Moment) -> tuple[RunEvent, ...]:
    checkpoint = _find(run, ref)
    if checkpoint is None:
        return ()
    epoch = run.open_epoch
    candidates = resumable(run)
    why = ""
    if checkpoint.is_pinned or checkpoint.label:
        why = "it is pinned or named"
    elif any(now.since(hold.since_s) < HOLD_COMES_S for hold in checkpoint.holds):
        why = "a fork is to begin with it"
    elif epoch is not None and epoch.resume_from == ref:
        why = "the open epoch reads it"
    elif epoch is not None and ref.epoch == epoch.id and _is_newest(run, ref):
        why = "it is the newest of the open epoch"
    elif run.resume_wish is not None and run.resume_wish.step == ref.step:
        why = "the next start is to begin with it"
    elif not has_saved_since(run):
        why = "the latest start has saved nothing yet"
    elif [c.ref for c in candidates] == [ref]:
        why = "it is the only one to resume from"
    if why:
        raise Refused(Reason.ILLEGAL_IN_STATE, f"step {ref.step} is kept: {why}")
    return (CheckpointPruned(ref=ref),)


def _retire(run: Run, now: Moment) -> tuple[RunEvent, ...]:
    if run.is_retiring:
        return ()
    holds = [hold for c in run.checkpoints for hold in c.holds]
    why = ""
    if not run.is_ended or run.live_placements or any(epoch.is_owed for epoch in run.epochs):
        why = "it is not over"
    elif any(c.is_pinned or c.label for c in run.checkpoints):
        why = "a checkpoint of it is pinned or named"
    elif any(now.since(hold.since_s) < HOLD_COMES_S for hold in holds):
        why = "a fork is to begin with a checkpoint of it"
    if why:
        raise Refused(Reason.ILLEGAL_IN_STATE, f"the run is kept: {why}")
    return (RetirementBegun(),)


def _is_newest(run: Run, ref: CheckpointRef) -> bool:
    return ref.step == max(c.ref.step for c in run.checkpoints if c.ref.epoch == ref.epoch)
