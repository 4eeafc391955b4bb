"""What changed between two looks: whose word is another one, and not what time alone changes."""

from dataclasses import replace
from typing import Any

import pytest

from regions.cluster import Cause, EpochKey, EpochSeen, OwnerState, PlacementSeen, Stage
from regions.observing import changed
from regions.store_eye import Look
from tests.unit.loops.seeing import observation

PLACED = PlacementSeen(
    placement="p1",
    run_key="run1",
    uid="uid-1",
    queue="lq",
    flavor="spot",
    stage=Stage.STANDING,
    cause=Cause.NONE,
    message="",
    ahead=None,
    ahead_gpus=None,
    nodes_here=2,
    nodes_wanted=2,
    members=(),
    standing={},
    is_whole_at_gate=False,
    is_granted=True,
    labels={},
    history=((40.0, 1), (30.0, 2)),
)
OPEN = EpochSeen(
    key=EpochKey(run_key="run1", number=1, nonce="0a"),
    placement="p1",
    owner=OwnerState.STARTED,
    nonces=("00",),
    reports=(),
    ends=(),
    gone=frozenset(),
    is_drain_written=False,
    is_fence_written=False,
    checkpoints=(),
)


def between(before: PlacementSeen | None, now: PlacementSeen | None) -> frozenset[str] | None:
    last = observation(() if before is None else (before,))
    return changed(last, {} if now is None else {"p1": now}, looked())


def looked(*epochs: EpochSeen, **unread: str) -> Look:
    seen = {each.key: each for each in epochs}
    return Look(runs={}, epochs=seen, claims=None, trouble="", unread=unread)


def test_before_the_first_look_all_may_be_changed() -> None:
    assert changed(None, {"p1": PLACED}, looked()) is None


@pytest.mark.parametrize(
    ("told", "is_changed"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"history": ((41.0, 1), (31.0, 2))}, False, id="time went by"),
        pytest.param({"history": ((41.0, 1), (31.0, 0))}, True, id="a node went"),
        pytest.param({"history": ((41.0, 1),)}, True, id="a node was never there"),
        pytest.param({"stage": Stage.ENDED}, True, id="it ended"),
        pytest.param({"standing": {0: "00"}}, True, id="a rank came to the gate"),
        pytest.param({"message": "more"}, True, id="the words are others"),
    ],
)
def test_a_placement_is_changed_by_all_but_the_age_of_its_nodes(
    told: dict[str, Any], is_changed: bool
) -> None:
    assert between(PLACED, replace(PLACED, **told)) == frozenset({"p1"} if is_changed else ())


def test_who_came_and_who_went_is_changed() -> None:
    assert between(None, PLACED) == frozenset({"p1"})
    assert between(PLACED, None) == frozenset({"p1"})


def test_a_run_is_changed_by_its_epochs_and_by_what_cannot_be_read_of_it() -> None:
    last = observation(epochs=(OPEN,))
    ended = replace(OPEN, gone=frozenset({0}))
    assert changed(last, {}, looked(replace(OPEN))) == frozenset()
    assert changed(last, {}, looked(ended)) == frozenset({"run1"})
    assert changed(last, {}, looked()) == frozenset({"run1"})
    assert changed(last, {}, looked(OPEN, run2="garbage")) == frozenset({"run2"})
