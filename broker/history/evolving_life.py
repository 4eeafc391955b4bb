"""What an event of the run's life makes of it: submitted, waiting, ended, resumed."""

from typing import assert_never

from broker.history.events import (
    EndDecided,
    Ended,
    EpochsSkipped,
    LadderClimbed,
    Rejected,
    Requeued,
    Resumed,
    Submitted,
    TermsAmended,
    Validated,
    WaitExplained,
    Warned,
)
from broker.history.evolving_checkpoint import doubted_anew
from broker.history.moves import begin_run, move_run
from broker.model.checkpoint import Checkpoint
from broker.model.moment import Moment
from broker.model.reasons import TURNS, FailureClass, Reason
from broker.model.replacing import replace
from broker.model.run import Ending, ResumeWish, Run, Why
from broker.model.states import RunState

LifeEvent = (
    WaitExplained
    | Requeued
    | Validated
    | Rejected
    | TermsAmended
    | LadderClimbed
    | EndDecided
    | Ended
    | Resumed
    | Warned
    | EpochsSkipped
)

WARNINGS_KEPT = 8  # on the run; the log has them all


def begin(event: Submitted, at: Moment) -> Run:
    """Return the run that a submit creates. SUBMITTED lasts for this instant only."""
    seed: tuple[Checkpoint, ...] = ()
    if event.fork_checkpoint is not None:
        # To the fork its seed is sealed: its parent's log says so.
        seed = (replace(event.fork_checkpoint, is_sealed=True),)
    return Run(
        name=event.name,
        uid=event.uid,
        intent=event.intent,
        request_id=event.request_id,
        body_digest=event.body_digest,
        created=at,
        updated=at,
        stream_version=1,
        state=begin_run(event.name),
        why=Why(
            reason=Reason.CHECKING_INTENT,
            message="Checking what takes the network: image, bundle, inputs",
            since_s=at.elapsed_s,
            next_action="it is queued when all is there",
            next_at_s=at.elapsed_s,
        ),
        checkpoints=seed,
        # The user waits from the submit on, so max wait counts from here.
        wait_began_s=at.elapsed_s,
        forked_from=event.forked_from,
    )


def evolve_life(run: Run, event: LifeEvent, at: Moment) -> Run:
    """Return the run after an event of its life."""
    match event:
        case WaitExplained():
            return _explained(run, event, at)
        case Requeued():
            return _requeued(run, event, at)
        case Validated():
            why = _looking("Checked; looking for a place to start", at)
            state = move_run(run, RunState.QUEUED)
            return replace(run, state=state, why=why, image=event.image)
        case Rejected():
            state = move_run(run, RunState.REJECTED)
            why = Why(reason=event.reason, message=event.message, since_s=at.elapsed_s)
            return replace(run, state=state, why=why, wait_began_s=None, ended=at)
        case TermsAmended():
            return _amended(run, event)
        case LadderClimbed():
            return replace(run, climbed=True)
        case EndDecided():
            ending = Ending(
                state=event.state,
                reason=event.reason,
                message=event.message,
                grace_s=event.grace_s,
            )
            return replace(run, ending=ending)
        case Ended():
            return _ended(run, event, at)
        case Resumed():
            return _resumed(run, event, at)
        case Warned():
            warning = Why(reason=event.reason, message=event.message, since_s=at.elapsed_s)
            return replace(run, warnings=(*run.warnings, warning)[-WARNINGS_KEPT:])
        case EpochsSkipped():
            return replace(run, next_epoch=max(run.next_epoch, event.next_epoch))
        case _:
            assert_never(event)


def _looking(message: str, at: Moment) -> Why:
    return Why(
        reason=Reason.WAITING_FOR_OFFER,
        message=message,
        since_s=at.elapsed_s,
        next_action="the broker compares what the regions offer",
        next_at_s=at.elapsed_s,
    )


def _explained(run: Run, event: WaitExplained, at: Moment) -> Run:
    # A new sentence for the same reason is the same wait, and a turn is one whatever it waits for:
    # its patience would else begin anew each time that the line before the run changes.
    is_same = run.why.reason is event.reason or {run.why.reason, event.reason} <= TURNS
    since_s = run.why.since_s if is_same else at.elapsed_s
    why = Why(
        reason=event.reason,
        message=event.message,
        since_s=since_s,
        next_action=event.next_action,
        next_at_s=event.next_at_s,
    )
    return replace(run, why=why)


def _amended(run: Run, event: TermsAmended) -> Run:
    # With another max wait the ladder is climbed anew, at its own time.
    climbed = run.climbed and run.terms.max_wait_s == event.terms.max_wait_s
    intent = replace(run.intent, terms=event.terms)
    return replace(run, intent=intent, terms_generation=event.generation, climbed=climbed)


def _requeued(run: Run, event: Requeued, at: Moment) -> Run:
    user = 1 if event.failure is FailureClass.USER else 0
    lost = 1 if event.failure is not None and not user else 0
    # A start that never came about interrupts no wait: what was waited still counts.
    is_new_wait = run.wait_began_s is None
    why = Why(
        reason=event.reason,
        message=event.message,
        since_s=at.elapsed_s,
        next_action="the broker looks for another place",
        next_at_s=at.elapsed_s,
    )
    return replace(
        run,
        state=move_run(run, RunState.QUEUED),
        why=why,
        wait_began_s=at.elapsed_s if is_new_wait else run.wait_began_s,
        climbed=run.climbed and not is_new_wait,
        user_failures=run.user_failures + user,
        infrastructure_losses=run.infrastructure_losses + lost,
    )


def _ended(run: Run, event: Ended, at: Moment) -> Run:
    return replace(
        run,
        state=move_run(run, event.state),
        why=Why(reason=event.reason, message=event.message, since_s=at.elapsed_s),
        wait_began_s=None,
        climbed=False,
        ending=None,
        resume_wish=None,
        ended=at,
    )


def _resumed(run: Run, event: Resumed, at: Moment) -> Run:
    has_wish = event.from_start or event.step is not None
    wish = ResumeWish(step=event.step) if has_wish else None
    if not run.is_ended:
        return replace(run, resume_wish=wish, resumed_at=run.next_epoch)
    # A person looked at it: its failures start from zero.
    return replace(
        run,
        state=move_run(run, RunState.QUEUED),
        why=_looking("Resumed; looking for a place to start", at),
        wait_began_s=at.elapsed_s,
        user_failures=0,
        infrastructure_losses=0,
        resume_wish=wish,
        resumed_at=run.next_epoch,
        ended=None,
        # What was lost may have been brought back since; if not, the next look says it again.
        checkpoints=tuple(doubted_anew(c) for c in run.checkpoints),
        is_retiring=False,
    )
