"""Commands about placements: add, report, withdraw, end, grant."""

from typing import assert_never

from broker.history.causes import loss_class
from broker.history.charging import (
    is_charged,
    is_kept_from_start,
    last_word,
    may_be_kept,
    spent_at_the_gate,
    spent_before_start,
)
from broker.history.commands import (
    AddPlacement,
    EndPlacement,
    GrantPlacement,
    JudgeStuck,
    MarkPrepared,
    ReportPlacement,
    WithdrawPlacement,
)
from broker.history.context import Context
from broker.history.deciding_grant import decide_grant
from broker.history.deciding_life import stop_order, withdraw_waiting
from broker.history.events import (
    Ended,
    PlacementAdded,
    PlacementEnded,
    PlacementPrepared,
    PlacementSeen,
    PlacementStuck,
    RunEvent,
    WithdrawalOrdered,
)
from broker.history.refusals import Code, Refused
from broker.model.billing import final_bill
from broker.model.capacity_seen import ClusterWord
from broker.model.intent import CapacityType
from broker.model.policy import TeamStanding
from broker.model.reasons import FailureClass, Reason
from broker.model.run import Placement, Purpose, Run, Site
from broker.model.states import PlacementState, RunState

SAME_TIME_S = 5.0  # a time to come that moved by less is the same: clocks differ, looks take time

PlacementCommand = (
    ReportPlacement
    | AddPlacement
    | MarkPrepared
    | JudgeStuck
    | WithdrawPlacement
    | EndPlacement
    | GrantPlacement
)


def decide_placement(run: Run, command: PlacementCommand, context: Context) -> tuple[RunEvent, ...]:
    """Return what a command about a placement makes of the run."""
    if isinstance(command, AddPlacement):
        return _add(run, command, context)
    placement = run.placements.get(command.placement)
    if placement is None:
        raise Refused(
            Reason.NOT_FOUND, f"the run has no placement {command.placement}", code=Code.NOT_FOUND
        )
    match command:
        case ReportPlacement():
            return _report(run, placement, command)
        case MarkPrepared():
            is_due = placement.state is PlacementState.PREPARING
            return (PlacementPrepared(placement=placement.id),) if is_due else ()
        case JudgeStuck():
            return _judge_stuck(placement, command)
        case WithdrawPlacement():
            return _withdraw(run, placement, command)
        case EndPlacement():
            return _end(run, placement, command, context)
        case GrantPlacement():
            return decide_grant(run, placement, command, context)
        case _:
            assert_never(command)


def _add(run: Run, command: AddPlacement, context: Context) -> tuple[RunEvent, ...]:
    known = run.placements.get(command.placement)
    if known is not None:
        if known.site == command.site:
            return ()
        raise Refused(
            Reason.ALREADY_EXISTS,
            f"placement {command.placement} is elsewhere",
            code=Code.ALREADY_EXISTS,
        )
    _check_wants_another(run, command.purpose)
    _check_site(run, command.site)
    _check_legs(run, command.site)
    if command.purpose in (Purpose.HEDGE, Purpose.SUCCESSOR):
        _check_gate_caps(context.team, command.site)
    added = PlacementAdded(
        placement=command.placement,
        purpose=command.purpose,
        site=command.site,
        message=command.message,
    )
    return (added,)


def _check_wants_another(run: Run, purpose: Purpose) -> None:
    if run.ending is not None or run.state not in (
        RunState.QUEUED,
        RunState.STARTING,
        RunState.RUNNING,
    ):
        raise Refused(Reason.ILLEGAL_IN_STATE, f"the run is {run.state} and wants no place")
    epoch = run.open_epoch
    if epoch is None or epoch.started_s is None or purpose is Purpose.SUCCESSOR:
        return
    # Beside a gang that runs, capacity is looked for only when that gang is about to leave.
    if epoch.stop is None and epoch.drain is None:
        raise Refused(Reason.ILLEGAL_IN_STATE, "the run has started and is not leaving its place")


