"""What an event of an epoch makes of the run: from grant to seal.

The rule: only the last epoch can be open, and every event but a grant, an adoption and a paid debt
speaks of the open one (law 1).
"""

from typing import assert_never

from broker.history.events import (
    DebtPaid,
    DrainAcknowledged,
    DrainRequested,
    EpochAdopted,
    EpochStarted,
    GangRunning,
    Granted,
    Progressed,
    ReplacementOrdered,
    Sealed,
    StopOrdered,
)
from broker.history.evolving_checkpoint import seal
from broker.history.evolving_placement import enter, placement_of, put
from broker.history.moves import move_epoch, move_run
from broker.history.prospects import starting, stopping, training
from broker.history.refusals import IllegalMoveError
from broker.model.bill import Meter, NodesFrom
from broker.model.checkpoint import EpochId
from broker.model.metering import told, whole_since_s
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.replacing import replace
from broker.model.run import (
    DrainOrder,
    Epoch,
    Placement,
    Progress,
    Purpose,
    Run,
    Why,
)
from broker.model.states import EpochState, PlacementState, RunState

EpochEvent = (
    Progressed
    | Granted
    | EpochStarted
    | GangRunning
    | DrainRequested
    | DrainAcknowledged
    | StopOrdered
    | ReplacementOrdered
    | Sealed
    | DebtPaid
    | EpochAdopted
)


def evolve_epoch(run: Run, event: EpochEvent, at: Moment) -> Run:
    """Return the run after an event of an epoch."""
    match event:
        case Granted():
            return _granted(run, event, at)
        case EpochAdopted():
            return _adopted(run, event, at)
        case DebtPaid():
            return _debt_paid(run, event)
        case _:
            return _of_open(run, _open(run, event.epoch), event, at)


def _of_open(
    run: Run,
    epoch: Epoch,
    event: Progressed
    | EpochStarted
    | GangRunning
    | DrainRequested
    | DrainAcknowledged
    | StopOrdered
    | ReplacementOrdered
    | Sealed,
    at: Moment,
) -> Run:
    match event:
        case Progressed():
            return _progressed(run, event, at)
        case EpochStarted():
            return _started(run, epoch, event, at)
        case GangRunning():
            return replace(
                run,
                state=move_run(run, RunState.RUNNING),
                why=run.why if epoch.stop is not None else training(epoch.region, at),
                epochs=_put(run, replace(epoch, running_s=at.elapsed_s)),
            )
        case DrainRequested():
            return _draining(run, epoch, event, at)
        case DrainAcknowledged():
            if epoch.drain is None:
                raise IllegalMoveError(f"{run.name}: a drain acknowledged that nobody asked for")
            acked = replace(epoch.drain, is_acked=True, acked_step=event.step)
            return replace(run, epochs=_put(run, replace(epoch, drain=acked)))
        case StopOrdered():
            is_anew = epoch.is_recalled
            state = epoch.state if is_anew else move_epoch(epoch, EpochState.STOPPING)
            stop = Why(reason=event.reason, message=event.message, since_s=at.elapsed_s)
            stopped = replace(epoch, state=state, stop=stop)
            return replace(run, epochs=_put(run, stopped), why=stopping(epoch, event.message, at))
        case ReplacementOrdered():
            who = f"{event.by}: {event.message}"
            return replace(run, epochs=_put(run, replace(epoch, go_on_by=who)))
        case Sealed():
            return _sealed(run, epoch, event, at)
        case _:
            assert_never(event)


def _open(run: Run, epoch_id: EpochId) -> Epoch:
    epoch = run.open_epoch
    if epoch is None or epoch.id != epoch_id:
        raise IllegalMoveError(f"{run.name}: epoch {epoch_id.folder} is not the open one")
    return epoch


def _put(run: Run, epoch: Epoch) -> tuple[Epoch, ...]:
    """Return the run's epochs with this one in place of the last, which is the open one."""
    return (*run.epochs[:-1], epoch)


