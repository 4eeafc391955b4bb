"""Commands about the life of a run: submit, amend, cancel, fail, resume, explain."""

from typing import assert_never

from broker.history.causes import loss_class
from broker.history.commands import (
    AcceptRun,
    AmendTerms,
    CancelRun,
    ClimbLadder,
    ExplainWait,
    FailRun,
    RejectRun,
    ResumeRun,
    SubmitRun,
    WarnRun,
)
from broker.history.context import Context
from broker.history.events import (
    DrainRequested,
    EndDecided,
    Ended,
    LadderClimbed,
    Rejected,
    Resumed,
    RunEvent,
    StopOrdered,
    Submitted,
    TermsAmended,
    Validated,
    WaitExplained,
    Warned,
    WithdrawalOrdered,
)
from broker.history.lineage import lost, nameable, nameable_in_words
from broker.history.prospects import NEWS_DECIDES
from broker.history.refusals import Code, Refused
from broker.model.billing import live_cost
from broker.model.intent import Terms
from broker.model.reasons import Reason
from broker.model.run import Ending, Run
from broker.model.states import RunState

LifeCommand = (
    ExplainWait
    | AcceptRun
    | RejectRun
    | AmendTerms
    | CancelRun
    | FailRun
    | ResumeRun
    | ClimbLadder
    | WarnRun
)

_OF_A_START = frozenset(
    {
        Reason.STARTING,
        Reason.TRAINING,
        Reason.STOPPING,
        Reason.JUDGING_END,
        Reason.CLUSTER_SILENT,
        Reason.CLUSTER_UNREACHABLE,
        Reason.STORE_UNREACHABLE,
    }
)
SAME_TIME_S = 1.0  # a next look that moved by less is the same next look


def submit(run: Run | None, command: SubmitRun) -> tuple[RunEvent, ...]:
    """Create the run; the same request again yields nothing new (law 2)."""
    if run is not None:
        if not command.request_id or run.request_id != command.request_id:
            raise Refused(
                Reason.ALREADY_EXISTS, f"{command.name} exists", "run_id", Code.ALREADY_EXISTS
            )
        if run.body_digest != command.body_digest:
            raise Refused(
                Reason.REQUEST_ID_REUSED,
                "this request_id came with another request before",
                "request_id",
                Code.ALREADY_EXISTS,
            )
        return ()
    submitted = Submitted(
        name=command.name,
        uid=command.uid,
        intent=command.intent,
        request_id=command.request_id,
        body_digest=command.body_digest,
        forked_from=command.forked_from,
        fork_checkpoint=command.fork_checkpoint,
    )
    return (submitted,)


def decide_life(run: Run, command: LifeCommand, context: Context) -> tuple[RunEvent, ...]:
    """Return what a command about the run's life makes of it."""
    match command:
        case ExplainWait():
            return _explain(run, command)
        case AcceptRun():
            return (Validated(image=command.image),) if run.state is RunState.VALIDATING else ()
        case RejectRun():
            return _reject(run, command)
        case AmendTerms():
            return _amend(run, command)
        case CancelRun():
            return _cancel(run, command, context)
        case FailRun():
            is_found = command.reason is Reason.CHECKPOINT_LOST and not lost(run)
            if run.is_ended or is_found:
                return ()
            ending = Ending(
                state=RunState.FAILED,
                reason=command.reason,
                message=command.message,
                grace_s=command.grace_s,
            )
            return _end(run, ending, context)
        case ResumeRun():
            return _resume(run, command, context)
        case ClimbLadder():
            is_waiting = run.wait_began_s is not None and run.state is not RunState.VALIDATING
            return (
                (LadderClimbed(message=command.message),) if is_waiting and not run.climbed else ()
            )
        case WarnRun():
            if any(
                w.reason is command.reason and w.message == command.message for w in run.warnings
            ):
                return ()
            return (Warned(reason=command.reason, message=command.message),)
        case _:
            assert_never(command)


def withdraw_waiting(
    run: Run, reason: Reason, message: str, *, but: str = ""
) -> tuple[WithdrawalOrdered, ...]:
    """Return the orders to take out every leg that still waits, except one."""
    return tuple(
        WithdrawalOrdered(placement=p.id, reason=reason, message=message)
        for p in run.waiting_placements
        if p.id != but
    )


def stop_order(run: Run, reason: Reason, message: str) -> tuple[RunEvent, ...]:
    """Return the order to revoke or fence the open epoch, nothing when it is already ordered.

    One that is only recalled is stopped for another reason, too: that holds if it starts.
    """
    epoch = run.open_epoch
    if epoch is None or (epoch.stop is not None and not epoch.is_recalled):
        return ()
    if epoch.is_recalled and reason is Reason.OTHER_LEG_STARTED:
        return ()
    return (StopOrdered(epoch=epoch.id, reason=reason, message=message),)