def _check_site(run: Run, site: Site) -> None:
    terms, hardware = run.terms, run.intent.workload.hardware
    if not terms.accepts_region(site.region):
        raise Refused(Reason.REGION_NOT_ACCEPTED, f"the terms do not name {site.region}")
    if not terms.keeps_residency(site.region):
        raise Refused(Reason.RESIDENCY, f"data may not leave {', '.join(terms.residency)}")
    if site.capacity_type not in terms.capacity_types:
        raise Refused(
            Reason.CAPACITY_TYPE_NOT_ACCEPTED, f"{site.capacity_type} is not among the terms"
        )
    if not 0 <= site.hardware_index < len(hardware):
        raise Refused(Reason.ACCELERATOR_MISMATCH, "no such hardware option")
    option = hardware[site.hardware_index]
    if (option.nodes, option.gpus) != (site.nodes, site.gpus):
        raise Refused(Reason.ACCELERATOR_MISMATCH, "the site has another shape than its option")


def _check_legs(run: Run, site: Site) -> None:
    for leg in run.waiting_placements:
        if leg.site.key == site.key and leg.site.hardware_index == site.hardware_index:
            raise Refused(
                Reason.ALREADY_WAITING_HERE, f"placement {leg.id} waits in {site.key.queue}"
            )
    if site.capacity_type is CapacityType.FLEX:
        _check_flex(run)


def _check_flex(run: Run) -> None:
    """Refuse a second booking: one that comes bills at once, and two would be paid twice.

    The gang that trains is none: what follows on it waits beside it. One that has its grant and
    has not begun is one.
    """
    for leg in run.live_placements:
        is_going = leg.withdraw is not None or leg.state is PlacementState.RUNNING
        if leg.site.capacity_type is CapacityType.FLEX and not is_going:
            raise Refused(Reason.HEDGE_LIMIT, f"placement {leg.id} is a flex leg already")


def _check_gate_caps(team: TeamStanding, site: Site) -> None:
    cap = team.caps.gate_gpus
    if cap is not None and team.gate_gpus + site.gpus > cap:
        raise Refused(
            Reason.TEAM_GATE_GPUS_SPENT,
            f"the team's legs hold {team.gate_gpus} of {cap} GPUs",
            code=Code.RESOURCE_EXHAUSTED,
        )
    minutes = team.caps.gate_gpu_minutes_per_day
    if minutes is not None and team.gate_gpu_minutes_today >= minutes:
        raise Refused(
            Reason.TEAM_GATE_MINUTES_SPENT,
            f"the team's {minutes:g} GPU minutes at gates are spent for today",
            code=Code.RESOURCE_EXHAUSTED,
        )


def _report(run: Run, placement: Placement, command: ReportPlacement) -> tuple[RunEvent, ...]:
    if not placement.is_live:
        return ()
    events: list[RunEvent] = []
    if placement.state is PlacementState.PREPARING:
        # The cluster has it, so its content was there: a log that was restored has to catch up.
        events.append(PlacementPrepared(placement=placement.id))
    seen = PlacementSeen(
        placement=placement.id,
        state=_believed(placement, command.state),
        reason=command.reason,
        message=command.message,
        arrival=command.arrival,
        cluster_uid=command.cluster_uid or placement.cluster_uid,
        next_action=command.next_action,
        patience_s=command.patience_s,
        nodes=command.nodes,
        expected_s=command.expected_s,
        machines_end_s=command.machines_end_s,
        word=last_word(run, placement, command.word),
    )
    if not _is_known(placement, seen):
        events.append(seen)
    is_recreated = bool(placement.cluster_uid) and seen.cluster_uid != placement.cluster_uid
    if is_recreated:
        events += _leave_recreated(run, placement)
    return tuple(events)


def _believed(placement: Placement, state: PlacementState) -> PlacementState:
    """Return the state to write: the log alone says RUNNING, by ``owner``, and ENDED."""
    if state in (PlacementState.ENDED, PlacementState.PREPARING):
        raise Refused(Reason.ILLEGAL_IN_STATE, f"a cluster does not report {state}")
    if placement.state is PlacementState.RUNNING:
        return PlacementState.RUNNING
    return PlacementState.AT_GATE if state is PlacementState.RUNNING else state


def _is_known(placement: Placement, seen: PlacementSeen) -> bool:
    is_same = (
        placement.state,
        placement.why.reason,
        placement.why.message,
        placement.arrival,
        placement.cluster_uid,
    ) == (seen.state, seen.reason, seen.message, seen.arrival, seen.cluster_uid)
    is_same = is_same and is_same_word(placement.word, seen.word)
    return placement.was_queued and is_same and knows_times(placement, seen)


