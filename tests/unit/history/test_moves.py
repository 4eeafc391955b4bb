"""The tables rule: what is not listed raises, what is listed happens, and the page says so."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest

from broker.history.events import (
    CheckpointCopied,
    DebtPaid,
    DrainAcknowledged,
    Event,
    Granted,
    PlacementPrepared,
    Progressed,
    Recorded,
    Sealed,
    Validated,
)
from broker.history.evolve import evolve
from broker.history.moves import move_epoch, move_placement, move_run
from broker.history.refusals import IllegalMoveError
from broker.history.regional_events import RegionUncordoned
from broker.history.tables import BEGIN, END, HEADING, legal_moves, rewritten
from broker.model.checkpoint import EpochId
from broker.model.reasons import Reason
from broker.model.run import CloseRule, Run
from broker.model.states import (
    EPOCH_MOVES,
    PLACEMENT_MOVES,
    RUN_MOVES,
    EpochState,
    PlacementState,
    RunState,
)
from tests.builders import Story, make_checkpoint

PAGE = Path(__file__).parents[3] / "broker" / "ARCHITECTURE.md"
STRANGER = EpochId(number=9, nonce="stranger")


@pytest.mark.parametrize(("state", "to"), list(product(RunState, RunState)))
def test_a_run_moves_by_its_table_alone(state: RunState, to: RunState) -> None:
    run = replace(Story().accepted().run, state=state)
    if to in RUN_MOVES[state]:
        assert move_run(run, to) is to
    else:
        with pytest.raises(IllegalMoveError):
            move_run(run, to)


@pytest.mark.parametrize(("state", "to"), list(product(PlacementState, PlacementState)))
def test_a_placement_moves_by_its_table_alone(state: PlacementState, to: PlacementState) -> None:
    placement = replace(Story().accepted().placed().placement("alpha"), state=state)
    if to is state or to in PLACEMENT_MOVES[state]:
        assert move_placement(placement, to) is to
    else:
        with pytest.raises(IllegalMoveError):
            move_placement(placement, to)


@pytest.mark.parametrize(("state", "to"), list(product(EpochState, EpochState)))
def test_an_epoch_moves_by_its_table_alone(state: EpochState, to: EpochState) -> None:
    epoch = replace(Story().accepted().placed().prepared().granted().epoch, state=state)
    if to in EPOCH_MOVES[state]:
        assert move_epoch(epoch, to) is to
    else:
        with pytest.raises(IllegalMoveError):
            move_epoch(epoch, to)


def placement_in(state: PlacementState) -> Story:
    story = Story().accepted().placed()
    match state:
        case PlacementState.PREPARING:
            return story
        case PlacementState.RUNNING:
            return story.prepared().at_gate().granted().started()
        case _:
            return story.prepared().reported(state=state)


@pytest.mark.parametrize(
    ("state", "to"), [(a, b) for a, targets in PLACEMENT_MOVES.items() for b in sorted(targets)]
)
def test_every_listed_move_of_a_placement_happens(
    state: PlacementState, to: PlacementState
) -> None:
    # A move that nothing makes has no place in the table.
    story = placement_in(state)
    assert story.placement("alpha").state is state
    match to:
        case PlacementState.ENDED if state is PlacementState.RUNNING:
            story.closed(0, 0)
        case PlacementState.ENDED:
            story.gone("alpha")
        case PlacementState.RUNNING:
            story.granted().started()
        case PlacementState.QUEUED if state is PlacementState.PREPARING:
            story.prepared()
        case _:
            story.reported(state=to)
    assert story.placement("alpha").state is to


def granted() -> Story:
    return Story().accepted().placed().prepared().granted()


def states_of_epoch(story: Story) -> list[EpochState]:
    run, seen = None, list[EpochState]()
    for recorded in story.recorded:
        run = evolve(run, recorded)
        seen += [epoch.state for epoch in run.epochs if seen[-1:] != [epoch.state]]
    return seen


def test_every_listed_move_of_an_epoch_happens() -> None:
    lives = (
        granted().started().closed(0, 0),
        granted().closed(rule=CloseRule.NEVER_STARTED),
        granted().stopped().closed(rule=CloseRule.NEVER_STARTED),
        granted().started().stopped().closed(0, 0, rule=CloseRule.FENCE_HEARD),
        granted().stopped(Reason.OTHER_LEG_STARTED).started(),
    )
    made = {move for story in lives for move in pairwise(states_of_epoch(story))}
    assert made == {(a, b) for a, targets in EPOCH_MOVES.items() for b in targets}


def record(run: Run, event: Event, ahead: int = 1) -> Recorded:
    last = Story().accepted().recorded[-1]
    return replace(last, event=event, stream_version=run.stream_version + ahead)


GRANT = Granted(placement="nowhere", epoch=STRANGER, resume_from=None)
SEAL = Sealed(
    epoch=STRANGER,
    rule=CloseRule.NEVER_STARTED,
    checkpoints=(),
    ends=(),
    is_owed=False,
    reason=Reason.GATE_TIMEOUT,
    message="",
    failure=None,
)


@pytest.mark.parametrize(
    "event",
    [
        Validated(),
        Story().accepted().events[0],
        GRANT,
        SEAL,
        PlacementPrepared(placement="nowhere"),
        Progressed(epoch=STRANGER, step=1, loss=None),
        DebtPaid(epoch=STRANGER),
        DrainAcknowledged(epoch=STRANGER, step=None),
        CheckpointCopied(ref=make_checkpoint().ref, region="beta"),
        RegionUncordoned(),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_that_the_run_cannot_take_stops_the_log(event: Event) -> None:
    run = Story().accepted().run
    with pytest.raises(IllegalMoveError):
        evolve(run, record(run, event))


def test_a_second_grant_stops_the_log() -> None:
    story = Story().accepted().placed("alpha").placed("beta").granted("alpha")
    second = Granted(placement=story.placement("beta").id, epoch=STRANGER, resume_from=None)
    with pytest.raises(IllegalMoveError):
        evolve(story.run, record(story.run, second))


def test_a_grant_of_a_used_number_stops_the_log() -> None:
    story = Story().accepted().training().preempted().placed("beta")
    used = EpochId(number=1, nonce="another")
    again = Granted(placement=story.placement("beta").id, epoch=used, resume_from=None)
    with pytest.raises(IllegalMoveError):
        evolve(story.run, record(story.run, again))


@pytest.mark.parametrize("ahead", [0, 2])
def test_a_gap_or_a_repeat_in_the_log_stops_it(ahead: int) -> None:
    run = Story().accepted().run
    with pytest.raises(IllegalMoveError):
        evolve(run, record(run, Validated(), ahead))


def test_a_log_that_does_not_begin_with_its_submit_stops_it() -> None:
    with pytest.raises(IllegalMoveError):
        evolve(None, record(Story().accepted().run, Validated()))


def test_the_page_shows_the_tables_that_rule() -> None:
    page = PAGE.read_text()
    assert rewritten(page) == page, "python -m broker.history.tables <page renders it anew"


def test_a_page_gets_its_tables_once() -> None:
    page = rewritten("# A page\n")
    assert page == f"# A page\n\n{HEADING}\n\n{BEGIN}\n\n{legal_moves()}\n\n{END}\n"
    assert rewritten(page) == page
    assert rewritten(f"# A page\n\n{HEADING}\n") == page
    stale = page.replace("`RUNNING`", "`JOGGING`") + "\n## After\n"
    assert rewritten(stale) == page + "\n## After\n"
