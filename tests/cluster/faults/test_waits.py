"""What keeps a gang from starting, and what ends it, by a cluster's own doing: seen, named, let go.

A wait that only the broker ends is ended here by what it would send; when it sends that is in the
tests of its patience.
"""

from __future__ import annotations

import asyncio

import pytest

from regions.cluster import Cause, Stage
from tests.cluster.faults.conftest import PODS_S, Set, bear
from tests.cluster.faults.corner import Terms, held
from tests.cluster.rig import fleet
from tests.contract.cluster.world import make_grant, make_withdraw, ranks_of

pytestmark = pytest.mark.cluster
HOUR_S = 3600.0
GATED = "kueue.x-k8s.io/admission-gated-by"


@pytest.mark.usefixtures("impatient")
async def test_a_gang_of_which_a_part_came_is_put_out_and_its_machines_are_free_again(
    set_stage: Set,
) -> None:
    """By Kueue's own bound, waitForPodsReady; what was in the way is told, whoever comes first."""
    stage = await set_stage(Terms(pool={"supply": 1}))
    queue = stage.corner.order()
    await stage.done(queue, make_grant(queue))
    ended = await stage.ended("p1")
    assert ended.cause is Cause.EVICTED
    assert ended.message.startswith(
        "The cluster put it out, because not all of its processes had started in time: "
        "some of its machines came, and the rest cannot be had: 1 of 2 are here."
    )
    assert "PARTIAL" in {each.kind for each in (await stage.see()).signals}
    await stage.corner.nothing_is_left()
    assert stage.lines() == []


async def test_a_gang_is_not_stuck_where_its_machines_are_out_of_stock(set_stage: Set) -> None:
    """kueue#8089, kueue#8143: a run is kept where it cannot start, while others could take it."""
    dry, wet = await set_stage(Terms(pool={"answer": "stockout"})), await set_stage(Terms())
    queue, other = dry.corner.order(), wet.corner.order(placement="p2")
    await dry.done(queue)
    await wet.done(other)
    stuck = await dry.caused(Cause.STOCKOUT)
    assert stuck.message.startswith("The cloud has no such machines left in these zones.")
    await wet.whole("p2")
    grant = make_grant(other)
    await wet.done(grant)
    await wet.running(grant.epoch)
    assert (await dry.given_back(queue)).cause is Cause.WITHDRAWN
    assert "STOCKOUT" in {each.kind for each in (await dry.see()).signals}
    assert (dry.lines(), ranks_of(wet.lines())) == ([], ["0", "1"])


async def test_a_gang_that_fits_nowhere_holds_nothing(set_stage: Set) -> None:
    stage = await set_stage(Terms(nominal=2))
    corner, huge = stage.corner, stage.corner.order(ranks=9)
    await stage.done(huge)
    never = await stage.caused(Cause.QUOTA_NEVER_FITS)
    assert never.stage is Stage.QUEUED
    assert never.message.startswith("Its queue can never have so much quota: nvidia.com/gpu of")
    assert (corner.reserved() or 0, corner.pods(), corner.nodes()) == (0, [], [])
    # Nor does it keep others from what it cannot have.
    await stage.start(corner.order(placement="p2"))
    assert (await stage.see()).placements["p1"].cause is Cause.QUOTA_NEVER_FITS


async def test_a_gang_ends_with_the_queue_that_is_stopped_and_drained(set_stage: Set) -> None:
    stage = await set_stage(Terms())
    corner, queue = stage.corner, stage.corner.order()
    await stage.start(queue)
    await asyncio.to_thread(corner.apply_queue, stopPolicy="HoldAndDrain")
    ended = await stage.ended("p1")
    assert ended.cause is Cause.EVICTED
    assert ended.message.startswith(
        "The operators stopped its queue and put out all that ran in it."
    )
    await corner.nothing_is_left()
    assert (await stage.see()).queues[0].is_stopped
    await stage.done(corner.order(placement="p2"))
    stopped = await stage.caused(Cause.QUEUE_STOPPED, "p2")
    assert stopped.message.startswith("The queue is stopped by its operators.")
    assert ranks_of(stage.lines()) == ["0", "1"]


