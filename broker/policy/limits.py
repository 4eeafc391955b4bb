"""Limits end things: max wait, deadline, budget, and what can never fit.

The rule: a limit that cannot be kept is said before the money is spent, once; one that is reached
ends the run, with the policy's time to save when a gang runs. Nothing ends a run whose gang is
whole at its gate: it starts in the next moment.
"""

from decimal import Decimal

from broker.history.commands import FailRun, RunCommand, WarnRun
from broker.model.billing import hourly, live_cost, run_bill
from broker.model.intent import AfterMaxWait
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.model.states import PlacementState, RunState
from broker.placement.explain import gives_up_s
from broker.placement.feasible import remaining_work_s
from broker.placement.nearest import is_whole
from broker.placement.view import View
from broker.placement.wait import ends_s, limit_s
from broker.placement.words import duration, money

WARN_BUDGET_AT = Decimal("0.9")


def judge_limits(view: View, run: Run, now: Moment) -> tuple[RunCommand, ...]:
    """Return the end that a limit brings, or the warning that one is near."""
    if run.ending is not None or run.is_ended or run.state is RunState.VALIDATING:
        return ()
    ended = (
        _deadline(view, run, now)
        or _budget(view, run, now)
        or _max_wait(run, now)
        or _never_fits(view, run, now)
    )
    return ended or (
        *_warn_deadline(run, now),
        *_warn_expected(run, now),
        *_warn_budget(run, now),
    )


def limits_at_s(view: View, run: Run, now: Moment) -> list[float]:
    """Return when each limit of the run is reached, as things stand (broker seconds)."""
    times: list[float] = []
    until_s = ends_s(run)
    if until_s is not None and until_s > now.elapsed_s:
        times.append(until_s)
    if run.why.reason is Reason.NEVER_FITS and not run.is_ended:
        times.append(gives_up_s(view, run, now))
    if run.terms.deadline_wall_s is not None:
        times.append(now.elapsed_s + run.terms.deadline_wall_s - now.wall_s)
    rate = hourly(run)
    if run.terms.budget is not None and rate > 0:
        left = run.terms.budget - live_cost(run, now)
        shares = (left, left - (1 - WARN_BUDGET_AT) * run.terms.budget)
        grace = grace_s(view, run)
        times += [now.elapsed_s + float(some / rate) * 3600.0 - grace for some in shares]
    return times


def grace_s(view: View, run: Run) -> float:
    """Return the seconds that a gang gets to save when a limit ends its run."""
    epoch = run.open_epoch
    if epoch is None or epoch.started_s is None:
        return 0.0
    return view.region(epoch.region).policy.drain_s


def _max_wait(run: Run, now: Moment) -> tuple[RunCommand, ...]:
    until_s = ends_s(run)
    if until_s is None or now.elapsed_s < until_s:
        return ()
    if any(leg.state is PlacementState.AT_GATE for leg in run.live_placements):
        return ()
    waited = duration(limit_s(run) or 0.0)
    if run.terms.after_max_wait is AfterMaxWait.FAIL:
        message = f"no start within its max wait of {waited}; last: {run.why.message}"
        return (FailRun(reason=Reason.MAX_WAIT_PASSED, message=message),)
    message = f"its max wait of {waited} has passed without a start; it goes on waiting"
    return _once(run, Reason.MAX_WAIT_PASSED, message, until_s)


def _deadline(view: View, run: Run, now: Moment) -> tuple[RunCommand, ...]:
    deadline_s = run.terms.deadline_wall_s
    if deadline_s is None or now.wall_s < deadline_s:
        return ()
    return (
        FailRun(
            reason=Reason.DEADLINE_PASSED,
            message="its deadline has passed",
            grace_s=grace_s(view, run),
        ),
    )


def _budget(view: View, run: Run, now: Moment) -> tuple[RunCommand, ...]:
    budget = run.terms.budget
    if budget is None:
        return ()
    grace = grace_s(view, run)
    # The time to save is paid from the budget too.
    saving = hourly(run) * Decimal(grace) / 3600
    if live_cost(run, now) + saving < budget:
        return ()
    message = f"its budget of {money(budget)} is spent"
    return (FailRun(reason=Reason.BUDGET_SPENT, message=message, grace_s=grace),)


def _never_fits(view: View, run: Run, now: Moment) -> tuple[RunCommand, ...]:
    """Only a whole picture says never, and only once it has said so for a while."""
    if run.why.reason is not Reason.NEVER_FITS or run.live_placements:
        return ()
    if not is_whole(view) or now.elapsed_s < gives_up_s(view, run, now):
        return ()
    return (FailRun(reason=Reason.NEVER_FITS, message=run.why.message),)


def _warn_deadline(run: Run, now: Moment) -> tuple[RunCommand, ...]:
    deadline_s, work_s = run.terms.deadline_wall_s, remaining_work_s(run)
    epoch = run.open_epoch
    if deadline_s is None or work_s is None or epoch is None or epoch.running_s is None:
        return ()
    left_s = max(0.0, work_s - now.since(epoch.running_s))
    if now.wall_s + left_s <= deadline_s:
        return ()
    message = (
        f"it needs about {duration(left_s)} more, its deadline is in "
        f"{duration(deadline_s - now.wall_s)}"
    )
    return _once(run, Reason.DEADLINE_TOO_NEAR, message, epoch.granted_s)


def _warn_expected(run: Run, now: Moment) -> tuple[RunCommand, ...]:
    expected_s = run.terms.expected_duration_s
    if expected_s is None or run.open_epoch is None:
        return ()
    message = f"it has trained for the {duration(expected_s)} that were expected, and goes on"
    told = _once(run, Reason.EXPECTED_DURATION_PASSED, message, run.created.elapsed_s)
    if not told:
        return ()  # said already: the bill need not be added up
    trained_s = run_bill(run, now).time.running_ms / 1000.0 / run.intent.workload.hardware[0].gpus
    return told if trained_s >= expected_s else ()


def _warn_budget(run: Run, now: Moment) -> tuple[RunCommand, ...]:
    budget = run.terms.budget
    if budget is None:
        return ()
    cost = live_cost(run, now)
    if cost < WARN_BUDGET_AT * budget:
        return ()
    message = f"{money(cost)} of its budget of {money(budget)} are spent"
    return _once(run, Reason.BUDGET_TOO_SMALL, message, run.created.elapsed_s)


def _once(run: Run, reason: Reason, message: str, since_s: float) -> tuple[RunCommand, ...]:
    """Warn unless that was said since a point in time already."""
    if any(said.reason is reason and said.since_s >= since_s for said in run.warnings):
        return ()
    return (WarnRun(reason=reason, message=message),)