def _granted(run: Run, event: Granted, at: Moment) -> Run:
    placement = placement_of(run, event.placement)
    _refuse_a_second(run, event.epoch)
    epoch = Epoch(
        id=event.epoch,
        placement=placement.id,
        cluster=placement.site.key.cluster,
        region=placement.site.region,
        state=EpochState.GRANTED,
        granted_s=at.elapsed_s,
        resume_from=event.resume_from,
    )
    return replace(
        run,
        placements=put(run, replace(placement, epoch=event.epoch)),
        state=move_run(run, RunState.STARTING),
        epochs=(*run.epochs, epoch),
        next_epoch=event.epoch.number + 1,
    )


def _refuse_a_second(run: Run, epoch_id: EpochId) -> None:
    if run.open_epoch is not None:
        raise IllegalMoveError(f"{run.name}: epoch {run.open_epoch.id.folder} is still open")
    if epoch_id.number < run.next_epoch:
        raise IllegalMoveError(f"{run.name}: epoch {epoch_id.number} comes after a later one")


def _started(run: Run, epoch: Epoch, event: EpochStarted, at: Moment) -> Run:
    # A revocation that came too late leaves it STOPPING: it takes a fence now.
    is_stopping = epoch.state is EpochState.STOPPING and not epoch.is_recalled
    state = epoch.state if is_stopping else move_epoch(epoch, EpochState.STARTED)
    stop = epoch.stop if is_stopping else None
    started = replace(epoch, state=state, nonces=event.nonces, started_s=at.elapsed_s, stop=stop)
    why = starting(epoch.region, event.report_by_s, at)
    known = placement_of(run, epoch.placement)
    # A gang that came whole after its grant went through at once, however late that is seen; of
    # one that stood whole before nobody says when, and it is taken to have stood until now.
    whole_s = whole_since_s(known.site, event.nodes)
    is_early = whole_s is not None and whole_s >= epoch.granted_s
    placement = _passed(known, event.nodes, whole_s if is_early else None, why, at)
    return replace(
        run,
        placements=put(run, replace(placement, stuck=None)),
        epochs=_put(run, started),
        # A revocation that came too late is a fence now.
        why=stopping(started, run.why.message, at) if is_stopping else why,
        wait_began_s=None,
        climbed=False,
        has_started=True,
        # A wish made after this grant is for the next start, and this one is being stopped for it.
        resume_wish=run.resume_wish if is_stopping else None,
    )


def _passed(
    placement: Placement,
    nodes: tuple[NodesFrom, ...],
    since_s: float | None,
    why: Why,
    at: Moment,
) -> Placement:
    """Return the placement past its gate, its machines as told, else whole from now on.

    ``since_s`` is when it passed, None for now.
    """
    now_s = at.elapsed_s
    nodes = nodes or (NodesFrom(at_s=now_s, nodes=placement.site.nodes),)
    began_s = now_s if since_s is None else min(max(since_s, placement.entered_s), now_s)
    before = tuple(one for one in nodes if one.at_s <= began_s)
    stood = replace(placement, meter=told(placement, before, began_s))
    # What was in the way of its start is no more.
    running = replace(enter(stood, PlacementState.RUNNING, why, began_s), word=None)
    return replace(running, meter=told(running, nodes[len(before) :], now_s))


def _progressed(run: Run, event: Progressed, at: Moment) -> Run:
    progress = Progress(
        epoch=event.epoch.number,
        step=event.step,
        loss=event.loss,
        at_s=at.elapsed_s,
        at_wall_s=at.wall_s,
    )
    first_step_s = at.elapsed_s if run.first_step_s is None else run.first_step_s
    return replace(run, progress=progress, first_step_s=first_step_s)


