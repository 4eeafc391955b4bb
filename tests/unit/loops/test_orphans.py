"""What stands in clusters and is of no run: shown, written down, and removed on evidence alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.history.commands import BeginIncarnation, RemoveOrphan
from broker.history.refusals import Refused
from broker.loops.orders import MARK
from broker.loops.reaper import ORPHAN_S
from broker.model.sightings import Orphan
from regions.cluster import (
    Cause,
    EpochKey,
    EpochSeen,
    Fence,
    OwnerState,
    PlacementSeen,
    RankEnded,
    Revoke,
    Stage,
    Withdraw,
)
from tests.builders import BROKER
from tests.unit.loops.handheld import Handheld, handheld

REMOVE = RemoveOrphan(cluster="alpha", object="lost")
KEY = EpochKey(run_key="gone", number=3, nonce="00000000aa")
STARTED = EpochSeen(
    key=KEY,
    placement="lost",
    owner=OwnerState.STARTED,
    nonces=("00000000aa", "11111111bb"),
    reports=(),
    ends=(),
    gone=frozenset(),
    is_drain_written=False,
    is_fence_written=False,
    checkpoints=(),
)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Handheld]:
    async with handheld(tmp_path, "alpha") as made:
        yield made


def orphan(broker: Handheld, *, is_ours: bool) -> PlacementSeen:
    mark = broker.ledger.broker().mark if is_ours else "another log"
    return PlacementSeen(
        placement="lost",
        run_key="gone",
        uid="uid-lost",
        queue="train",
        flavor="spot",
        stage=Stage.STANDING,
        cause=Cause.NONE,
        message="",
        ahead=0,
        ahead_gpus=0,
        nodes_here=2,
        nodes_wanted=2,
        members=(),
        standing={},
        is_whole_at_gate=False,
        is_granted=True,
        labels={"run": "teams/ml/runs/gone", MARK: mark},
    )


def show_epoch(broker: Handheld, epoch: EpochSeen) -> None:
    cluster = broker.clusters["alpha"]
    cluster.shown = replace(cluster.shown, epochs={epoch.key: epoch})


async def seen_for_long(broker: Handheld) -> None:
    await broker.settle()
    await broker.settle(ORPHAN_S + 1)


async def test_an_orphan_is_shown_at_once_and_written_down_when_it_stays(broker: Handheld) -> None:
    broker.clusters["alpha"].show(orphan(broker, is_ours=True))
    await broker.settle()
    (shown,) = broker.agents.answers.orphans("alpha")
    assert isinstance(shown, Orphan)
    assert (shown.object, shown.is_ours) == ("lost", True)
    assert broker.ledger.region("alpha").orphans == ()
    await broker.settle(ORPHAN_S + 1)
    (known,) = broker.ledger.region("alpha").orphans
    assert (known.object, known.is_ours, known.is_to_go) == ("lost", True, False)
    broker.clusters["alpha"].show()
    await broker.settle()
    assert broker.ledger.region("alpha").orphans == ()
    assert broker.clusters["alpha"].heard == []


async def test_what_says_of_no_run_that_it_is_its_is_told_so(broker: Handheld) -> None:
    broker.clusters["alpha"].show(replace(orphan(broker, is_ours=False), run_key="", labels={}))
    await broker.settle()
    (shown,) = broker.agents.answers.orphans("alpha")
    assert shown.message == "it bears a gang's labels, and says of no run that it is its"


async def test_a_look_that_was_not_whole_lets_no_orphan_be_gone(broker: Handheld) -> None:
    cluster = broker.clusters["alpha"]
    cluster.show(orphan(broker, is_ours=True))
    await seen_for_long(broker)
    cluster.show()
    cluster.shown = replace(cluster.shown, is_whole=False)
    await broker.settle()
    assert len(broker.ledger.region("alpha").orphans) == 1


async def test_a_stranger_is_never_removed(broker: Handheld) -> None:
    broker.clusters["alpha"].show(orphan(broker, is_ours=False))
    await seen_for_long(broker)
    with pytest.raises(Refused, match="does not carry this log's mark"):
        await broker.ledger.handle("regions/alpha", REMOVE, BROKER)
    await broker.settle(ORPHAN_S)
    assert broker.clusters["alpha"].heard == []


async def test_one_of_ours_that_never_started_is_revoked_and_withdrawn(broker: Handheld) -> None:
    broker.clusters["alpha"].show(orphan(broker, is_ours=True))
    show_epoch(broker, replace(STARTED, owner=OwnerState.ABSENT, nonces=()))
    await seen_for_long(broker)
    await broker.ledger.handle("regions/alpha", REMOVE, BROKER)
    await broker.agents.reaper.tick()
    assert broker.clusters["alpha"].heard == [
        Revoke(epoch=KEY),
        Withdraw(placement="lost", run_key="gone", uid="uid-lost", epoch=KEY, is_closed=False),
    ]


async def test_one_of_ours_that_trains_is_told_to_stop_and_removed_when_it_has(
    broker: Handheld,
) -> None:
    cluster = broker.clusters["alpha"]
    cluster.show(orphan(broker, is_ours=True))
    show_epoch(broker, STARTED)
    await seen_for_long(broker)
    await broker.ledger.handle("regions/alpha", REMOVE, BROKER)
    await broker.agents.reaper.tick()
    assert [type(action) for action in cluster.heard] == [Fence]
    end = RankEnded(
        rank=0,
        nonce="00000000aa",
        kind="FENCED",
        cause="fence",
        exit_code=None,
        signal=15,
        was_asked=True,
    )
    half = replace(STARTED, is_fence_written=True, ends=(end,))
    show_epoch(broker, half)
    await broker.settle()
    assert [type(action) for action in cluster.heard] == [Fence]
    show_epoch(broker, replace(half, gone=frozenset({1})))
    await broker.agents.observers[0].tick()
    await broker.agents.reaper.tick()
    assert cluster.heard[1:] == [
        Withdraw(placement="lost", run_key="gone", uid="uid-lost", epoch=KEY, is_closed=True)
    ]


async def test_one_whose_records_cannot_be_read_stays(broker: Handheld) -> None:
    broker.clusters["alpha"].show(orphan(broker, is_ours=True))
    show_epoch(broker, replace(STARTED, owner=OwnerState.UNREADABLE, nonces=()))
    await seen_for_long(broker)
    await broker.ledger.handle("regions/alpha", REMOVE, BROKER)
    await broker.settle()
    assert broker.clusters["alpha"].heard == []


async def test_a_restored_broker_removes_nothing_where_it_has_not_looked(broker: Handheld) -> None:
    broker.clusters["alpha"].show(orphan(broker, is_ours=True))
    show_epoch(broker, replace(STARTED, owner=OwnerState.ABSENT, nonces=()))
    await seen_for_long(broker)
    await broker.ledger.handle("regions/alpha", REMOVE, BROKER)
    begin = BeginIncarnation(incarnation=2, is_restored=True)
    await broker.ledger.handle("broker", begin, BROKER)
    await broker.agents.reaper.tick()
    assert broker.clusters["alpha"].heard == []
