"""A run and what it holds, for the wire.

The rule: every point in time is told by the run's last change as the anchor, so that a run reads
the same until it changes; what grows with time (phases, cost) is as of now. Read ``run_message``
first.
"""

from dataclasses import replace

from broker.model import billing
from broker.model.bill import NOTHING_PAID, Bill, PaidTime, PhaseCost
from broker.model.checkpoint import Checkpoint, EpochId, RefusedCheckpoint
from broker.model.moment import Moment
from broker.model.names import placement_name
from broker.model.run import (
    Arrival,
    Epoch,
    PhaseSeconds,
    Placement,
    Progress,
    RankEnd,
    Run,
    Site,
    Why,
)
from broker.placement.words import renumbered
from broker.service import enums, wire
from broker.service.advice import advice_for
from broker.service.convert_intent import intent_message
from broker.service.wire import Axis
from broker.v1 import checkpoint_pb2, offer_pb2, placement_pb2, run_pb2, why_pb2


def run_message(run: Run, now: Moment, *, is_whole: bool = True) -> run_pb2.Run:
    """Return a run; not ``is_whole`` leaves out placements and epochs that are over."""
    message = run_pb2.Run(intent=intent_message(run.intent))
    tell_run(message, run, now, is_whole=is_whole)
    return message


def tell_run(message: run_pb2.Run, run: Run, now: Moment, *, is_whole: bool = True) -> None:
    """Put a run into a message, all but its intent.

    In place and field by field: a message that is handed to another one's constructor is written
    and read once more, and every submit is answered by way of here.
    """
    axis = Axis(run.updated)
    epoch = run.open_epoch
    message.name = run.name
    message.uid = run.uid
    message.state = enums.RUN_STATE[run.state]
    _tell_why(message.why, present_why(run), axis)
    message.draining = epoch is not None and epoch.drain is not None
    message.etag = str(run.terms_generation)
    message.sequence = run.stream_version
    wire.tell_time(message.create_time, run.created.wall_s)
    wire.tell_time(message.update_time, run.updated.wall_s)
    message.placements.extend(
        placement_message(run, p, axis, now)
        for p in run.placements.values()
        if is_whole or p.is_live
    )
    message.epochs.extend(epoch_message(run, e, axis) for e in run.epochs if is_whole or e.is_open)
    _tell_restarts(message.restarts, run)
    _tell_spending(message.spending, run, now)
    message.forked_from = run.forked_from
    message.image = "" if run.image is None else run.image.name
    message.advice.extend(advice_for(run, now))
    _tell_what_may_be_unset(message, run, axis)


def _tell_what_may_be_unset(message: run_pb2.Run, run: Run, axis: Axis) -> None:
    if run.ended is not None:
        wire.tell_time(message.end_time, run.ended.wall_s)
    if run.wait_began_s is not None:
        wire.tell_time(message.wait_time, axis.wall_s(run.wait_began_s))
    if run.progress is not None:
        message.progress.CopyFrom(progress_message(run.progress))
    newest = newest_checkpoint(run)
    if newest is not None:
        message.last_checkpoint.CopyFrom(checkpoint_message(run, newest))
    useful_s = billing.time_to_useful_work_s(run)
    if useful_s is not None:
        message.time_to_useful_work.CopyFrom(wire.duration(useful_s))


def newest_checkpoint(run: Run) -> Checkpoint | None:
    """Return the checkpoint written last that is not bad and has a copy, sealed or not."""
    if not run.checkpoints:
        return None
    good = (c for c in run.checkpoints if not c.is_bad and c.regions and c.ref.is_own)
    return max(good, key=lambda c: (c.ref.epoch, c.ref.step), default=None)


def present_why(run: Run) -> Why:
    """Return why a run stands where it does, with the numbers of the leg that it speaks of.

    A number that moved is written down for the leg alone, and the run would tell of the former.
    """
    for leg in run.live_placements:
        if leg.why.reason is run.why.reason:
            message = renumbered(run.why.message, leg.why.message)
            if message != run.why.message:
                return replace(run.why, message=message)
    return run.why


def why_message(why: Why, axis: Axis) -> why_pb2.Why:
    """Return a reason with its sentence and what comes next."""
    message = why_pb2.Why()
    _tell_why(message, why, axis)
    return message


