"""What a person might do about a run now, in sentences; often nothing.

The rule: advice follows from the run's reason, its loud failures and its limits, and names the
command to type. It is words for people: nothing decides on it. Read ``advice_for`` first.
"""

from collections.abc import Mapping

from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.placement.backoff import kept_last

WARNINGS_SHOWN = 3
LONG_WAIT_S = 600.0  # from here on a wait deserves a word about widening it

_BY_REASON: Mapping[Reason, str] = {
    Reason.BUNDLE_MISSING: "Submit it again from its working directory: `broker submit`.",
    Reason.IMAGE_REQUIRED: "Name an image, or regions whose clusters are embedded.",
    Reason.IMAGE_MISSING: "Correct its name, or push it, and submit it again.",
    Reason.IMAGE_NOT_FOR_PLATFORM: "Build it for linux/amd64, and submit it again.",
    Reason.IMAGE_REFUSED: "Push it anew, and submit it again.",
    Reason.REGISTRY_LOGIN_REFUSED: "Ops give the broker a login that may read it, and see whether"
    " it does: `broker doctor`.",
    Reason.REGISTRY_UNREACHABLE: "See what answers: `broker doctor`.",
    Reason.WAITING_FOR_OFFER: "See what each place lacks: `broker explain {run}`.",
    Reason.NEVER_FITS: "Ask for a smaller gang, or accept more places: `broker explain {run}`.",
    Reason.MAX_WAIT_PASSED: "Accept more places or a longer wait: `broker amend {run}`, then"
    " `broker resume {run}`.",
    Reason.DEADLINE_PASSED: "Move the deadline: `broker amend {run}`, then `broker resume {run}`.",
    Reason.BUDGET_SPENT: "Raise the budget: `broker amend {run}`, then `broker resume {run}`.",
    Reason.USER_RESTARTS_SPENT: "Look at what it wrote: `broker logs {run}`; then"
    " `broker resume {run}`.",
    Reason.INFRASTRUCTURE_LOSSES_SPENT: "Accept surer capacity: `broker amend {run}`, then"
    " `broker resume {run}`.",
    Reason.FAILED_BEFORE_CHECKPOINT: "Look at what it wrote: `broker logs {run}`.",
    Reason.COMMAND_FAILED: "Look at what it wrote: `broker logs {run}`.",
    Reason.TRANSIENT_FAULT: "Look at what it wrote: `broker logs {run}`.",
    Reason.CHECKPOINT_LOST: "Begin anew: `broker resume {run} --from-beginning`; or, once ops have"
    " brought a store back: `broker resume {run}`.",
    Reason.NO_PROGRESS: "Look at what its ranks wrote last: `broker logs {run}`.",
    Reason.IMAGE_PULL_FAILING: "Check the image's name and the cluster's right to read it.",
    Reason.TEAM_GPUS_SPENT: "The team's cap on running GPUs leaves no room for the gang; ops can"
    " raise it.",
    Reason.TEAM_BUDGET_SPENT: "The team's budget is spent; ops can raise it.",
    Reason.STORE_WIPED: "Ops bring the store back, or go on: `broker regions accept-store`.",
    Reason.STORE_REPLACED: "Ops bring the store back, or go on: `broker regions accept-store`.",
    Reason.NOT_SEEN_SINCE_RESTORE: "Ops can go on without the region: `broker regions waive`.",
}
_WIDENED = frozenset(
    {
        Reason.WAITING_FOR_QUOTA,
        Reason.WAITING_FOR_CAPACITY,
        Reason.WAITING_FOR_FLEX,
        Reason.FLEX_SILENT,
        Reason.FLEX_FAILED,
        Reason.PLANNED_END,
    }
)


def advice_for(run: Run, now: Moment) -> list[str]:
    """Return the sentences, the most important first."""
    found = [w.message for w in reversed(run.warnings)][:WARNINGS_SHOWN] if not run.is_ended else []
    found += _refused(run)
    sentence = _BY_REASON.get(run.why.reason)
    if run.why.reason is Reason.USER_RESTARTS_SPENT and kept_last(run) is not None:
        sentence = "When that is mended: `broker resume {run}`."  # there is no log of it to look at
    if sentence is not None:
        found.append(sentence.format(run=_short(run)))
    elif _could_be_wider(run, now):
        found.append(
            f"More regions or capacity types would give it more places: `broker explain"
            f" {_short(run)}`, `broker amend {_short(run)}`."
        )
    return found


def _refused(run: Run) -> list[str]:
    """Say of the last save that looked like a checkpoint and is none, until a later one is one."""
    if not run.refused:
        return []
    last = run.refused[-1]
    written_s = max((c.written_wall_s for c in run.checkpoints), default=0.0)
    if last.wall_s <= written_s:
        return []
    said = f"What it saved as step {last.step} is no checkpoint: {last.why}."
    return [f"{said} See `broker checkpoints {_short(run)}`."]


def _could_be_wider(run: Run, now: Moment) -> bool:
    return (
        run.why.reason in _WIDENED
        and run.wait_began_s is not None
        and now.since(run.wait_began_s) > LONG_WAIT_S
        and bool(run.terms.regions)
    )


def _short(run: Run) -> str:
    return run.name.rpartition("/")[2]
