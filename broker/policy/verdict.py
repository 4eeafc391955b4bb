"""What the end of a gang means, once the start protocol calls its epoch closed.

The rule: a verdict waits, for a bounded time, for the notice that explains it (law 5). The peers
of a preempted machine fail with exit codes of their own a moment before the cluster says why;
judged at once the run would be charged for its cluster's doing.
"""

from broker.history.causes import OWN_ENDS, loss_class
from broker.history.commands import CloseEpoch, ExplainWait
from broker.history.exits import has_vanished, is_bad, is_by_itself, is_own_failure, said
from broker.model.moment import Moment
from broker.model.reasons import FailureClass, Reason
from broker.model.run import CloseRule, Epoch, Run
from broker.placement.view import View
from broker.policy.facts import EpochFacts


def close(view: View, run: Run, facts: EpochFacts, now: Moment) -> tuple[CloseEpoch, ...]:
    """Return the close of the run's open epoch, or nothing while it is open or unexplained."""
    epoch = run.open_epoch
    if epoch is None or epoch.id != facts.epoch or facts.closed is None:
        return ()
    if facts.unread_until_s is not None:
        return ()
    cause = explained_by(epoch, facts)
    until_s = verdict_at_s(view, epoch, facts)
    if cause is None and until_s is not None and now.elapsed_s < until_s:
        return ()
    message = "" if cause is None else facts.message or sentence(epoch, cause)
    if cause is None and has_failed_first(epoch, facts):
        cause, message = own_failure(facts)
    has_ends = facts.closed in (CloseRule.SEEN_ENDED, CloseRule.FENCE_HEARD)
    return (
        CloseEpoch(
            epoch=epoch.id,
            rule=facts.closed,
            ends=facts.ends if has_ends else (),
            found=facts.found,
            refused=facts.refused,
            cause=cause,
            message=message,
            nodes=facts.nodes,
            word=facts.word,
        ),
    )


def explained_by(epoch: Epoch, facts: EpochFacts) -> Reason | None:
    """Return the cause that is not the command's own, None when the exits speak for themselves.

    Whatever befell the gang later explains nothing: a verdict that was reached stands, and of
    ranks that all ended by themselves no machine was taken.
    """
    is_judged = epoch.stop is not None and epoch.stop.reason in OWN_ENDS
    if is_judged or _is_untouched(facts):
        return None
    if facts.cause is not None and is_infrastructure(facts.cause):
        return facts.cause
    drain = epoch.drain
    # A gang asked to leave that dies before it answered was on its way out.
    is_leaving = drain is not None and not has_failed_before_its_drain(epoch, facts)
    if drain is not None and is_leaving and facts.ends and is_infrastructure(drain.reason):
        return drain.reason
    return None


def has_failed_before_its_drain(epoch: Epoch, facts: EpochFacts) -> bool:
    """Return whether a rank had failed by itself before its gang could hear that it should leave.

    When that was heard tells it only while somebody listens: what was there before the order stood
    in its store was not brought about by it, whenever the log came to know of it.
    """
    drain = epoch.drain
    if drain is None:
        return False
    is_heard_before = facts.failed_s is not None and facts.failed_s < drain.ordered_s
    return is_heard_before or facts.has_failed_unasked


def has_failed_first(epoch: Epoch, facts: EpochFacts) -> bool:
    """Return whether the run's own code ended the gang, before anybody told it to leave.

    A cluster ends a gang whose first rank is gone, so that the ends of the others say nothing.
    """
    if epoch.drain is not None:
        return has_failed_before_its_drain(epoch, facts)
    return epoch.stop is None and facts.cause in OWN_ENDS


def own_failure(facts: EpochFacts) -> tuple[Reason, str]:
    """Return why and how the rank failed that was the first, as far as that is known."""
    if facts.cause is not None and facts.cause in OWN_ENDS:
        return facts.cause, facts.message
    failed = [end for end in facts.ends if is_own_failure(end)]
    if not failed:
        return Reason.COMMAND_FAILED, "A rank ended by itself, without success"
    return Reason.COMMAND_FAILED, said(min(failed, key=lambda end: end.rank))


def _is_untouched(facts: EpochFacts) -> bool:
    """Whether all is over, and each rank left its own word of how its command ended.

    What takes a machine, or a gang, ends a process by a signal or leaves no word at all.
    """
    is_over = facts.closed in (CloseRule.SEEN_ENDED, CloseRule.FENCE_HEARD)
    return is_over and bool(facts.ends) and all(is_by_itself(end) for end in facts.ends)


def verdict_at_s(view: View, epoch: Epoch, facts: EpochFacts) -> float | None:
    """Return until when a verdict waits for its notice (broker seconds), None for not at all."""
    if epoch.stop is not None or not any(is_bad(end) for end in facts.ends):
        return None
    if facts.first_end_s is None or _is_plain(facts):
        return None
    return facts.first_end_s + view.region(epoch.region).policy.patience.verdict_s


def say_verdict(view: View, run: Run, facts: EpochFacts, now: Moment) -> ExplainWait | None:
    """Return what to say of a gang whose end is seen and not judged yet; None when it is none.

    Until then its run would read as one that trains.
    """
    epoch = run.open_epoch
    if epoch is None or epoch.id != facts.epoch:
        return None
    until_s = verdict_at_s(view, epoch, facts)
    if until_s is None or now.elapsed_s >= until_s or explained_by(epoch, facts) is not None:
        return None
    rest = "" if facts.closed is None else ", and its gang is over"
    asked = "what it said last" if _is_untouched(facts) else "whether a machine was taken"
    return ExplainWait(
        reason=Reason.JUDGING_END,
        message=f"{_ended(facts)}{rest}; {asked} is asked of {epoch.cluster}",
        next_action="it is judged by what its cluster says, or else by how its ranks ended",
        next_at_s=until_s,
    )


def _ended(facts: EpochFacts) -> str:
    if facts.cause in OWN_ENDS and facts.message:
        return facts.message
    ended = (end for end in facts.ends if is_bad(end))
    first = min(ended, key=lambda end: (has_vanished(end), end.rank))
    return f"Rank {first.rank} is gone without a word" if has_vanished(first) else said(first)


def _is_plain(facts: EpochFacts) -> bool:
    """Whether no notice could explain an end, and its cluster has said of it what it knows.

    Whose fault it was its cluster may know when its exits do not: by the last words of the process.
    """
    return facts.cause in OWN_ENDS and _is_untouched(facts)


def sentence(epoch: Epoch, cause: Reason) -> str:
    """Return what to say of a cause that came without words."""
    return f"its gang in {epoch.region} was lost: {cause.value.lower().replace('_', ' ')}"


def is_infrastructure(cause: Reason) -> bool:
    """Return whether a cause is counted as a loss that is not the run's fault."""
    return cause not in OWN_ENDS and loss_class(cause) not in (None, FailureClass.USER)