def _tell_why(message: why_pb2.Why, why: Why, axis: Axis) -> None:
    message.reason = enums.REASON[why.reason]
    message.message = why.message
    wire.tell_time(message.since_time, axis.wall_s(why.since_s))
    message.next_action = why.next_action
    if why.next_at_s is not None:
        wire.tell_time(message.next_time, axis.wall_s(why.next_at_s))


def placement_message(
    run: Run, placement: Placement, axis: Axis, now: Moment
) -> placement_pb2.Placement:
    """Return one placement, its phases and cost as of now."""
    site = placement.site
    message = placement_pb2.Placement(
        name=placement_name(run.name, placement.id),
        purpose=enums.PURPOSE[placement.purpose],
        place=place_message(site),
        state=enums.PLACEMENT_STATE[placement.state],
        why=why_message(placement.why, axis),
        arrival=arrival_message(placement.arrival),
        hardware_index=site.hardware_index,
        nodes=site.nodes,
        gpus=site.gpus,
        price_per_gpu_hour=wire.money(site.price_per_gpu_hour),
        forecast=_site_forecast(site),
        create_time=axis.time(placement.added_s),
        state_time=axis.time(placement.entered_s),
        phases=phases_message(billing.spend_phase(placement, now.elapsed_s)),
        cost=wire.money(billing.placement_bill(placement, now).cost.total),
        epoch=placement.epoch.number if placement.epoch is not None else 0,
        cluster_uid=placement.cluster_uid,
    )
    if placement.end is not None:
        message.end = enums.PLACEMENT_END[placement.end]
    if placement.failure is not None:
        message.failure_class = enums.FAILURE_CLASS[placement.failure]
    if placement.is_live and placement.machines_end_s is not None:
        message.machines_end_time.CopyFrom(axis.time(placement.machines_end_s))
    if placement.is_live and placement.expected_s is not None:
        message.expected_time.CopyFrom(axis.time(placement.expected_s))
    if placement.is_live and placement.stuck is not None:
        message.stuck.CopyFrom(why_message(placement.stuck, axis))
    if placement.withdraw is not None:
        message.withdrawal.CopyFrom(why_message(placement.withdraw, axis))
    return message


def place_message(site: Site) -> offer_pb2.Place:
    """Return where a placement is."""
    return offer_pb2.Place(
        region=site.region,
        cluster=site.key.cluster,
        queue=site.key.queue,
        flavor=site.key.flavor,
        capacity_type=enums.CAPACITY_TYPE[site.capacity_type],
    )


def _site_forecast(site: Site) -> offer_pb2.Forecast:
    message = offer_pb2.Forecast(chance=site.forecast_chance)
    if site.forecast_p50_s is not None:
        message.p50.CopyFrom(wire.duration(site.forecast_p50_s))
    if site.forecast_p90_s is not None:
        message.p90.CopyFrom(wire.duration(site.forecast_p90_s))
    return message


def arrival_message(arrival: Arrival) -> placement_pb2.Arrival:
    """Return how far a placement has come; what was not seen stays unset."""
    return placement_pb2.Arrival(
        ahead=arrival.ahead,
        ahead_gpus=arrival.ahead_gpus,
        nodes_here=arrival.nodes_here,
        nodes_wanted=arrival.nodes_wanted,
    )


def phases_message(phases: PhaseSeconds) -> placement_pb2.PhaseDurations:
    """Return the time in each phase; one that it never was in is unset."""
    return placement_pb2.PhaseDurations(
        preparing=wire.some_duration(phases.preparing),
        queued=wire.some_duration(phases.queued),
        provisioning=wire.some_duration(phases.provisioning),
        at_gate=wire.some_duration(phases.at_gate),
        running=wire.some_duration(phases.running),
    )


def paid_time_message(time: PaidTime) -> placement_pb2.PhaseDurations:
    """Return the time that was paid in each phase."""
    return placement_pb2.PhaseDurations(
        provisioning=wire.some_duration(time.provisioning_ms / 1000.0),
        at_gate=wire.some_duration(time.at_gate_ms / 1000.0),
        running=wire.some_duration(time.running_ms / 1000.0),
    )


def phase_costs_message(cost: PhaseCost) -> placement_pb2.PhaseCosts:
    """Return what each phase cost."""
    return placement_pb2.PhaseCosts(
        provisioning=wire.money(cost.provisioning),
        at_gate=wire.money(cost.at_gate),
        running=wire.money(cost.running),
    )


