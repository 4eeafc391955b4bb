"""What the end of an epoch means for its run: success, another try, or the end.

The rule: an epoch is sealed first, with what counts of it (B3); then its placement, then the run.
Whose fault it was decides which limit is spent: a failure of the run's own code needs an anchor and
a restart left (law 5), an infrastructure loss has a limit of its own, a planned move costs nothing.
Read ``decide_close``, then ``_verdict``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from broker.history.causes import OWN_ENDS, loss_class, placement_end
from broker.history.charging import is_kept_from_start, spent
from broker.history.commands import CloseEpoch, RefuseCheckpoint
from broker.history.context import Context
from broker.history.deciding_checkpoint import refuse
from broker.history.deciding_life import withdraw_waiting
from broker.history.events import (
    CheckpointCompleted,
    Ended,
    PlacementEnded,
    Requeued,
    RunEvent,
    Sealed,
    Warned,
    WithdrawalOrdered,
)
from broker.history.exits import by_exits, was_told
from broker.history.lineage import has_anchor
from broker.history.refusals import Code, Refused
from broker.model.billing import final_bill
from broker.model.checkpoint import STEP_MAX, CheckpointRef
from broker.model.reasons import FailureClass, Reason
from broker.model.run import CloseRule, Epoch, Run, Why
from broker.model.states import PlacementEnd, RunState

_FINISHED = "all ranks ended with exit code 0"
# A user called the work back that the gang did: that it is done makes it no more wanted.
_UNWANTED = frozenset({Reason.RESUMED_BY_USER, Reason.STEP_MARKED_BAD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why the epoch ended. ``failure`` None is nobody's; ``is_done`` is the command's success."""

    reason: Reason
    message: str
    failure: FailureClass | None
    is_done: bool = False


def decide_close(run: Run, command: CloseEpoch, context: Context) -> tuple[RunEvent, ...]:
    """Close the open epoch and say what follows; nothing for an epoch that is not open."""
    epoch = run.open_epoch
    if epoch is None or epoch.id != command.epoch:
        return ()
    _check_rule(epoch, command)
    completed, refs, warned = _found(run, epoch, command)
    verdict = _charged(_verdict(run, epoch, command), has_saved=bool(refs))
    verdict = _kept_from_start(run, epoch, command, verdict)
    sealed = Sealed(
        epoch=epoch.id,
        rule=command.rule,
        checkpoints=refs,
        ends=command.ends,
        is_owed=command.rule is CloseRule.UNREACHABLE,
        reason=verdict.reason,
        message=verdict.message,
        failure=verdict.failure,
        word=command.word,
    )
    return (
        *completed,
        *refuse(run, epoch, _unfound(command)),
        sealed,
        *warned,
        *_leave_place(run, epoch, command, verdict, context),
        *_then(run, verdict, is_anchored=has_anchor(run) or bool(refs)),
    )


def _unfound(command: CloseEpoch) -> Iterator[RefuseCheckpoint]:
    """Yield the refusals of a last scan that the same scan does not contradict."""
    found = {one.ref.step for one in command.found}
    return (one for one in command.refused if one.step not in found)


def _check_rule(epoch: Epoch, command: CloseEpoch) -> None:
    """Refuse a close that the protocol does not give: law 1 rests on these."""
    is_started = epoch.started_s is not None
    match command.rule:
        case CloseRule.NEVER_STARTED:
            is_right = not is_started
        case CloseRule.SEEN_ENDED | CloseRule.FENCE_HEARD:
            # Rank by rank, every one that `owner` lists.
            ranks = sorted(end.rank for end in command.ends)
            is_right = is_started and ranks == list(range(len(epoch.nonces)))
        case CloseRule.UNREACHABLE:
            is_right = True
    if not is_right:
        raise Refused(
            Reason.ILLEGAL_IN_STATE,
            f"epoch {epoch.id.folder} is not closed by {command.rule} as the log knows it",
        )