def _draining(run: Run, epoch: Epoch, event: DrainRequested, at: Moment) -> Run:
    former = epoch.drain
    drain = DrainOrder(
        reason=event.reason,
        message=event.message,
        ordered_s=at.elapsed_s if former is None else former.ordered_s,
        deadline_s=event.deadline_s,
        is_acked=former is not None and former.is_acked,
        acked_step=None if former is None else former.acked_step,
    )
    why = Why(
        reason=Reason.DRAINING,
        message=event.message,
        since_s=drain.ordered_s,
        next_action="the gang is stopped",
        next_at_s=event.deadline_s,
    )
    return replace(run, epochs=_put(run, replace(epoch, drain=drain)), why=why)


def _sealed(run: Run, epoch: Epoch, event: Sealed, at: Moment) -> Run:
    closed = replace(
        epoch,
        state=move_epoch(epoch, EpochState.CLOSED),
        close_rule=event.rule,
        closed_s=at.elapsed_s,
        is_owed=event.is_owed,
        ends=event.ends,
        let_go=frozenset(),  # a closed epoch is never looked at again
    )
    # What the epoch wrote and its seal does not name counts never; it is no longer kept in mind.
    counts = tuple(
        c
        for c in seal(run, event.checkpoints, epoch.region)
        if c.is_sealed or c.ref.epoch != epoch.id
    )
    placement = placement_of(run, epoch.placement)
    placement = replace(placement, word=event.word or placement.word)
    return replace(
        run, epochs=_put(run, closed), checkpoints=counts, placements=put(run, placement)
    )


def _debt_paid(run: Run, event: DebtPaid) -> Run:
    if not any(e.id == event.epoch and not e.is_open for e in run.epochs):
        raise IllegalMoveError(f"{run.name}: epoch {event.epoch.folder} is not closed")
    paid = (replace(e, is_owed=False) if e.id == event.epoch else e for e in run.epochs)
    return replace(run, epochs=tuple(paid))


def _adopted(run: Run, event: EpochAdopted, at: Moment) -> Run:
    _refuse_a_second(run, event.epoch)
    site = event.site
    message = f"Found running in {site.region} after a restore"
    why = replace(starting(site.region, None, at), reason=Reason.ADOPTED, message=message)
    epoch = Epoch(
        id=event.epoch,
        placement=event.placement,
        cluster=site.key.cluster,
        region=site.region,
        state=EpochState.STARTED,
        granted_s=at.elapsed_s,
        resume_from=event.resume_from,
        nonces=event.nonces,
        started_s=at.elapsed_s,
    )
    sealed = seal(run, event.seals, site.region)
    if event.resume_from is not None:
        # It started from there, so a copy stood in its region.
        sealed = tuple(
            replace(c, regions=c.regions | {site.region}) if c.ref == event.resume_from else c
            for c in sealed
        )
    return replace(
        run,
        placements=put(run, replace(_adopted_placement(run, event, why, at), epoch=event.epoch)),
        state=move_run(run, RunState.STARTING),
        why=why,
        epochs=(*run.epochs, epoch),
        checkpoints=sealed,
        next_epoch=event.epoch.number + 1,
        wait_began_s=None,
        climbed=False,
        has_started=True,
        resume_wish=None,
    )


def _adopted_placement(run: Run, event: EpochAdopted, why: Why, at: Moment) -> Placement:
    known = run.placements.get(event.placement)
    if known is None:
        first_s = min((one.at_s for one in event.nodes), default=at.elapsed_s)
        began_s = min(max(first_s, run.created.elapsed_s), at.elapsed_s)
        known = Placement(
            id=event.placement,
            purpose=Purpose.REQUEUE,
            site=event.site,
            state=PlacementState.QUEUED,
            why=why,
            added_s=began_s,
            entered_s=began_s,
            meter=Meter(since_ms=round(began_s * 1000)),
            was_queued=True,
        )
    # When it passed its gate was in the part of the log that is lost; whole gangs wait little.
    whole_s = whole_since_s(event.site, event.nodes)
    running = _passed(known, event.nodes, whole_s, why, at)
    return replace(running, withdraw=None, stuck=None)