@pytest.mark.parametrize("has_started", [False, True], ids=["at its gate", "training"])
async def test_a_gang_that_was_let_in_again_while_nobody_looked_is_let_go(
    set_stage: Set, has_started: bool
) -> None:
    """Whatever Kueue does then, an eviction ends a placement: nobody trains by its old grant."""
    stage = await set_stage(Terms())
    corner, queue = stage.corner, stage.corner.order()
    if has_started:
        await stage.start(queue)
    else:
        await stage.done(queue)
        await stage.whole("p1")
    before = {pod["metadata"]["uid"] for pod in corner.pods()}

    def is_back() -> bool:
        pods = {pod["metadata"]["uid"] for pod in corner.pods()}
        return "Admitted" in corner.conditions() and bool(pods) and pods.isdisjoint(before)

    await asyncio.to_thread(corner.apply_queue, stopPolicy="HoldAndDrain")
    await corner.until(lambda: "Evicted" in corner.conditions(), "that it is put out")
    await asyncio.to_thread(corner.apply_queue)
    await corner.until(is_back, "that it is let in again")
    ended = await stage.ended("p1")
    assert ended.cause is Cause.EVICTED
    await corner.nothing_is_left()
    assert ranks_of(stage.lines()) == (["0", "1"] if has_started else [])


async def test_a_flavor_that_was_removed_is_named(set_stage: Set) -> None:
    stage = await set_stage(Terms(nominal=2))
    corner, api, queue = stage.corner, stage.corner.region.api, stage.corner.order()
    await corner.others("busy", 2)
    await stage.done(queue)
    await stage.placed("p1", lambda seen: "not enough quota" in seen.message)
    api.delete(fleet.KUEUE, "ResourceFlavor", corner.name)
    api.patch(fleet.KUEUE, "ResourceFlavor", corner.name, {"metadata": {"finalizers": None}})
    # Kueue closes the queue at once, and says a moment later why.
    why = "The queue lets nobody in, because a kind of machine that it names is not there."
    stopped = await stage.placed("p1", lambda seen: seen.message.startswith(why))
    assert stopped.cause is Cause.QUEUE_STOPPED
    (refused,) = await stage.apply(corner.order(placement="p2"))
    assert (refused.is_done, refused.cause, refused.retry_after_s) == (False, Cause.REFUSED, None)
    assert "there is no flavor" in refused.message
    assert "Admitted" in corner.conditions("busy")  # what runs is not touched


async def test_a_gang_that_others_hold_back_in_the_queue_is_named(set_stage: Set) -> None:
    """By Kueue's admission-gated-by, which whoever changes what is created may add to it."""
    stage = await set_stage(Terms())
    corner, queue = stage.corner, stage.corner.order()
    await asyncio.to_thread(corner.region.mute_kueue)
    await stage.done(queue)
    await asyncio.to_thread(corner.annotate, {GATED: "review.example.org/budget"})
    # Of what it hears step by step it would see the gang before what was added to it.
    await asyncio.to_thread(bear, corner.region, PODS_S)
    await asyncio.to_thread(corner.region.unmute_kueue)
    gated = await stage.placed("p1", lambda seen: "somebody else holds it" in seen.message.lower())
    assert (gated.stage, gated.cause) == (Stage.QUEUED, Cause.QUEUE_STOPPED)
    assert "review.example.org/budget" in gated.message
    assert gated.said is not None
    assert (gated.said.word, gated.said.fault) == ("HELD_BY_OTHERS", "ORCHESTRATION")
    assert corner.reserved() in (None, 0)
    await asyncio.to_thread(corner.annotate, {GATED: None})
    await stage.whole("p1")
    await stage.given_back(queue)


async def test_a_check_that_nobody_answers_for_is_named(set_stage: Set) -> None:
    stage = await set_stage(Terms(checks=("inspection",)))
    corner, queue = stage.corner, stage.corner.order()
    await stage.done(queue)
    await stage.caused(Cause.WAITING_FOR_CHECK)
    corner.clock.ahead_s = HOUR_S
    silent = await stage.placed("p1", lambda seen: corner.check("inspection") in seen.message)
    assert (silent.stage, silent.cause) == (Stage.QUEUED, Cause.WAITING_FOR_CHECK)
    corner.clock.ahead_s = 0.0
    await corner.until(lambda: corner.reserved() == 2, "its quota")  # held until it is given back:
    await stage.given_back(queue)
    gone = held("Active", "Gone", "its controller is gone", status="False")
    corner.write_status("AdmissionCheck", corner.check("inspection"), {"conditions": [gone]})
    await corner.until(lambda: not corner.is_open("ours"), "that the queue lets nobody in")
    await stage.done(corner.order(placement="p2"))
    inactive = await stage.caused(Cause.QUEUE_STOPPED, "p2")
    assert "nobody answers for a check that it names" in inactive.message
    assert stage.lines() == []