def epoch_message(run: Run, epoch: Epoch, axis: Axis) -> run_pb2.Epoch:
    """Return one granted start."""
    message = run_pb2.Epoch(
        number=epoch.id.number,
        folder=epoch.id.folder,
        state=enums.EPOCH_STATE[epoch.state],
        placement=placement_name(run.name, epoch.placement),
        region=epoch.region,
        resume_step=epoch.resume_from.step if epoch.resume_from is not None else None,
        grant_time=axis.time(epoch.granted_s),
        ends=[rank_end_message(end) for end in epoch.ends],
        fence_owed=epoch.is_owed,
    )
    if epoch.started_s is not None:
        message.start_time.CopyFrom(axis.time(epoch.started_s))
    if epoch.running_s is not None:
        message.running_time.CopyFrom(axis.time(epoch.running_s))
    if epoch.closed_s is not None:
        message.close_time.CopyFrom(axis.time(epoch.closed_s))
    if epoch.close_rule is not None:
        message.close_rule = enums.CLOSE_RULE[epoch.close_rule]
    if epoch.stop is not None:
        message.stop.CopyFrom(why_message(epoch.stop, axis))
    return message


def rank_end_message(end: RankEnd) -> run_pb2.RankEnd:
    """Return how one rank ended."""
    return run_pb2.RankEnd(
        rank=end.rank, exit_code=end.exit_code, signal=end.signal, cause=end.cause
    )


def progress_message(progress: Progress) -> run_pb2.Progress:
    """Return one report of training."""
    return run_pb2.Progress(
        epoch=progress.epoch,
        step=progress.step,
        loss=progress.loss,
        time=wire.timestamp(progress.at_wall_s),
    )


def checkpoint_message(run: Run, checkpoint: Checkpoint) -> checkpoint_pb2.Checkpoint:
    """Return one complete checkpoint."""
    return checkpoint_pb2.Checkpoint(
        name=f"{run.name}/checkpoints/{checkpoint_id(checkpoint.ref.epoch, checkpoint.ref.step)}",
        step=checkpoint.ref.step,
        epoch=checkpoint.ref.epoch.number,
        digest=checkpoint.ref.digest,
        size_bytes=checkpoint.size_bytes,
        home=checkpoint.home,
        regions=sorted(checkpoint.regions),
        write_time=wire.timestamp(checkpoint.written_wall_s),
        sealed=checkpoint.is_sealed,
        bad=checkpoint.is_bad,
        pinned=checkpoint.is_pinned,
        label=checkpoint.label,
        forks=[hold.fork for hold in checkpoint.holds],
    )


def refused_message(refused: RefusedCheckpoint) -> checkpoint_pb2.RefusedCheckpoint:
    """Return what a run saved that is no checkpoint."""
    return checkpoint_pb2.RefusedCheckpoint(
        step=refused.step,
        epoch=refused.epoch.number,
        region=refused.region,
        message=refused.why,
        refuse_time=wire.timestamp(refused.wall_s),
    )


def checkpoint_id(epoch: EpochId, step: int) -> str:
    """Return the last part of a checkpoint's name."""
    return f"{epoch.folder}.{step}"


def _tell_restarts(message: run_pb2.Restarts, run: Run) -> None:
    limits, failures, losses = run.terms.limits, run.user_failures, run.infrastructure_losses
    message.user_failures = failures
    message.user_restarts_left = max(0, limits.user_restarts - failures)
    message.infrastructure_losses = losses
    message.infrastructure_losses_left = max(0, limits.infrastructure_losses - losses)


def spending_message(run: Run, now: Moment) -> run_pb2.Spending:
    """Return what the run cost so far and what it is made of, live placements included."""
    message = run_pb2.Spending()
    _tell_spending(message, run, now)
    return message


def _tell_spending(message: run_pb2.Spending, run: Run, now: Moment) -> None:
    bill = billing.run_bill(run, now)
    message.CopyFrom(_NOTHING_SPENT if bill is NOTHING_PAID else _bill_message(bill))
    budget = run.terms.budget
    if budget is not None:
        message.budget_left.CopyFrom(wire.money(max(budget - bill.cost.total, budget * 0)))


def _bill_message(bill: Bill) -> run_pb2.Spending:
    return run_pb2.Spending(
        cost=wire.money(bill.cost.total),
        gpu_time=paid_time_message(bill.time),
        cost_by_phase=phase_costs_message(bill.cost),
    )


_NOTHING_SPENT = _bill_message(NOTHING_PAID)  # what each run begins with
