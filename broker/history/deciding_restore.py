"""What a restored broker finds above its log: adopted, or stepped over (R1, R2).

The rule: what is found STARTED in a store with a higher number was granted after the backup was
taken, so the epoch that the log holds open was closed by then. Its seal is the one that the newer
grant carries.
"""

from typing import assert_never

from broker.history.commands import AdoptEpoch, SkipEpochs
from broker.history.deciding_life import withdraw_waiting
from broker.history.events import (
    EpochAdopted,
    EpochsSkipped,
    PlacementPrepared,
    Requeued,
    Resumed,
    RunEvent,
    Sealed,
    StopOrdered,
    Validated,
    WithdrawalOrdered,
)
from broker.history.lineage import descends_from
from broker.history.refusals import Code, Refused
from broker.model.reasons import Reason
from broker.model.run import CloseRule, Epoch, Run
from broker.model.states import PlacementState, RunState

RestoreCommand = AdoptEpoch | SkipEpochs


def decide_restore(run: Run, command: RestoreCommand) -> tuple[RunEvent, ...]:
    """Return what a finding after a restore makes of the run."""
    match command:
        case AdoptEpoch():
            return _adopt(run, command)
        case SkipEpochs():
            is_above = command.next_epoch > run.next_epoch
            return (EpochsSkipped(next_epoch=command.next_epoch),) if is_above else ()
        case _:
            assert_never(command)


def _adopt(run: Run, command: AdoptEpoch) -> tuple[RunEvent, ...]:
    if run.epoch(command.epoch) is not None:
        return ()
    _check_adoptable(run, command)
    seals = command.seals
    if command.resume_from is not None and command.resume_from not in seals:
        seals = (*seals, command.resume_from)
    adopted = EpochAdopted(
        epoch=command.epoch,
        placement=command.placement,
        site=command.site,
        nonces=command.nonces,
        resume_from=command.resume_from,
        seals=seals,
        nodes=command.nodes,
    )
    events = [*_make_way(run, command), *_catch_up(run, command), adopted]
    message = "Another leg was found running after a restore"
    events += withdraw_waiting(run, Reason.OTHER_LEG_STARTED, message, but=command.placement)
    return (*events, *_stop_adopted(run, command))


def _stop_adopted(run: Run, command: AdoptEpoch) -> tuple[StopOrdered, ...]:
    """Stop what the log, as far as it goes, already forbids: it was said before the backup."""
    bad = [c.ref for c in run.checkpoints if c.is_bad]
    if run.ending is not None:
        reason, message = run.ending.reason, run.ending.message
    elif any(descends_from(run, command.resume_from, ref) for ref in bad):
        reason, message = Reason.STEP_MARKED_BAD, "It resumed from a step that was marked bad"
    else:
        return ()
    return (StopOrdered(epoch=command.epoch, reason=reason, message=message),)


def _check_adoptable(run: Run, command: AdoptEpoch) -> None:
    if command.epoch.number < run.next_epoch:
        raise Refused(
            Reason.ILLEGAL_IN_STATE,
            f"epoch {command.epoch.folder} is below the log's next, {run.next_epoch}",
        )
    if run.state is RunState.REJECTED:
        raise Refused(Reason.ILLEGAL_IN_STATE, "a rejected run started nothing")
    if not command.nonces:
        raise Refused(
            Reason.INVALID_FIELD, "only a STARTED epoch is adopted", "nonces", Code.INVALID_ARGUMENT
        )
    placement = run.placements.get(command.placement)
    if placement is not None and not placement.is_live:
        raise Refused(Reason.ILLEGAL_IN_STATE, f"placement {placement.id} has ended")


def _make_way(run: Run, command: AdoptEpoch) -> list[RunEvent]:
    """Close what the log holds open: the newer grant proves that it was."""
    epoch = run.open_epoch
    if epoch is None:
        return []
    message = f"Epoch {command.epoch.number} was found started, so it was closed before"
    return [
        Sealed(
            epoch=epoch.id,
            # The log does not know by which rule; a fence to a closed epoch harms nothing.
            rule=CloseRule.UNREACHABLE,
            checkpoints=tuple(ref for ref in command.seals if ref.epoch == epoch.id),
            ends=(),
            is_owed=True,
            reason=Reason.ADOPTED,
            message=message,
            failure=None,
        ),
        *_leave(run, epoch, message),
        Requeued(reason=Reason.ADOPTED, message=message, failure=None),
    ]


def _leave(run: Run, epoch: Epoch, message: str) -> list[RunEvent]:
    if run.placements[epoch.placement].withdraw is not None:
        return []
    return [WithdrawalOrdered(placement=epoch.placement, reason=Reason.ADOPTED, message=message)]


def _catch_up(run: Run, command: AdoptEpoch) -> list[RunEvent]:
    """Bring a log that is behind to where the adopted epoch must have begun."""
    events: list[RunEvent] = []
    if run.state is RunState.VALIDATING:
        events.append(Validated())
    if run.is_ended:
        events.append(Resumed(step=None, from_start=False))
    placement = run.placements.get(command.placement)
    if placement is not None and placement.state is PlacementState.PREPARING:
        events.append(PlacementPrepared(placement=placement.id))
    return events
