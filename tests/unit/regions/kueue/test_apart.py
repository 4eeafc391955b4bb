"""A gang trains only where its network policy keeps it apart from others."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from regions.cluster import Cause, Outcome
from regions.kueue.apart import NOT_APART, NOT_ITS_OWN
from tests.unit.regions.kueue.making import make_queue
from tests.unit.regions.kueue.shelf import POLICIES, Stage, make_grant, staged

DONE = Outcome(is_done=True)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as made:
        yield made


async def half_way(stage: Stage) -> None:
    """Carry an order out as far as its JobSet."""
    stage.shelf.failing = {("POST", POLICIES): (503, "not now")}
    first = await stage.orders.carry_out(make_queue())
    assert (first.is_done, first.retry_after_s is not None) == (False, True)
    assert stage.shelf.gang() is not None
    stage.shelf.failing = {}


def granted(stage: Stage) -> bool:
    """Whether a grant is in the store."""
    return any(path.name == "grant" for path in Path(stage.store.root).rglob("grant"))


async def test_no_grant_is_written_for_a_gang_that_nothing_keeps_apart(stage: Stage) -> None:
    await half_way(stage)
    for orders in (stage.orders, stage.anew()):
        assert await orders.carry_out(make_grant()) == NOT_APART
    assert not granted(stage)


async def test_an_order_that_stopped_half_way_is_carried_to_its_end(stage: Stage) -> None:
    await half_way(stage)
    orders = stage.anew()
    assert await orders.carry_out(make_queue()) == DONE
    assert len(stage.shelf.objects) == 3
    assert await orders.carry_out(make_grant()) == DONE
    assert granted(stage)


async def test_a_gang_that_is_known_to_be_apart_is_asked_for_no_more(stage: Stage) -> None:
    await stage.orders.carry_out(make_queue())
    stage.shelf.calls.clear()
    assert await stage.orders.carry_out(make_queue()) == DONE
    assert await stage.orders.carry_out(make_grant()) == DONE
    assert stage.shelf.calls == []


async def test_a_broker_that_started_anew_looks_before_it_grants(stage: Stage) -> None:
    await stage.orders.carry_out(make_queue())
    assert await stage.anew().carry_out(make_grant()) == DONE


async def test_a_policy_of_others_is_none_of_the_gang(stage: Stage) -> None:
    await stage.orders.carry_out(make_queue())
    (policy,) = (each for where, each in stage.shelf.objects.items() if POLICIES in where)
    policy["metadata"]["ownerReferences"] = [{"uid": "another"}, "no reference"]
    orders = stage.anew()
    assert await orders.carry_out(make_grant()) == NOT_APART
    outcome = await orders.carry_out(make_queue())
    assert outcome == NOT_ITS_OWN
    assert (outcome.cause, outcome.retry_after_s) == (Cause.REFUSED, None)


async def test_a_grant_may_wait_for_its_gang(stage: Stage) -> None:
    assert await stage.orders.carry_out(make_grant()) == DONE