def refuse_retiring(run: Run) -> None:
    """Refuse what needs the run's checkpoints once they are on their way out of the stores."""
    if run.is_retiring:
        raise Refused(
            Reason.RETENTION_PASSED,
            "the run ended longer ago than runs are kept: what it saved is being removed, and the"
            " run leaves the log then. Submit it anew",
        )


def _explain(run: Run, command: ExplainWait) -> tuple[RunEvent, ...]:
    if run.is_ended or not _is_told_now(run, command.reason):
        return ()
    if not command.next_action:
        raise Refused(Reason.INVALID_FIELD, "a wait without a next action", "next_action")
    if command.next_at_s is None and command.reason not in NEWS_DECIDES:
        raise Refused(Reason.INVALID_FIELD, "a wait without a time", "next_at_s")
    if not command.message:
        raise Refused(Reason.INVALID_FIELD, "a wait without a sentence", "message")
    why = run.why
    if (why.reason, why.message, why.next_action) == (
        command.reason,
        command.message,
        command.next_action,
    ) and _is_same_time(why.next_at_s, command.next_at_s):
        return ()
    explained = WaitExplained(
        reason=command.reason,
        message=command.message,
        next_action=command.next_action,
        next_at_s=command.next_at_s,
    )
    return (explained,)


def _is_told_now(run: Run, reason: Reason) -> bool:
    """Return whether a sentence is of the time: one about a leg comes too late once it started."""
    epoch = run.open_epoch
    if epoch is None or (epoch.started_s is None and epoch.stop is None):
        return True
    return reason in _OF_A_START


def _is_same_time(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) < SAME_TIME_S


def _reject(run: Run, command: RejectRun) -> tuple[RunEvent, ...]:
    if run.state is RunState.REJECTED:
        return ()
    if run.state is not RunState.VALIDATING:
        raise Refused(Reason.ILLEGAL_IN_STATE, f"the run is {run.state}, past its validation")
    return (Rejected(reason=command.reason, message=command.message, field=command.field),)


def _amend(run: Run, command: AmendTerms) -> tuple[RunEvent, ...]:
    if command.terms == run.terms:
        return ()
    if command.expected_generation != run.terms_generation:
        raise Refused(
            Reason.ETAG_MISMATCH,
            f"the terms are at generation {run.terms_generation}: read them again",
            "etag",
            Code.ABORTED,
        )
    if run.state is RunState.REJECTED:
        raise Refused(Reason.ILLEGAL_IN_STATE, "the run was rejected; submit another")
    amended = TermsAmended(terms=command.terms, generation=run.terms_generation + 1)
    return (amended, *_leave_excluded(run, command.terms))


def _leave_excluded(run: Run, terms: Terms) -> tuple[RunEvent, ...]:
    """Take the run out of the sites that the new terms exclude (B5: no grant is changed)."""
    events: list[RunEvent] = []
    for placement in run.waiting_placements:
        site = placement.site
        if not terms.accepts(site.region, site.capacity_type):
            message = f"{site.region} {site.capacity_type} is no longer accepted"
            events.append(
                WithdrawalOrdered(
                    placement=placement.id, reason=Reason.TERMS_CHANGED, message=message
                )
            )
    epoch = run.open_epoch
    if epoch is not None:
        site = run.placements[epoch.placement].site
        if not terms.accepts(site.region, site.capacity_type):
            message = f"{site.region} {site.capacity_type} is no longer accepted"
            events += stop_order(run, Reason.TERMS_CHANGED, message)
    return tuple(events)


def _cancel(run: Run, command: CancelRun, context: Context) -> tuple[RunEvent, ...]:
    if run.state is RunState.CANCELLED:
        return ()
    if run.is_ended:
        raise Refused(Reason.ILLEGAL_IN_STATE, f"the run is over already: {run.state}")
    ending = Ending(
        state=RunState.CANCELLED,
        reason=Reason.CANCELLED_BY_USER,
        message=command.message,
        grace_s=command.grace_s,
    )
    return _end(run, ending, context)


