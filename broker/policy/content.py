"""When a leg's content stands in its region, so that it may be queued.

The rule: the newest checkpoint is waited for as long as the policy's patience for content, unless
an older one that stands there comes cheaper, with all that is to be done again; after that the
newest within reach will do. A run that has checkpoints never starts from nothing for want of a
copy.
"""

from broker.history.commands import FailRun, MarkPrepared, RunCommand
from broker.history.lineage import is_within_reach, lost, nameable, nameable_in_words
from broker.model.moment import Moment
from broker.model.preparing import ResumeFrom
from broker.model.reasons import Reason
from broker.model.run import Placement, Run
from broker.model.states import PlacementState, RunState
from broker.placement.content import preparation, stakes_of
from broker.placement.view import View
from broker.placement.words import listed


def prepare(view: View, run: Run, now: Moment) -> tuple[RunCommand, ...]:
    """Return the marks of the run's legs whose content is there."""
    if run.ending is not None:
        return ()
    preparing = (leg for leg in run.live_placements if leg.state is PlacementState.PREPARING)
    return tuple(
        MarkPrepared(placement=leg.id)
        for leg in preparing
        if leg.withdraw is None and is_ready(view, run, leg, now)
    )


def give_up_lost(run: Run) -> tuple[FailRun, ...]:
    """Return the end of a run that has nothing left to resume from, though it had saved.

    Each copy was looked for in its store and found gone: to wait for one is to wait for ever, and
    to begin from nothing is a person's to say.
    """
    gone = lost(run) if run.state is RunState.QUEUED and run.ending is None else ()
    if not gone:
        return ()
    first, name = gone[0], run.name.rpartition("/")[2]
    older = "" if len(gone) == 1 else ", nor of any older one"
    message = (
        f"No copy is left of the checkpoint of step {first.ref.step}, which it was to resume from"
        f"{older}: gone from {listed(sorted(first.lost_in))}. To begin anew:"
        f" broker resume {name} --from-beginning. "
    )
    if nameable(run):
        message += (
            f"To go on with another step: broker resume {name} --from-step N;"
            f" {nameable_in_words(run)}"
        )
    else:
        message += f"If a store was brought back: broker resume {name}"
    return (FailRun(reason=Reason.CHECKPOINT_LOST, message=message),)


def is_ready(view: View, run: Run, leg: Placement, now: Moment) -> bool:
    """Return whether a start of the leg would find its bundle, image and checkpoint."""
    region = leg.site.region
    digest = run.intent.workload.bundle_digest
    if digest and region not in view.bundle_regions.get(digest, frozenset()):
        return False
    if view.lacks_image(run, region):
        return False
    found = preparation(view, run, region, stakes_of(view, run, leg))
    if found.resume is not ResumeFrom.NEWEST_COPIED:
        return is_within_reach(run, region)
    patience_s = view.region(region).policy.patience.content_s
    return now.since(leg.added_s) >= patience_s and is_within_reach(run, region)
