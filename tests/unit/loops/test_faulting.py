"""A wish that something goes wrong reaches what it names, or is refused by what is not there."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.history.refusals import Code, Refused
from broker.model import faults as wishes
from broker.model.reasons import Reason
from regions.cluster import Cause, Outcome, Stage
from regions.local import faults
from tests.unit.loops.handheld import Handheld, handheld
from tests.unit.loops.seeing import placement_seen

UNKNOWN = "p" * 12


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Handheld]:
    async with handheld(tmp_path, "alpha") as broker:
        await broker.settle()
        yield broker


def flavor_of(broker: Handheld) -> str:
    return broker.clusters["alpha"].shown.queues[0].flavors[0].flavor


async def refused(broker: Handheld, wish: wishes.Fault) -> Refused:
    with pytest.raises(Refused) as caught:
        await broker.agents.answers.inject("alpha", wish)
    return caught.value


@pytest.mark.parametrize(
    ("wish", "named"),
    [
        (wishes.Stockout(flavor="h200"), "there is no flavor 'h200'; these are: "),
        (wishes.PartialArrival(flavor="h200", nodes=1), "there is no flavor 'h200'"),
        (wishes.Preemption(placement="", flavor="h200", notice_s=None), "no flavor 'h200'"),
        (wishes.Preemption(placement=UNKNOWN, flavor="", notice_s=None), "no placement 'pppp"),
    ],
)
async def test_what_is_not_there_is_said_and_nothing_is_made_to_go_wrong(
    broker: Handheld, wish: wishes.Fault, named: str
) -> None:
    error = await refused(broker, wish)
    assert (error.code, error.reason) == (Code.NOT_FOUND, Reason.NOT_FOUND)
    assert named in error.message
    assert broker.clusters["alpha"].faults == []


async def test_what_is_there_is_reached(broker: Handheld) -> None:
    flavor, cluster = flavor_of(broker), broker.clusters["alpha"]
    name = await broker.submit()
    await broker.settle()
    seen = placement_seen(
        broker.leg(name), broker.run(name), stage=Stage.STANDING, cause=Cause.NONE
    )
    cluster.show(seen)
    await broker.settle()
    inject = broker.agents.answers.inject
    await inject("alpha", wishes.Stockout(flavor=flavor))
    await inject("alpha", wishes.Stockout(flavor=""))
    await inject("alpha", wishes.Preemption(placement=seen.placement, flavor="", notice_s=None))
    assert cluster.faults == [
        faults.Stockout(flavor=flavor),
        faults.Stockout(flavor=flavor),
        faults.Preempt(placement=seen.placement, notice_s=None),
    ]


async def test_what_hits_nothing_is_a_matter_of_state(broker: Handheld) -> None:
    broker.clusters["alpha"].answer = Outcome(is_done=False, message="it holds no node")
    wish = wishes.Preemption(placement="", flavor=flavor_of(broker), notice_s=None)
    error = await refused(broker, wish)
    assert (error.code, error.reason) == (Code.FAILED_PRECONDITION, Reason.ILLEGAL_IN_STATE)


async def test_of_what_was_not_seen_whole_nothing_is_said_to_be_absent(broker: Handheld) -> None:
    cluster = broker.clusters["alpha"]
    cluster.shown = replace(cluster.shown, is_whole=False)
    await broker.settle()
    wish = wishes.Preemption(placement=UNKNOWN, flavor="", notice_s=None)
    await broker.agents.answers.inject("alpha", wish)
    assert cluster.faults == [faults.Preempt(placement=UNKNOWN, notice_s=None)]


async def test_each_event_names_who_decided(broker: Handheld) -> None:
    name = await broker.submit()
    await broker.settle()
    events = await broker.ledger.read(name, 0, 100)
    found = {type(one.event).__name__: one.actor.name for one in events}
    assert found["PlacementAdded"] == "placer"
    assert found["PlacementPrepared"] == found["Granted"] == "policy"
    assert found["Validated"] == "validator"
