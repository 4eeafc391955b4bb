"""Orders that remove: names that are taken, and gangs that go as they were seen."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from regions.cluster import Cause
from regions.kueue import names
from tests.unit.regions.kueue.making import make_queue
from tests.unit.regions.kueue.shelf import (
    GANGS,
    Stage,
    make_grant,
    make_withdraw,
    staged,
)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as made:
        yield made


async def test_a_withdrawal_without_a_uid_takes_the_name(stage: Stage) -> None:
    await stage.orders.carry_out(make_queue())
    for _ in range(2):
        assert (await stage.orders.carry_out(make_withdraw())).is_done
    for orders in (stage.orders, stage.anew()):
        late = await orders.carry_out(make_queue())
        assert (late.is_done, late.cause, late.retry_after_s) == (False, Cause.WITHDRAWN, None)
    assert stage.seen().meta.labels[names.PART] == names.OCCUPIED_PART
    assert (await stage.anew().carry_out(make_withdraw())).is_done


async def test_a_name_is_taken_although_nothing_came_yet(stage: Stage) -> None:
    assert (await stage.orders.carry_out(make_withdraw())).is_done
    late = await stage.anew().carry_out(make_queue())
    assert (late.is_done, late.cause) == (False, Cause.WITHDRAWN)


async def test_a_name_is_taken_only_when_its_object_is_gone(stage: Stage) -> None:
    await stage.orders.carry_out(make_queue())
    stage.shelf.are_kept = True
    outcome = await stage.orders.carry_out(make_withdraw())
    assert (outcome.is_done, outcome.retry_after_s is not None) == (False, True)
    # Meanwhile the name is taken by what is being removed.
    late = await stage.anew().carry_out(make_queue())
    assert (late.is_done, late.cause, late.retry_after_s) == (False, Cause.WITHDRAWN, None)


async def test_only_the_object_that_is_meant_is_removed(stage: Stage) -> None:
    await stage.orders.carry_out(make_queue())
    uid = stage.seen().meta.uid
    other = await stage.orders.carry_out(make_withdraw("somebody-else"))
    assert (other.is_done, other.retry_after_s) == (False, None)
    assert stage.shelf.has(uid)
    assert (await stage.orders.carry_out(make_withdraw(uid))).is_done
    assert stage.shelf.gang() is None
    assert (await stage.orders.carry_out(make_withdraw(uid))).is_done


async def test_a_granted_gang_is_not_removed_before_its_start_is_decided(stage: Stage) -> None:
    await stage.orders.carry_out(make_queue())
    assert (await stage.orders.carry_out(make_grant())).is_done
    refused = await stage.orders.carry_out(make_withdraw(stage.seen().meta.uid))
    assert (refused.is_done, refused.cause) == (False, Cause.REFUSED)
    assert refused.retry_after_s is not None
    assert ("DELETE", f"{GANGS}/{stage.seen().meta.name}") not in stage.shelf.calls
    closed = make_withdraw(stage.seen().meta.uid, is_closed=True)
    assert (await stage.orders.carry_out(closed)).is_done


async def test_a_gang_that_waits_goes_as_it_was_seen_and_one_that_was_let_in_again_anyhow(
    stage: Stage,
) -> None:
    await stage.orders.carry_out(make_queue())
    seen, gang = stage.seen(), stage.shelf.gang()
    assert gang is not None
    gang["metadata"]["resourceVersion"] = "2"
    gang["spec"]["suspend"] = False
    assert not (await stage.orders.let_go(seen)).is_done
    again = stage.seen()
    gang["metadata"]["resourceVersion"] = "3"
    assert (await stage.orders.let_go(again)).is_done
    assert stage.shelf.gang() is None


async def test_a_gang_that_was_let_in_again_is_not_let_go_while_it_can_still_start(
    stage: Stage,
) -> None:
    await stage.orders.carry_out(make_queue())
    assert (await stage.orders.carry_out(make_grant())).is_done
    gang = stage.shelf.gang()
    assert gang is not None
    gang["spec"]["suspend"] = False
    refused = await stage.orders.let_go(stage.seen())
    assert (refused.is_done, refused.cause) == (False, Cause.REFUSED)
    assert stage.shelf.gang() is not None
    assert (await stage.orders.let_go(stage.seen(), has_started=True)).is_done
    assert stage.shelf.gang() is None


async def test_a_gang_that_was_made_anew_since_it_was_seen_is_not_let_go(stage: Stage) -> None:
    await stage.orders.carry_out(make_queue())
    seen, gang = stage.seen(), stage.shelf.gang()
    assert gang is not None
    gang["metadata"]["uid"] = "another"
    assert not (await stage.orders.let_go(seen)).is_done
    assert stage.shelf.gang() is not None