async def test_flex_capacity_of_which_nothing_is_heard_is_waited_for_without_a_time(
    set_stage: Set,
) -> None:
    """kueue#3245: a request of which nothing is heard, and which nobody makes anew.

    How long that is borne is the region's policy, which the broker judges by.
    """
    words = "waiting for resources; ETA 45 minutes"
    stage = await set_stage(Terms(capacity_type="FLEX", pool={"flex": "silent"}))
    corner, queue = stage.corner, stage.corner.order()
    await stage.done(queue)
    asked = await stage.placed("p1", lambda seen: "not taken the request yet" in seen.message)
    assert (asked.cause, asked.eta_s) == (Cause.WAITING_FOR_FLEX, None)
    await corner.change_pool(flex="wait", flex_message=words)
    booked = await stage.placed("p1", lambda seen: seen.eta_s is not None)
    assert booked.message.startswith("Flex capacity is booked and to come.")
    assert 2600 < (booked.eta_s or 0) <= 2700
    corner.clock.ahead_s = HOUR_S
    silent = await stage.placed("p1", lambda seen: seen.eta_s is None)
    assert (silent.stage, silent.cause) == (Stage.QUEUED, Cause.WAITING_FOR_FLEX)
    corner.clock.ahead_s = 0.0
    await stage.given_back(queue)
    await corner.until(lambda: not corner.requests(), "that nothing is asked for any more")
    assert stage.lines() == []


async def test_flex_capacity_that_cannot_be_had_is_not_asked_for_for_ever(set_stage: Set) -> None:
    """kueue#5129: the request failed, its pause is over, and the check is never run again."""
    failure = {"flex": "fail", "flex_message": "max node pool size reached"}
    stage = await set_stage(Terms(capacity_type="FLEX", pool=failure))
    corner, queue = stage.corner, stage.corner.order()
    await stage.done(queue)
    failed = await stage.caused(Cause.STOCKOUT)
    assert failed.message.startswith(
        "The cluster's pool of these machines is as large as it may become."
    )
    assert len(corner.requests()) == 1
    await corner.until(lambda: corner.reserved() == 2, "its quota")  # held through each pause
    await stage.given_back(queue)
    await corner.until(lambda: not corner.requests(), "that nothing is asked for any more")
    assert stage.lines() == []


async def test_flex_capacity_that_is_taken_back_ends_what_trains_on_it(set_stage: Set) -> None:
    stage = await set_stage(Terms(capacity_type="FLEX"))
    corner, queue = stage.corner, stage.corner.order()
    await stage.start(queue)
    [request] = corner.requests()
    corner.region.revoke_capacity(corner.name, request["metadata"]["name"])
    ended = await stage.ended("p1")
    assert ended.cause is Cause.CAPACITY_REVOKED
    assert ended.message.startswith("The cloud took the flex capacity back.")
    await corner.nothing_is_left()
    assert ranks_of(stage.lines()) == ["0", "1"]


async def test_a_gang_is_withdrawn_and_its_machines_are_free_while_kueue_is_silent(
    set_stage: Set,
) -> None:
    """Its webhooks are asked of each change to a JobSet, and do not answer."""
    stage = await set_stage(Terms())
    corner, queue = stage.corner, stage.corner.order()
    await stage.done(queue)
    whole = await stage.whole("p1")
    corner.region.pause("kueue")
    await stage.done(make_withdraw(queue, uid=whole.uid))
    gone = await stage.placed("p1", lambda seen: seen.nodes_here == 0)
    assert gone.cause is Cause.WITHDRAWN
    await corner.until(lambda: not corner.nodes(), "the machines' end")
    corner.region.resume("kueue")
    await stage.ended("p1")
    await corner.nothing_is_left()
    assert stage.lines() == []
