"""The laws of the design, held over every order in which things may happen to one run.

Each law looks at a life from outside: at its events, and at the run before and after each step.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.history.codec import decode, decode_run, encode, encode_run
from broker.history.decide import decide
from broker.history.events import (
    CheckpointCompleted,
    CheckpointPruned,
    Ended,
    EpochAdopted,
    EpochsSkipped,
    EpochStarted,
    GangRunning,
    Granted,
    PlacementEnded,
    Progressed,
    Requeued,
    Resumed,
    RunEvent,
    Sealed,
    Warned,
    WithdrawalOrdered,
)
from broker.history.evolve import fold
from broker.history.invariants import violations
from broker.history.refusals import Refused
from broker.model.checkpoint import CheckpointRef, EpochId
from broker.model.reasons import FailureClass, Reason
from broker.model.run import CloseRule
from broker.model.states import RunState
from tests.builders import make_context, make_moment
from tests.property.lives import LENGTHS, Life, lives, tell_life_once


@given(lives())
def test_law_1_one_open_epoch(life: Life) -> None:
    open_epoch: EpochId | None = None
    highest = 0
    for event in life.events:
        match event:
            case Granted(epoch=epoch) | EpochAdopted(epoch=epoch):
                assert open_epoch is None, "a second epoch was opened"
                assert epoch.number > highest, "an epoch number was used again"
                open_epoch, highest = epoch, epoch.number
            case EpochsSkipped(next_epoch=next_epoch):
                highest = max(highest, next_epoch - 1)
            case EpochStarted(epoch=epoch) | Progressed(epoch=epoch) | GangRunning(epoch=epoch):
                assert epoch == open_epoch, "a closed epoch was believed"
            case CheckpointCompleted(ref=ref):
                assert ref.epoch == open_epoch, "a closed epoch's checkpoint was believed"
            case Sealed(epoch=epoch):
                assert epoch == open_epoch, "what was not open was closed"
                open_epoch = None
            case Requeued() | Ended():
                assert open_epoch is None, "the run went on while an epoch was open"
            case _:
                pass


@given(lives())
def test_law_1_an_epoch_is_closed_only_by_a_rule_of_the_protocol(life: Life) -> None:
    started: dict[EpochId, int] = {}
    for event in life.events:
        match event:
            case EpochStarted() | EpochAdopted():
                started[event.epoch] = len(event.nonces)
            case Sealed(rule=CloseRule.NEVER_STARTED):
                assert event.epoch not in started
            case Sealed(rule=CloseRule.SEEN_ENDED | CloseRule.FENCE_HEARD):
                ranks = sorted(end.rank for end in event.ends)
                assert ranks == list(range(started[event.epoch])), "a rank was not accounted for"
            case Sealed(rule=CloseRule.UNREACHABLE):
                assert event.is_owed, "an unreachable gang owes its fence"
            case _:
                pass


@given(lives())
def test_law_2_a_repeated_command_yields_nothing_new(life: Life) -> None:
    # The last command again, as after a lost answer, and the submit at any time.
    for step in life.steps:
        context = make_context(now=make_moment(step.now_s))
        assert decide(step.after, life.story.submit, context) == ()
        try:
            again = decide(step.after, step.command, context)
        except Refused:
            continue
        assert again == (), f"{step.command} was decided twice: {again}"


@given(lives())
def test_law_3_the_log_is_the_truth(life: Life) -> None:
    assert fold(None, life.story.recorded) == life.run
    decoded = [
        replace(recorded, event=decode(*encode(recorded.event))) for recorded in life.story.recorded
    ]
    assert decoded == life.story.recorded
    assert fold(None, decoded) == life.run


@given(lives(), st.integers(0, 200))
def test_law_3_a_snapshot_and_its_tail_are_the_log(life: Life, cut: int) -> None:
    recorded = life.story.recorded
    cut = 1 + cut % len(recorded)
    snapshot = fold(None, recorded[:cut])
    assert snapshot is not None
    assert fold(decode_run(encode_run(snapshot)), recorded[cut:]) == life.run


@given(lives())
def test_law_4_a_resume_starts_from_a_sealed_checkpoint_or_from_nothing(life: Life) -> None:
    seed = life.story.submit.fork_checkpoint
    sealed: dict[CheckpointRef, None] = {} if seed is None else {seed.ref: None}
    closed: set[EpochId] = set()
    for step in life.steps:
        for event in step.events:
            match event:
                case Granted(resume_from=ref) if ref is not None:
                    assert ref in sealed, "resumed from what no seal counts"
                    held = {c.ref: c for c in step.before.checkpoints}[ref]
                    region = step.before.placements[event.placement].site.region
                    assert region in held.regions, "resumed from what is not in the region"
                    assert not held.is_bad, "resumed from a step that was marked bad"
                case Sealed(epoch=epoch, checkpoints=refs):
                    assert epoch not in closed, "sealed twice"
                    closed.add(epoch)
                    sealed.update(dict.fromkeys(refs))
                case EpochAdopted(seals=refs):
                    sealed.update(dict.fromkeys(refs))
                case _:
                    pass


@given(lives())
def test_law_4_a_resume_does_not_lose_progress_for_want_of_a_copy(life: Life) -> None:
    for step in life.steps:
        granted = next((e for e in step.events if isinstance(e, Granted)), None)
        wish = step.before.resume_wish
        if granted is None or granted.resume_from is not None or wish is not None:
            continue
        if any(c.is_bad for c in step.before.checkpoints):
            continue  # what descends from a bad step is left out on purpose
        latest = [e for e in step.before.epochs if e.started_s is not None][-1:]
        for epoch in latest:
            own = [c for c in step.before.checkpoints if c.ref.epoch == epoch.id]
            usable = [c for c in own if c.is_sealed and not c.is_bad and c.regions]
            assert not usable, "started from nothing beside a checkpoint that counts"


@given(lives())
def test_law_4_what_was_let_go_is_never_complete_again(life: Life) -> None:
    gone: set[tuple[EpochId, int]] = set()
    for event in life.events:
        match event:
            case CheckpointPruned(ref=ref):
                gone.add((ref.epoch, ref.step))
            case CheckpointCompleted(ref=ref):
                assert (ref.epoch, ref.step) not in gone, "what was let go is complete again"
            case Sealed(epoch=epoch, checkpoints=refs):
                own = {(ref.epoch, ref.step) for ref in refs if ref.epoch == epoch}
                assert not own & gone, "a seal counts what was let go"
            case _:
                pass


@given(lives())
def test_law_5_no_anchor_no_automatic_restart(life: Life) -> None:
    for step in life.steps:
        for event in step.events:
            if isinstance(event, Requeued) and event.failure is FailureClass.USER:
                own = [c for c in step.after.checkpoints if c.ref.is_own]
                assert any(c.is_sealed and not c.is_bad for c in own)
                limit = step.before.terms.limits.user_restarts
                assert step.after.user_failures <= limit
            elif isinstance(event, Requeued) and event.failure is not None:
                limit = step.before.terms.limits.infrastructure_losses
                assert step.after.infrastructure_losses <= limit


@given(lives())
def test_law_5_what_only_its_user_can_mend_ends_a_run_once_it_is_the_last_to_try(
    life: Life,
) -> None:
    for step in life.steps:
        for event in step.events:
            if not isinstance(event, PlacementEnded) or not event.is_charged:
                continue
            if event.failure is not FailureClass.USER:
                continue
            run, limit = step.after, step.before.terms.limits.user_restarts
            is_another = bool(run.waiting_placements) or run.open_epoch is not None
            assert run.user_failures <= limit or is_another or run.is_ended


@given(lives())
def test_law_6_every_wait_has_a_named_reason_and_a_next_action(life: Life) -> None:
    for step in life.steps:
        run = step.after
        if run.wait_began_s is not None:
            assert run.why.message
            assert run.why.reason is not Reason.UNKNOWN
        if run.state is RunState.QUEUED:
            assert run.why.next_action
            assert run.why.next_at_s is None or run.why.next_at_s >= run.why.since_s


@given(lives())
def test_law_7_a_wait_is_measured_whole(life: Life) -> None:
    began: float | None = 0.0
    for step in life.steps:
        for event in step.events:
            match event:
                case EpochStarted() | EpochAdopted() | Ended():
                    began = None
                case Requeued() if began is None:
                    began = step.now_s
                case Resumed() if step.before.is_ended:
                    began = step.now_s
                case _:
                    pass
        if step.after.state is not RunState.REJECTED:
            assert step.after.wait_began_s == began, "a revoked grant began the wait anew"


@given(lives())
def test_law_7_no_grant_beyond_a_limit(life: Life) -> None:
    for step in life.steps:
        for event in step.events:
            if isinstance(event, Granted):
                budget = step.before.terms.budget
                assert budget is None or step.before.spent < budget


@given(lives())
def test_law_8_no_capacity_is_held_for_nothing(life: Life) -> None:
    for step in life.steps:
        run = step.after
        open_epoch = run.open_epoch
        holder = "" if open_epoch is None else open_epoch.placement
        for placement in run.live_placements:
            is_needed = placement.id == holder or (placement.is_waiting and not run.is_ended)
            assert is_needed or placement.withdraw is not None
        # When a gang starts that nobody told to stop, what waited beside it is let go.
        started = next((e for e in step.events if isinstance(e, EpochStarted)), None)
        if started is not None and open_epoch is not None and open_epoch.stop is None:
            ordered = {e.placement for e in step.events if isinstance(e, WithdrawalOrdered)}
            assert ordered == {p.id for p in step.before.waiting_placements}


@given(lives())
def test_law_9_a_gang_left_behind_is_said_aloud(life: Life) -> None:
    for step in life.steps:
        sealed = next((e for e in step.events if isinstance(e, Sealed)), None)
        is_adoption = any(isinstance(e, EpochAdopted) for e in step.events)
        if sealed is not None and sealed.rule is CloseRule.UNREACHABLE and not is_adoption:
            warned = {e.reason for e in step.events if isinstance(e, Warned)}
            assert Reason.ZOMBIE_POSSIBLE in warned


@given(lives())
def test_law_10_nothing_goes_before_the_latest_start_has_saved(life: Life) -> None:
    latest: EpochId | None = None
    granted: set[EpochId] = set()  # since a person last asked for a start
    saved: set[EpochId] = set()
    for event in life.events:
        match event:
            case Granted(epoch=epoch):
                granted.add(epoch)
            case EpochAdopted(epoch=epoch):
                granted.add(epoch)
                latest = epoch
            case EpochStarted(epoch=epoch):
                latest = epoch
            case Resumed():
                granted.clear()
            case CheckpointCompleted(ref=ref):
                saved.add(ref.epoch)
            case CheckpointPruned():
                assert latest in saved, "something went, and the latest start had saved nothing"
                assert latest in granted, "something went between a resume and its start"
            case _:
                pass


@given(lives())
def test_money_is_never_lost_and_never_falls(life: Life) -> None:
    for step in life.steps:
        assert step.after.spent >= step.before.spent
    total = sum((p.cost for p in life.run.placements.values()), start=life.run.spent * 0)
    assert life.run.spent == total


@given(lives())
def test_every_state_that_can_be_reached_holds_its_invariants(life: Life) -> None:
    for step in life.steps:
        assert violations(step.after) == ()


@pytest.mark.parametrize(
    "wanted", [Granted, EpochAdopted, Requeued, Resumed, Ended, CheckpointPruned]
)
def test_the_world_is_not_idle(wanted: type[RunEvent]) -> None:
    # The laws hold for nothing if the world never gets there.
    told = [tell_life_once(seed, length) for seed in range(40) for length in LENGTHS]
    assert sum(isinstance(event, wanted) for life in told for event in life.events) >= 30
