"""Commands about the open epoch: started, running, progress, drain, stop, close, debts.

The rule: only the open epoch is believed (law 1, B4). A fact about any other one comes too late
and yields nothing.
"""

import math
from typing import assert_never

from broker.history.commands import (
    CloseEpoch,
    PayDebt,
    RecordDrainAck,
    RecordProgress,
    RecordRunning,
    RecordStart,
    ReplaceEpoch,
    RequestDrain,
    StopEpoch,
)
from broker.history.context import Context
from broker.history.deciding_close import decide_close
from broker.history.deciding_life import stop_order, withdraw_waiting
from broker.history.events import (
    DebtPaid,
    DrainAcknowledged,
    DrainRequested,
    EpochStarted,
    GangRunning,
    PlacementPrepared,
    Progressed,
    ReplacementOrdered,
    RunEvent,
    Warned,
)
from broker.history.refusals import Code, Refused
from broker.history.thinning import progress_every_s
from broker.model.checkpoint import STEP_MAX, EpochId
from broker.model.reasons import Reason
from broker.model.run import Epoch, Run
from broker.model.states import PlacementState

EpochCommand = (
    RecordProgress
    | RecordStart
    | RecordRunning
    | RequestDrain
    | RecordDrainAck
    | StopEpoch
    | ReplaceEpoch
    | CloseEpoch
    | PayDebt
)


def decide_epoch(run: Run, command: EpochCommand, context: Context) -> tuple[RunEvent, ...]:
    """Return what a command about an epoch makes of the run."""
    match command:
        case RecordProgress():
            return _progress(run, command, context)
        case RecordStart():
            return _start(run, command, context)
        case RecordRunning():
            epoch = _started(run, command.epoch)
            is_news = epoch is not None and epoch.running_s is None
            return (GangRunning(epoch=command.epoch),) if is_news else ()
        case RequestDrain():
            return _drain(run, command, context)
        case RecordDrainAck():
            epoch = _started(run, command.epoch)
            if epoch is None or epoch.drain is None or epoch.drain.is_acked:
                return ()
            is_step = command.step is not None and 0 <= command.step <= STEP_MAX
            step = command.step if is_step else None
            return (DrainAcknowledged(epoch=epoch.id, step=step),)
        case StopEpoch():
            return _stop(run, command, context)
        case ReplaceEpoch():
            return _replace(run, command)
        case CloseEpoch():
            return decide_close(run, command, context)
        case PayDebt():
            owing = run.epoch(command.epoch)
            return (DebtPaid(epoch=command.epoch),) if owing is not None and owing.is_owed else ()
        case _:
            assert_never(command)


def _started(run: Run, epoch_id: EpochId) -> Epoch | None:
    """Return the open epoch if it is this one and has started."""
    epoch = run.open_epoch
    if epoch is None or epoch.id != epoch_id or epoch.started_s is None:
        return None
    return epoch


def _start(run: Run, command: RecordStart, context: Context) -> tuple[RunEvent, ...]:
    epoch = run.open_epoch
    if epoch is None or epoch.id != command.epoch or epoch.started_s is not None:
        return ()
    if not command.nonces or len(set(command.nonces)) != len(command.nonces):
        raise Refused(
            Reason.INVALID_FIELD,
            "an owner record lists one nonce for each rank",
            "nonces",
            Code.INVALID_ARGUMENT,
        )
    within_s = command.report_within_s
    started = EpochStarted(
        epoch=epoch.id,
        nonces=command.nonces,
        report_by_s=None if within_s is None else context.now.elapsed_s + within_s,
        nodes=command.nodes,
    )
    events: tuple[RunEvent, ...] = (started,)
    if run.placements[epoch.placement].state is PlacementState.PREPARING:
        events = (PlacementPrepared(placement=epoch.placement), started)
    if epoch.stop is not None and not epoch.is_recalled:
        # It is about to be fenced; what else waits is the run's next place.
        return events
    message = f"The run has started in {epoch.region}"
    return events + withdraw_waiting(run, Reason.OTHER_LEG_STARTED, message)


def _progress(run: Run, command: RecordProgress, context: Context) -> tuple[RunEvent, ...]:
    epoch = _started(run, command.epoch)
    if epoch is None or not 0 <= command.step <= STEP_MAX:
        return ()
    last = run.progress
    if last is not None and last.epoch == epoch.id.number:
        is_due = context.now.since(last.at_s) >= progress_every_s(run, context.now)
        if not (is_due or command.is_last) or command.step <= last.step:
            return ()
    # JSON has no NaN, and a loss that is not a number is as good as none.
    has_loss = command.loss is not None and math.isfinite(command.loss)
    loss = command.loss if has_loss else None
    return (Progressed(epoch=epoch.id, step=command.step, loss=loss),)


def _drain(run: Run, command: RequestDrain, context: Context) -> tuple[RunEvent, ...]:
    epoch = run.open_epoch
    if epoch is None or epoch.stop is not None:
        return ()
    if epoch.started_s is None:
        # Nothing trains yet that could save: it is revoked.
        return stop_order(run, command.reason, command.message)
    deadline_s = context.now.elapsed_s + command.grace_s
    if epoch.drain is not None and epoch.drain.deadline_s <= deadline_s:
        return ()
    drain = DrainRequested(
        epoch=epoch.id, reason=command.reason, message=command.message, deadline_s=deadline_s
    )
    return (drain,)


def _stop(run: Run, command: StopEpoch, context: Context) -> tuple[RunEvent, ...]:
    epoch = run.open_epoch
    stop = stop_order(run, command.reason, command.message)
    if epoch is None or not stop:
        return ()
    drain = epoch.drain
    if drain is None or drain.is_acked or context.now.elapsed_s < drain.deadline_s:
        return stop
    message = (
        f"Epoch {epoch.id.number} in {epoch.region} did not answer its drain "
        f"within {drain.deadline_s - drain.ordered_s:.0f} s"
    )
    return (Warned(reason=Reason.DRAIN_UNACKNOWLEDGED, message=message), *stop)


def _replace(run: Run, command: ReplaceEpoch) -> tuple[RunEvent, ...]:
    """Write a person's word down, and stop the gang if it can be reached.

    Whether its region answers is asked when the epoch is judged: the word closes nothing.
    """
    epoch = run.open_epoch
    if epoch is None or epoch.id != command.epoch:
        raise Refused(
            Reason.ILLEGAL_IN_STATE,
            f"the run has no open epoch {command.epoch.number}",
            "epoch",
        )
    if not command.by or not command.message:
        raise Refused(
            Reason.INVALID_FIELD,
            "say who goes on without a gang, and why",
            "message",
            Code.INVALID_ARGUMENT,
        )
    if epoch.go_on_by:
        return ()
    ordered = ReplacementOrdered(epoch=epoch.id, by=command.by, message=command.message)
    said = f"said by {command.by}: {command.message}"
    return (ordered, *stop_order(run, Reason.REPLACED_UNREACHABLE, said))