def is_same_word(known: ClusterWord | None, told: ClusterWord | None) -> bool:
    """Return whether two words are one: what a cluster says of it in detail may change each time.

    It counts the tries of a pull, and names another of the gang's pods.
    """
    return (known and known.word) == (told and told.word)


def knows_times(placement: Placement, seen: PlacementSeen | ReportPlacement) -> bool:
    """Return whether the log knows the times of a report, but for what a look is off by."""
    expected_s, ends_s = seen.expected_s, seen.machines_end_s
    return _is_same_time(placement.expected_s, expected_s) and (
        ends_s is None or _is_same_time(placement.machines_end_s, ends_s)
    )


def _is_same_time(known_s: float | None, told_s: float | None) -> bool:
    if known_s is None or told_s is None:
        return known_s is told_s
    return abs(known_s - told_s) < SAME_TIME_S


def _leave_recreated(run: Run, placement: Placement) -> tuple[RunEvent, ...]:
    """No restart in place: an object that its cluster made again ends the placement (B6)."""
    message = f"{placement.site.key.cluster} made its gang again"
    epoch = run.open_epoch
    if epoch is not None and epoch.placement == placement.id:
        return stop_order(run, Reason.GANG_RECREATED, message)
    if placement.withdraw is not None:
        return ()
    order = WithdrawalOrdered(placement=placement.id, reason=Reason.GANG_RECREATED, message=message)
    return (order,)


def _judge_stuck(placement: Placement, command: JudgeStuck) -> tuple[RunEvent, ...]:
    can_be = (
        placement.is_live
        and placement.withdraw is None
        and placement.state is not PlacementState.RUNNING
    )
    is_known = placement.stuck is not None and placement.stuck.reason is command.cause
    if not can_be or is_known:
        return ()
    stuck = PlacementStuck(
        placement=placement.id,
        cause=command.cause,
        evidence=command.evidence,
        action=command.action,
    )
    return (stuck,)


def _withdraw(run: Run, placement: Placement, command: WithdrawPlacement) -> tuple[RunEvent, ...]:
    if not placement.is_live or placement.withdraw is not None:
        return ()
    epoch = run.open_epoch
    if epoch is not None and epoch.placement == placement.id:
        raise Refused(
            Reason.ILLEGAL_IN_STATE, "it holds the open epoch: that is revoked or fenced first"
        )
    order = WithdrawalOrdered(
        placement=placement.id, reason=command.reason, message=command.message
    )
    return (order,)


def _end(
    run: Run, placement: Placement, command: EndPlacement, context: Context
) -> tuple[RunEvent, ...]:
    if not placement.is_live:
        return ()
    epoch = run.open_epoch
    if epoch is not None and epoch.placement == placement.id:
        raise Refused(Reason.ILLEGAL_IN_STATE, "it holds the open epoch: that is closed first")
    region = placement.site.region
    if region in context.unseen_regions:
        # It may hold a start that came after the backup, which is adopted first (R1).
        message = f"{region} has not been seen whole since the log was restored"
        raise Refused(Reason.NOT_SEEN_SINCE_RESTORE, message)
    bill, gone_s = final_bill(placement, command.nodes, context.now)
    is_kept = is_kept_from_start(placement, command.reason, command.word)
    failure = FailureClass.USER if is_kept else loss_class(command.reason)
    charged = may_be_kept(run) if is_kept else is_charged(run, command.end, command.reason)
    ended = PlacementEnded(
        placement=placement.id,
        end=command.end,
        reason=command.reason,
        message=command.message,
        failure=failure,
        bill=bill,
        gone_s=gone_s,
        word=command.word,
        is_charged=charged,
    )
    last = None
    if charged and is_kept:
        last = spent_before_start(run, placement, command.message)
    elif charged:
        last = spent_at_the_gate(run, failure, command.message)
    if last is None:
        return (ended,)
    reason, message = last
    word = command.word or placement.word
    if is_kept and word is not None and word.advice and word.advice not in message:
        message = f"{message}. {word.advice}"
    over = Ended(state=RunState.FAILED, reason=reason, message=message, failure=failure)
    left = withdraw_waiting(run, Reason.RUN_ENDED, message, but=placement.id)
    return (ended, *left, over)
