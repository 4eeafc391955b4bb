"""A random world that tells one run what may happen to it, in any order, true or late or false.

The rule it keeps: it draws from what was ever said (old epochs, ended placements, strangers), so
that late and repeated messages are as likely as fresh ones. Its chance is a seeded generator, some
fifty times as fast as drawing each choice; Hypothesis picks the seed and shortens the life.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from random import Random

from broker.history.commands import (
    AcceptRun,
    AddPlacement,
    AdoptEpoch,
    AmendTerms,
    CancelRun,
    ClimbLadder,
    CloseEpoch,
    EndPlacement,
    ExplainWait,
    FailRun,
    GrantPlacement,
    JudgeStuck,
    MarkCheckpoint,
    MarkPrepared,
    PayDebt,
    RecordCheckpoint,
    RecordCopy,
    RecordDrainAck,
    RecordLostCopy,
    RecordProgress,
    RecordPruned,
    RecordRunning,
    RecordStart,
    RejectRun,
    ReplaceEpoch,
    ReportPlacement,
    RequestDrain,
    ResumeRun,
    RunCommand,
    SkipEpochs,
    StopEpoch,
    WarnRun,
    WithdrawPlacement,
)
from broker.model.bill import NodesFrom
from broker.model.capacity_seen import ClusterWord
from broker.model.checkpoint import CheckpointRef, EpochId
from broker.model.intent import CapacityType, Limits, Terms
from broker.model.reasons import FailureClass, Reason
from broker.model.run import Arrival, CloseRule, Purpose, RankEnd, Run
from broker.model.states import PlacementEnd, PlacementState, RunState
from tests.builders import make_site, make_terms

REGIONS = ("alpha", "beta", "gamma")
STEPS = (100, 200, 300)
LOSSES = (None, 0.5, math.nan, math.inf, -math.inf)
CAUSES: tuple[Reason | None, ...] = (
    None,
    None,
    Reason.NODE_PREEMPTED,
    Reason.NODE_LOST,
    Reason.EVICTED,
    Reason.CLUSTER_SILENT,
    Reason.NO_PROGRESS,
    Reason.REGION_DRAINING,
)
FLEX_OR_SPOT = (CapacityType.SPOT, CapacityType.SPOT, CapacityType.FLEX)


def terms(chance: Random) -> Terms:
    """Return terms that accept more or less, with limits that are soon spent."""
    return make_terms(
        regions=chance.choice(((), ("alpha",), ("alpha", "beta"), ("gamma",))),
        capacity_types=chance.choice(
            ((CapacityType.SPOT,), (CapacityType.SPOT, CapacityType.FLEX))
        ),
        max_wait_s=chance.choice((None, 60.0)),
        budget=chance.choice((None, None, Decimal("0.01"))),
        limits=Limits(
            user_restarts=chance.randint(0, 2), infrastructure_losses=chance.randint(0, 3)
        ),
    )


def any_command(chance: Random, run: Run, serial: int) -> RunCommand:
    """Return any command about the run; every other time one that brings it on."""
    if chance.random() < 0.5:
        return _onward(chance, run, serial)
    kind = chance.choice(_KINDS)
    return kind(chance, run, serial)


def _onward(chance: Random, run: Run, serial: int) -> RunCommand:
    """Return what would happen next to a run that nothing bad happens to, until it is trained."""
    if run.state is RunState.VALIDATING:
        return AcceptRun()
    if run.is_ended:
        return ResumeRun(step=None, from_start=run.state is RunState.SUCCEEDED)
    epoch = run.open_epoch
    if epoch is None:
        waiting = run.waiting_placements
        if not waiting:
            return _add(chance, run, serial)
        return GrantPlacement(placement=chance.choice(waiting).id, nonce=f"grant{serial:07}")
    if epoch.stop is not None or (epoch.running_s is not None and chance.random() < 0.15):
        return _close(chance, run, serial, epoch.id)
    if epoch.started_s is None:
        return RecordStart(epoch=epoch.id, nonces=_nonces(epoch.id))
    if epoch.running_s is None:
        return RecordRunning(epoch=epoch.id)
    if len(run.checkpoints) > 1 and chance.random() < 0.5:
        return RecordPruned(ref=chance.choice(run.checkpoints[:-1]).ref)
    # A look that began before a step was let go still shows it.
    step = chance.choice((*STEPS, *sorted(epoch.let_go)))
    ref = CheckpointRef(epoch=epoch.id, step=step, digest="a" * 64)
    return RecordCheckpoint(ref=ref, size_bytes=10, region=epoch.region, written_wall_s=0.0)


def _placement(chance: Random, run: Run) -> str:
    return chance.choice((*run.placements, *_live(run), "stranger0000"))


def _live(run: Run) -> tuple[str, ...]:
    return tuple(p.id for p in run.live_placements) * 3


def _epoch(chance: Random, run: Run) -> EpochId:
    stranger = EpochId(number=run.next_epoch, nonce="stranger0000")
    known = [epoch.id for epoch in run.epochs]
    if run.open_epoch is not None:
        known += [run.open_epoch.id] * 5
    return chance.choice((*known, stranger))


def _nonces(epoch: EpochId) -> tuple[str, ...]:
    return (f"{epoch.nonce}-0", f"{epoch.nonce}-1")


def _ref(chance: Random, run: Run) -> CheckpointRef:
    epoch = _epoch(chance, run)
    step = chance.choice(STEPS)
    # Now and then a zombie wrote the same step with other bytes.
    digest = chance.choice(("a", "a", "a", "b"))
    fresh = CheckpointRef(epoch=epoch, step=step, digest=digest * 64)
    return chance.choice((*(c.ref for c in run.checkpoints), fresh, fresh))


def _found(chance: Random, run: Run) -> RecordCheckpoint:
    ref = _ref(chance, run)
    epoch = run.epoch(ref.epoch)
    home = chance.choice(REGIONS) if epoch is None else epoch.region
    return RecordCheckpoint(ref=ref, size_bytes=10, region=home, written_wall_s=0.0)


def _add(chance: Random, run: Run, serial: int) -> RunCommand:
    return AddPlacement(
        placement=chance.choice((f"p{serial:011}", *run.placements)),
        purpose=chance.choice(tuple(Purpose)),
        site=make_site(chance.choice(REGIONS), capacity_type=chance.choice(FLEX_OR_SPOT)),
        message="tried",
    )


def _history(chance: Random) -> tuple[NodesFrom, ...]:
    """Return how machines came and went, of times before, now and never."""
    times = sorted(chance.uniform(0.0, 5_000.0) for _ in range(chance.choice((0, 0, 1, 3))))
    return tuple(NodesFrom(at_s=at_s, nodes=chance.randint(0, 3)) for at_s in times)


def _report(chance: Random, run: Run, serial: int) -> RunCommand:
    placement = _placement(chance, run)
    return ReportPlacement(
        placement=placement,
        state=chance.choice(
            (PlacementState.QUEUED, PlacementState.PROVISIONING, PlacementState.AT_GATE)
        ),
        reason=chance.choice((Reason.WAITING_FOR_QUOTA, Reason.NODES_COMING)),
        message="seen",
        arrival=Arrival(nodes_here=chance.randint(0, 2), nodes_wanted=2),
        cluster_uid=chance.choice(("", placement, placement, placement, "again")),
        nodes=_history(chance),
        word=_word(chance),
    )


def _word(chance: Random) -> ClusterWord | None:
    fault = chance.choice((None, None, FailureClass.USER, FailureClass.RESOURCE))
    if fault is None:
        return None
    return ClusterWord(
        word=f"OF_{fault}",
        failure=fault,
        deed="",
        advice="Mend it.",
        look_at="",
        raw="",
        is_unknown=False,
    )


def _close(chance: Random, run: Run, serial: int, open_epoch: EpochId | None = None) -> RunCommand:
    epoch = open_epoch or _epoch(chance, run)
    rule = chance.choice(tuple(CloseRule))
    codes = chance.choice(((0, 0), (0, 1), (None, None), (137, 0)))
    ends = tuple(RankEnd(rank=rank, exit_code=code) for rank, code in enumerate(codes))
    found = _found(chance, run)
    is_of_it = found.ref.epoch == epoch
    return CloseEpoch(
        epoch=epoch,
        rule=rule,
        ends=ends if rule in (CloseRule.SEEN_ENDED, CloseRule.FENCE_HEARD) else (),
        found=(found,) if is_of_it and chance.random() < 0.5 else (),
        cause=chance.choice(CAUSES),
        message="closed",
        nodes=_history(chance),
        word=_word(chance),
    )


def _adopt(chance: Random, run: Run, serial: int) -> RunCommand:
    number = run.next_epoch + chance.randint(-1, 2)
    epoch = EpochId(number=number, nonce=f"adopt{serial:07}")
    seals = tuple(_ref(chance, run) for _ in range(chance.randint(0, 2)))
    # A grant names one digest for one step.
    unique = {(ref.epoch, ref.step): ref for ref in seals}
    known = {(c.ref.epoch, c.ref.step): c.ref for c in run.checkpoints}
    consistent = tuple(known.get(key, ref) for key, ref in unique.items())
    return AdoptEpoch(
        epoch=epoch,
        placement=chance.choice((f"q{serial:011}", *_live(run))),
        site=make_site(chance.choice(REGIONS)),
        nonces=_nonces(epoch),
        resume_from=chance.choice((None, *consistent)),
        seals=consistent,
        nodes=_history(chance),
    )


def _resume(chance: Random, run: Run, serial: int) -> RunCommand:
    step = chance.choice((None, None, 100, 200, 300))
    return ResumeRun(step=step, from_start=step is None and chance.random() < 0.5)


def _start(chance: Random, run: Run, serial: int) -> RunCommand:
    epoch = _epoch(chance, run)
    return RecordStart(epoch=epoch, nonces=_nonces(epoch), nodes=_history(chance))


def _mark(chance: Random, run: Run, serial: int) -> RunCommand:
    flags = (None, None, True, False)
    label = chance.choice((None, "best", ""))
    return MarkCheckpoint(
        step=chance.choice(STEPS),
        is_bad=chance.choice(flags),
        is_pinned=chance.choice(flags),
        label=label,
    )


_Kind = Callable[[Random, Run, int], RunCommand]

# What keeps a run going comes more often than what ends it.
_KINDS: tuple[_Kind, ...] = (
    lambda _d, _r, _n: AcceptRun(),
    _add,
    _add,
    lambda c, r, _n: MarkPrepared(placement=_placement(c, r)),
    _report,
    _report,
    lambda c, r, n: GrantPlacement(placement=_placement(c, r), nonce=f"grant{n:07}"),
    lambda c, r, n: GrantPlacement(placement=_placement(c, r), nonce=f"grant{n:07}"),
    _start,
    _start,
    lambda c, r, _n: RecordRunning(epoch=_epoch(c, r)),
    lambda c, r, _n: RecordProgress(
        epoch=_epoch(c, r), step=c.choice(STEPS), loss=c.choice(LOSSES)
    ),
    lambda c, r, _n: _found(c, r),
    lambda c, r, _n: _found(c, r),
    lambda c, r, _n: RecordCopy(ref=_ref(c, r), region=c.choice(REGIONS)),
    _close,
    _close,
    lambda c, r, _n: EndPlacement(
        placement=_placement(c, r),
        end=c.choice(tuple(PlacementEnd)),
        reason=Reason.EVICTED,
        message="gone",
        word=_word(c),
    ),
    lambda c, r, _n: WithdrawPlacement(
        placement=_placement(c, r), reason=Reason.STOCKOUT, message="moved"
    ),
    lambda c, r, _n: JudgeStuck(
        placement=_placement(c, r), cause=Reason.STOCKOUT, evidence="none came", action="move"
    ),
    lambda c, _r, _n: RequestDrain(
        reason=Reason.REGION_DRAINING, message="leave", grace_s=c.choice((0.0, 30.0))
    ),
    lambda c, r, _n: RecordDrainAck(epoch=_epoch(c, r), step=100),
    lambda _d, _r, _n: StopEpoch(reason=Reason.START_NOT_REPORTED, message="too long"),
    lambda c, r, _n: ReplaceEpoch(epoch=_epoch(c, r), by="ada", message="it burns"),
    lambda c, r, _n: PayDebt(epoch=_epoch(c, r)),
    lambda c, r, _n: AmendTerms(terms=terms(c), expected_generation=r.terms_generation),
    lambda c, _r, _n: ExplainWait(
        reason=Reason.WAITING_FOR_TURN,
        message=c.choice(("first", "second")),
        next_action="look again",
        next_at_s=None,
    ),
    lambda _d, _r, _n: ClimbLadder(message="wait runs out"),
    lambda c, r, _n: RecordLostCopy(ref=_ref(c, r), region=c.choice(REGIONS), message="gone"),
    _mark,
    lambda c, r, _n: RecordPruned(ref=_ref(c, r)),
    _resume,
    _adopt,
    _adopt,
    lambda c, r, _n: SkipEpochs(next_epoch=r.next_epoch + c.randint(-1, 10)),
    lambda _d, _r, _n: WarnRun(reason=Reason.FENCE_OWED, message="loud"),
    lambda c, _r, _n: CancelRun(grace_s=c.choice((0.0, 30.0)), message="enough"),
    lambda _d, _r, _n: FailRun(reason=Reason.MAX_WAIT_PASSED, message="waited"),
    lambda _d, _r, _n: RejectRun(reason=Reason.BUNDLE_MISSING, message="none", field=""),
)