def _verdict(run: Run, epoch: Epoch, command: CloseEpoch) -> Verdict:
    """Say why it ended: its work was done, our own order, a cause that explains it, the exits."""
    drain = epoch.drain
    if _has_finished(command) and not _is_called_back(run, epoch):
        # Whatever was ordered meanwhile, nobody had heard of it: the work is done.
        message = _FINISHED.capitalize()
        if epoch.stop is not None:
            message += f" before they heard that they should stop: {epoch.stop.message}"
        return Verdict(reason=Reason.COMPLETED, message=message, failure=None, is_done=True)
    if epoch.stop is not None and _was_revoked(epoch, epoch.stop):
        # Our own revocation, for whatever reason, loses nothing, even one that came too late.
        return Verdict(reason=epoch.stop.reason, message=epoch.stop.message, failure=None)
    if epoch.stop is not None and loss_class(epoch.stop.reason) is None:
        # It was leaving as planned; what else befell it on the way is no loss.
        return Verdict(reason=epoch.stop.reason, message=epoch.stop.message, failure=None)
    if command.cause is not None:
        return _explained(command.cause, command.message)
    if epoch.stop is not None:
        return _explained(epoch.stop.reason, epoch.stop.message)
    if drain is not None and (drain.is_acked or was_told(command.ends)):
        return _explained(drain.reason, drain.message)
    return _by_exits(command)


def _charged(verdict: Verdict, *, has_saved: bool) -> Verdict:
    """Charge a fault that only the gang's own last words tell of to whom it is to be charged.

    A deadlock of the run's own code reads like a network that failed. Who had got on when it came
    is believed; who had not would come to it again, at the price of its machines (law 5).
    """
    if verdict.reason is not Reason.TRANSIENT_FAULT or has_saved:
        return verdict
    return replace(verdict, failure=FailureClass.USER)


def _kept_from_start(run: Run, epoch: Epoch, command: CloseEpoch, verdict: Verdict) -> Verdict:
    """Leave to the end of its placement what is counted then: that its user's fault kept it."""
    placement = run.placements[epoch.placement]
    is_kept = is_kept_from_start(placement, verdict.reason, command.word)
    is_no_start = command.rule is CloseRule.NEVER_STARTED
    return replace(verdict, failure=None) if is_no_start and is_kept else verdict


def _was_revoked(epoch: Epoch, stop: Why) -> bool:
    """Return whether it was stopped before it had started, as far as the log knew.

    A verdict on ranks that were heard is no revocation, though it may be logged before the start.
    """
    if stop.reason in OWN_ENDS:
        return False
    return epoch.started_s is None or stop.since_s < epoch.started_s


def _has_finished(command: CloseEpoch) -> bool:
    """Return whether every rank's command ended by itself, with success.

    One that saved and let go because it was told to leaves with 0 as well; its launcher says why.
    """
    is_heard = command.rule in (CloseRule.SEEN_ENDED, CloseRule.FENCE_HEARD)
    is_well = all(end.exit_code == 0 and not end.cause for end in command.ends)
    return is_heard and bool(command.ends) and is_well


def _is_called_back(run: Run, epoch: Epoch) -> bool:
    """Return whether the gang left as it was asked to, or its user wants another end than this."""
    drain, stop = epoch.drain, epoch.stop
    is_unwanted = stop is not None and stop.reason in _UNWANTED
    return (drain is not None and drain.is_acked) or is_unwanted or run.resume_wish is not None


def _explained(cause: Reason, message: str) -> Verdict:
    return Verdict(reason=cause, message=message, failure=loss_class(cause))


def _by_exits(command: CloseEpoch) -> Verdict:
    match command.rule:
        case CloseRule.NEVER_STARTED:
            return _explained(Reason.GATE_TIMEOUT, command.message or "The gang never started")
        case CloseRule.UNREACHABLE:
            message = command.message or "The region could not be reached"
            return _explained(Reason.REPLACED_UNREACHABLE, message)
        case CloseRule.SEEN_ENDED | CloseRule.FENCE_HEARD:
            reason, message = by_exits(command.ends)
            return _explained(reason, message)