def _end(run: Run, ending: Ending, context: Context) -> tuple[RunEvent, ...]:
    """End the run: at once when nothing can be running, else after its open epoch is closed."""
    former = run.ending
    if former is not None:
        if ending.grace_s >= former.grace_s:
            return ()
        # The end that was decided first stays; only its grace can be cut.
        ending = Ending(
            state=former.state,
            reason=former.reason,
            message=former.message,
            grace_s=ending.grace_s,
        )
    if run.state is RunState.VALIDATING and ending.state is RunState.FAILED:
        raise Refused(Reason.ILLEGAL_IN_STATE, "the run is still being validated")
    withdrawals = withdraw_waiting(run, Reason.RUN_ENDED, ending.message)
    if run.open_epoch is None:
        ended = Ended(
            state=ending.state,
            reason=ending.reason,
            message=ending.message,
            failure=loss_class(ending.reason),
        )
        return (*withdrawals, ended)
    decided = EndDecided(
        state=ending.state,
        reason=ending.reason,
        message=ending.message,
        grace_s=ending.grace_s,
    )
    return (decided, *withdrawals, *_let_go(run, ending, context))


def _let_go(run: Run, ending: Ending, context: Context) -> tuple[RunEvent, ...]:
    """Drain a started gang for the grace; revoke one that has not started, at once."""
    epoch = run.open_epoch
    if epoch is None:
        return ()
    if epoch.started_s is None or ending.grace_s <= 0:
        return stop_order(run, ending.reason, ending.message)
    deadline_s = context.now.elapsed_s + ending.grace_s
    has_sooner = epoch.drain is not None and epoch.drain.deadline_s <= deadline_s
    if epoch.stop is not None or has_sooner:
        return ()
    drain = DrainRequested(
        epoch=epoch.id, reason=ending.reason, message=ending.message, deadline_s=deadline_s
    )
    return (drain,)


def _resume(run: Run, command: ResumeRun, context: Context) -> tuple[RunEvent, ...]:
    resumed = Resumed(step=command.step, from_start=command.from_start)
    if run.state in (RunState.REJECTED, RunState.VALIDATING):
        raise Refused(Reason.ILLEGAL_IN_STATE, f"the run is {run.state}; nothing to resume")
    refuse_retiring(run)
    if run.ending is not None:
        raise Refused(Reason.ILLEGAL_IN_STATE, "the run is ending; resume it when it has ended")
    if command.step is not None and command.from_start:
        raise Refused(
            Reason.INVALID_FIELD, "a step, or the start: not both", "step", Code.INVALID_ARGUMENT
        )
    if command.step is not None and all(c.ref.step != command.step for c in nameable(run)):
        raise Refused(
            Reason.CHECKPOINT_NOT_AVAILABLE,
            f"step {command.step} is not among the checkpoints that count;"
            f" {nameable_in_words(run)}",
            "step",
        )
    has_wish = command.from_start or command.step is not None
    if run.state is RunState.SUCCEEDED and not has_wish:
        raise Refused(
            Reason.ILLEGAL_IN_STATE,
            "the run succeeded: it has nothing to go on with. Fork it to train on with another"
            f" intent, or name the step to go back to; {nameable_in_words(run)}",
        )
    if run.is_ended:
        _check_limits_before_resume(run, context)
        return (resumed,)
    wish = run.resume_wish
    if not has_wish:
        if run.open_epoch is not None:
            raise Refused(
                Reason.ILLEGAL_IN_STATE,
                f"the run has its place; name a step to go back: {nameable_in_words(run)}",
            )
        return () if wish is None else (resumed,)
    if _stands_there(run, command):
        return ()
    message = "Going back to the start" if command.from_start else f"Going back to {command.step}"
    stop = stop_order(run, Reason.RESUMED_BY_USER, message)
    if wish is not None and wish.step == command.step and not stop:
        return ()
    return (resumed, *stop)


def _stands_there(run: Run, command: ResumeRun) -> bool:
    """Return whether the gang began just there and has done nothing since: the answer was lost."""
    epoch = run.open_epoch
    if epoch is None or epoch.stop is not None:
        return False
    start = epoch.resume_from
    has_moved = run.progress is not None and run.progress.epoch == epoch.id.number
    has_saved = any(c.ref.epoch == epoch.id for c in run.checkpoints)
    return (start.step if start else None) == command.step and not has_moved and not has_saved


def _check_limits_before_resume(run: Run, context: Context) -> None:
    """Say before money is spent that a limit would end the run again (law 7)."""
    deadline = run.terms.deadline_wall_s
    if deadline is not None and deadline <= context.now.wall_s:
        raise Refused(Reason.DEADLINE_PASSED, "its deadline has passed; amend it, then resume")
    budget = run.terms.budget
    if budget is not None and live_cost(run, context.now) >= budget:
        raise Refused(Reason.BUDGET_SPENT, "its budget is spent; amend it, then resume")
