"""Whether a placement gets the next epoch, and from which checkpoint it resumes.

The rule: a grant is never changed (B5), so all that could forbid it is checked here, in the
transaction that spends the team's GPUs and the run's money.
"""

from broker.history.commands import GrantPlacement
from broker.history.context import Context
from broker.history.deciding_life import withdraw_waiting
from broker.history.events import Granted, RunEvent
from broker.history.lineage import is_within_reach, pick
from broker.history.refusals import Code, Refused
from broker.model.billing import live_cost
from broker.model.checkpoint import EpochId
from broker.model.reasons import Reason
from broker.model.run import Placement, Run
from broker.model.states import PlacementState, RunState


def decide_grant(
    run: Run, placement: Placement, command: GrantPlacement, context: Context
) -> tuple[RunEvent, ...]:
    """Open the next epoch on the placement, or raise Refused."""
    open_epoch = run.open_epoch
    if open_epoch is not None:
        if open_epoch.placement == placement.id:
            return ()
        raise Refused(
            Reason.ILLEGAL_IN_STATE, f"epoch {open_epoch.id.folder} is open: it is closed first"
        )
    if run.state is not RunState.QUEUED or not placement.is_waiting:
        raise Refused(
            Reason.ILLEGAL_IN_STATE,
            f"the run is {run.state}, the placement {placement.state}: no grant for it",
        )
    _check_survey(context)
    _check_limits(run, context)
    _check_team(placement, context)
    region = placement.site.region
    if not is_within_reach(run, region):
        raise Refused(
            Reason.CHECKPOINT_NOT_AVAILABLE, f"no checkpoint to resume from is in {region} yet"
        )
    granted = Granted(
        placement=placement.id,
        epoch=EpochId(number=run.next_epoch, nonce=command.nonce),
        resume_from=pick(run, region),
    )
    if placement.state is not PlacementState.AT_GATE:
        # Granted early it may never start, so its siblings wait on until it has.
        return (granted,)
    message = f"The gang in {region} was whole first"
    return (
        granted,
        *withdraw_waiting(run, Reason.OTHER_LEG_STARTED, message, but=placement.id),
    )


def _check_survey(context: Context) -> None:
    if context.unseen_regions:
        names = ", ".join(sorted(context.unseen_regions))
        raise Refused(
            Reason.NOT_SEEN_SINCE_RESTORE,
            f"after the restore these regions were neither read nor waived: {names}",
        )


def _check_limits(run: Run, context: Context) -> None:
    deadline = run.terms.deadline_wall_s
    if deadline is not None and deadline <= context.now.wall_s:
        raise Refused(Reason.DEADLINE_PASSED, "the run's deadline has passed")
    budget = run.terms.budget
    if budget is not None and live_cost(run, context.now) >= budget:
        raise Refused(Reason.BUDGET_SPENT, f"the run's {budget} USD are spent")


def _check_team(placement: Placement, context: Context) -> None:
    team = context.team
    cap, gpus = team.caps.running_gpus, placement.site.gpus
    if cap is not None and team.running_gpus + gpus > cap:
        raise Refused(
            Reason.TEAM_GPUS_SPENT,
            f"the team runs {team.running_gpus} of {cap} GPUs; {gpus} more are too many",
            code=Code.RESOURCE_EXHAUSTED,
        )
    budget = team.caps.budget
    if budget is not None and team.spent >= budget:
        raise Refused(
            Reason.TEAM_BUDGET_SPENT,
            f"the team's {budget} USD are spent",
            code=Code.RESOURCE_EXHAUSTED,
        )