def _found(
    run: Run, epoch: Epoch, command: CloseEpoch
) -> tuple[tuple[CheckpointCompleted, ...], tuple[CheckpointRef, ...], tuple[Warned, ...]]:
    """Return what the last scan adds, all that the seal names, and what does not fit together."""
    known = {c.ref.step: c.ref for c in run.checkpoints if c.ref.epoch == epoch.id}
    completed: list[CheckpointCompleted] = []
    warned: list[Warned] = []
    for found in () if epoch.started_s is None else command.found:
        if found.ref.epoch != epoch.id or found.region != epoch.region:
            raise Refused(
                Reason.INVALID_FIELD,
                "a scan found a checkpoint of another epoch",
                "found",
                Code.INVALID_ARGUMENT,
            )
        former = known.get(found.ref.step)
        if found.ref.step in epoch.let_go:
            continue  # the scan began before the step was let go
        if former is None and 0 <= found.ref.step <= STEP_MAX:
            known[found.ref.step] = found.ref
            completed.append(
                CheckpointCompleted(
                    ref=found.ref,
                    size_bytes=found.size_bytes,
                    region=found.region,
                    written_wall_s=found.written_wall_s,
                )
            )
        elif former is not None and former.digest != found.ref.digest:
            # Files of a checkpoint never change: what was known complete first is what counts,
            # and a copy that no longer matches it will not verify.
            message = f"Step {former.step} of epoch {epoch.id.number} was written twice"
            warned.append(Warned(reason=Reason.COPY_NOT_VERIFIED, message=message))
    refs = tuple(known[step] for step in sorted(known))
    return tuple(completed), refs, tuple(warned)


def _leave_place(
    run: Run, epoch: Epoch, command: CloseEpoch, verdict: Verdict, context: Context
) -> tuple[RunEvent, ...]:
    """End the placement when its gang was seen gone; else order what is left to be removed."""
    placement = run.placements[epoch.placement]
    if command.rule in (CloseRule.SEEN_ENDED, CloseRule.FENCE_HEARD):
        bill, gone_s = final_bill(placement, command.nodes, context.now)
        ended = PlacementEnded(
            placement=placement.id,
            end=PlacementEnd.SUCCEEDED if verdict.is_done else placement_end(verdict.reason),
            reason=verdict.reason,
            message=verdict.message,
            failure=verdict.failure,
            bill=bill,
            gone_s=gone_s,
        )
        return (ended,)
    order = WithdrawalOrdered(
        placement=placement.id, reason=verdict.reason, message=verdict.message
    )
    withdraw = () if placement.withdraw is not None else (order,)
    if command.rule is CloseRule.NEVER_STARTED:
        return withdraw
    hourly = placement.site.price_per_gpu_hour * placement.site.gpus
    zombie = Warned(
        reason=Reason.ZOMBIE_POSSIBLE,
        message=(
            f"Epoch {epoch.id.number} may still run in {epoch.region} at {hourly:.2f} USD an hour; "
            "nothing it writes counts any more, and its fence is owed"
        ),
    )
    return (*withdraw, zombie)


def _then(run: Run, verdict: Verdict, *, is_anchored: bool) -> tuple[RunEvent, ...]:
    """Say what becomes of the run."""
    ending = run.ending
    if verdict.is_done and ending is not None and ending.state is RunState.CANCELLED:
        message = f"{ending.message}; it had finished before the cancel reached it: {_FINISHED}"
        return _over(run, ending.state, ending.reason, message, None)
    if verdict.is_done:
        return _over(run, RunState.SUCCEEDED, verdict.reason, verdict.message, None)
    if ending is not None:
        return _over(run, ending.state, ending.reason, ending.message, verdict.failure)
    last = spent(run, verdict.failure, verdict.message, is_anchored=is_anchored)
    if last is not None:
        return _over(run, RunState.FAILED, *last, verdict.failure)
    requeued = Requeued(reason=verdict.reason, message=verdict.message, failure=verdict.failure)
    return (requeued,)


def _over(
    run: Run, state: RunState, reason: Reason, message: str, failure: FailureClass | None
) -> tuple[RunEvent, ...]:
    ended = Ended(state=state, reason=reason, message=message, failure=failure)
    return (*withdraw_waiting(run, Reason.RUN_ENDED, message), ended)
