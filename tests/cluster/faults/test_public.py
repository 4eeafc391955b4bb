"""Faults that others met in public, each brought about on real Kueue: what the port makes of it.

Where the Kueue of the rig does not get itself into the state that others found, it is stopped, and
the state is written into its objects; the test says so. Each names the thread it is told in.
"""

from __future__ import annotations

import asyncio

import pytest

from regions.cluster import Cause, Stage
from regions.kueue import names
from regions.kueue.manifest import KEPT_S
from tests.cluster.faults.conftest import Set
from tests.cluster.faults.corner import JOBSET, UNTIL_ASKED, Terms, held, holding
from tests.cluster.rig import fleet
from tests.cluster.rig.door import Fault
from tests.cluster.views import bare_workload
from tests.contract.cluster.world import make_grant, make_withdraw, ranks_of

pytestmark = pytest.mark.cluster
MINUTE_S = 61.0
DAY_S = 86_400
STAYING = {"idle_s": None}
"""Machines that stay, so that whoever comes next is not put on one that is just going."""


async def test_a_check_that_says_retry_and_is_never_run_again_is_named(set_stage: Set) -> None:
    """kueue#3543: given a time, Kueue neither puts the gang out nor asks the check anew."""
    stage = await set_stage(Terms(checks=("inspection",)))
    corner, queue = stage.corner, stage.corner.order()
    await stage.done(queue)
    waiting = await stage.caused(Cause.WAITING_FOR_CHECK)
    assert waiting.message.startswith(
        f"It has its quota and waits for a check of the cluster: {corner.check('inspection')}."
    )
    corner.answer("inspection", "Retry", again_s=600)
    stuck = await stage.placed("p1", lambda seen: "put it back" in seen.message)
    assert (stuck.stage, stuck.cause) == (Stage.QUEUED, Cause.WAITING_FOR_CHECK)
    assert corner.check("inspection") in stuck.message
    await corner.until(lambda: corner.reserved() == 2, "its quota")  # kept from others
    assert (await stage.given_back(queue)).cause is Cause.WITHDRAWN
    assert stage.lines() == []


async def test_a_retry_during_an_eviction_leaves_nothing_behind(set_stage: Set) -> None:
    """kueue#3543, as it was found: put out, its check Pending again, and looked at by nobody."""
    stage = await set_stage(Terms(checks=("inspection",)))
    corner = stage.corner
    await stage.done(corner.order())
    await stage.caused(Cause.WAITING_FOR_CHECK)
    await asyncio.to_thread(corner.region.mute_kueue)
    check = {"name": corner.check("inspection"), "state": "Pending", "message": "it is looked at"}
    await corner.write_over(
        held(
            "QuotaReserved", "Pending", "The workload has failed admission checks", status="False"
        ),
        held("Evicted", "AdmissionCheck", "At least one admission check is false"),
        admission=None,
        admissionChecks=[check | {"lastTransitionTime": "2026-01-01T00:00:00Z"}],
    )
    put_out = await stage.caused(Cause.EVICTED)
    assert put_out.message.startswith("A check of the cluster put it out.")
    await asyncio.to_thread(corner.region.unmute_kueue)
    assert (await stage.ended("p1")).cause is Cause.EVICTED
    await corner.nothing_is_left()
    assert stage.lines() == []


async def test_quota_is_given_back_of_a_gang_that_a_check_refused(set_stage: Set) -> None:
    """kueue#6035: what a check refused keeps its quota until its object is gone."""
    stage = await set_stage(Terms(checks=("inspection",)))
    corner = stage.corner
    await stage.done(corner.order())
    await stage.caused(Cause.WAITING_FOR_CHECK)
    corner.answer("inspection", "Rejected")
    ended = await stage.ended("p1")
    assert ended.cause is Cause.REFUSED
    assert ended.message.startswith("A check of the cluster refused it for good.")
    await corner.nothing_is_left()
    assert stage.lines() == []


async def test_quota_that_is_held_by_what_is_gone_is_told(set_stage: Set) -> None:
    """kueue#6035: a Workload without an owner that stops keeps what it was given."""
    stage = await set_stage(Terms(checks=("inspection",)))
    corner = stage.corner
    corner.region.api.create(bare_workload("left", corner.name, "theirs", 3))
    await corner.until(lambda: corner.reserved() == 3, "its quota")
    corner.answer("inspection", "Retry", workload="left")
    api = corner.region.api
    await corner.until(
        lambda: "Evicted" in holding(api.find(fleet.KUEUE, "Workload", "left", corner.name)),
        "its eviction",
    )
    assert corner.cluster.doubts == ()
    await stage.done(corner.order())
    await stage.placed("p1", lambda seen: "not enough quota" in seen.message)
    assert (await stage.flavor()).free == 1
    corner.clock.ahead_s = corner.clock.unheard_s = 11 * MINUTE_S
    await stage.see()
    held_still = f"holds 3 nvidia.com/gpu of {corner.name} in ClusterQueue {corner.name}"
    told = f"Workload {corner.name}/left was put out and still {held_still}"
    assert told in corner.cluster.doubts
    corner.clock.ahead_s = corner.clock.unheard_s = 0.0
    # Nobody but its operators may delete it; with that, all is as it was.
    api.delete(fleet.KUEUE, "Workload", "left", corner.name)
    await stage.caused(Cause.WAITING_FOR_CHECK)


async def test_a_gang_put_out_that_holds_its_quota_is_wedged_and_let_go(set_stage: Set) -> None:
    """kueue#14811: Evicted, Admitted and QuotaReserved, no process, and no further look at it."""
    stage = await set_stage(Terms())
    corner, queue = stage.corner, stage.corner.order()
    await stage.start(queue)
    await asyncio.to_thread(corner.region.mute_kueue)
    name = names.jobset_name("p1")
    corner.region.api.patch(JOBSET, "JobSet", name, {"spec": {"suspend": True}}, corner.name)
    await corner.until(lambda: not corner.pods(), "its processes' end")
    await corner.write_over(
        held("Evicted", "PodsReadyTimeout", "Exceeded the PodsReady timeout"),
        requeueState={"count": 1, "requeueAt": "2026-01-01T00:00:00Z"},
    )
    assert {"Evicted", "Admitted", "QuotaReserved"} <= corner.conditions().keys()
    corner.clock.ahead_s = MINUTE_S
    wedged = await stage.caused(Cause.WEDGED)
    assert wedged.message.startswith(
        "The cluster holds quota for it, runs nothing of it and will not go on by itself."
    )
    await asyncio.to_thread(corner.region.unmute_kueue)
    assert (await stage.ended("p1")).cause is Cause.WEDGED
    await corner.nothing_is_left()
    assert ranks_of(stage.lines()) == ["0", "1"]


async def test_quota_that_is_counted_and_that_nobody_holds_is_told(set_stage: Set) -> None:
    """kueue#14609: the count of what is held drifts from what is held. It is written here."""
    stage = await set_stage(Terms())
    corner = stage.corner

    def lost() -> list[str]:
        return [each for each in corner.cluster.doubts if " counts " in each]

    await asyncio.to_thread(corner.region.mute_kueue)
    totals = {"name": "nvidia.com/gpu", "total": "3", "borrowed": "0"}
    told = {"flavorsReservation": [{"name": corner.name, "resources": [totals]}]}
    corner.write_status("ClusterQueue", corner.name, told)
    await stage.until(lambda seen: seen.queues[0].flavors[0].reserved == 3)
    assert lost() == []  # the two are written one after the other
    # By its own count Kueue admits: an offer of quota that it does not know of would wait in vain.
    assert (await stage.flavor()).free == 1
    corner.clock.unheard_s = MINUTE_S
    await stage.see()
    words = f"counts 3 nvidia.com/gpu of {corner.name} as held, its Workloads hold 0"
    assert lost() == [f"ClusterQueue {corner.name} {words}"]
    await asyncio.to_thread(corner.region.unmute_kueue)
    await stage.start(corner.order())
    await stage.until(lambda seen: not lost())


async def test_a_gang_that_fits_and_of_which_nothing_is_said_is_not_waited_for(
    set_stage: Set,
) -> None:
    """kueue#2391: it would fit, is not let in, and has neither a condition nor an event."""
    stage = await set_stage(Terms())
    corner, queue = stage.corner, stage.corner.order()
    await asyncio.to_thread(corner.region.mute_kueue)
    await stage.done(queue)
    fresh = await stage.caused(Cause.WAITING_FOR_QUOTA)
    assert fresh.message == "The cluster has not yet looked at it."
    assert (await stage.flavor()).nominal == 4
    corner.clock.ahead_s = MINUTE_S
    ignored = await stage.caused(Cause.WEDGED)
    assert "does not take it up" in ignored.message
    corner.clock.ahead_s = 0.0
    await asyncio.to_thread(corner.make_workload)
    await stage.caused(Cause.WAITING_FOR_QUOTA)
    corner.clock.ahead_s = 15 * MINUTE_S
    await stage.caused(Cause.WEDGED)
    corner.clock.ahead_s = 0.0
    await stage.done(make_withdraw(queue, uid=ignored.uid))
    await asyncio.to_thread(corner.region.unmute_kueue)
    await stage.ended("p1")
    await corner.nothing_is_left()
    assert stage.lines() == []


async def test_a_hedge_preempts_nobody_and_its_grant_in_one_place_only(set_stage: Set) -> None:
    """kueue#8303: a run that waits in several places preempts in all of them at once."""
    scarce = Terms(nominal=2, pool=STAYING)
    first, second = await set_stage(scarce), await set_stage(scarce)
    queues = {}
    for stage, placement in ((first, "p1"), (second, "p2")):
        await stage.corner.others("busy", 2, "low")
        queues[placement] = stage.corner.order(placement=placement)
        await stage.done(queues[placement])
        waiting = await stage.placed(placement, lambda seen: "not enough quota" in seen.message)
        assert waiting.cause is Cause.WAITING_FOR_QUOTA
    for stage in (first, second):
        assert "Evicted" not in stage.corner.conditions("busy")
    grant = make_grant(queues["p1"])
    await first.done(grant)
    await first.running(grant.epoch)
    assert first.corner.conditions("busy").get("Evicted") == "Preempted"
    seen = (await second.see()).placements["p2"]
    await second.done(make_withdraw(queues["p2"], uid=seen.uid))
    await second.ended("p2")
    assert "Admitted" in second.corner.conditions("busy")
    assert (ranks_of(first.lines()), second.lines()) == (["0", "1"], [])


async def test_a_gang_that_kueue_preempted_did_not_fail(set_stage: Set) -> None:
    """jobset#1117: to its JobSet, processes that Kueue ends look like any others that failed."""
    stage = await set_stage(Terms(nominal=2, pool=STAYING))
    corner = stage.corner
    queue = corner.order(UNTIL_ASKED.format(code=7))
    key = await stage.start(queue)
    uid = (await stage.see()).placements["p1"].uid
    creating = asyncio.create_task(corner.others("urgent", 2, "high"))
    ended = await stage.ended("p1")
    assert (ended.uid, ended.cause) == (uid, Cause.EVICTED)
    assert ended.message.startswith("A run of higher priority in its queue took its place.")
    epoch = (await stage.see()).epochs[key]
    assert {end.was_asked for end in epoch.ends} == {True}
    await creating
    assert ranks_of(stage.lines()) == ["0", "1"]


async def test_a_cut_watch_ends_nothing(set_stage: Set) -> None:
    """kueue#12999: a connection that is lost for a moment is no loss of what runs behind it."""
    stage = await set_stage(Terms())
    corner, queue = stage.corner, stage.corner.order()
    key = await stage.start(queue)
    before = (await stage.see()).placements["p1"]
    made = (corner.gang() or {})["metadata"]
    for _ in range(5):
        corner.region.cut_watches()
        await stage.running(key)
    corner.region.cut_off(Fault.CLOSED)
    for _ in range(10):
        with pytest.raises(Exception, match="did not answer"):
            await stage.see()
    corner.region.reconnect()
    await corner.seen()
    after = (await stage.see()).placements["p1"]
    assert (after.uid, after.stage, after.cause) == (before.uid, Stage.STANDING, Cause.NONE)
    assert after.members == before.members
    now = (corner.gang() or {})["metadata"]
    assert now["uid"] == made["uid"]
    assert "deletionTimestamp" not in now
    assert "Evicted" not in corner.conditions()
    assert ranks_of(stage.lines()) == ["0", "1"]


async def test_a_run_that_finished_does_not_train_again(set_stage: Set) -> None:
    """kueue#14779: what removes finished objects makes a finished run look like one never sent."""
    stage = await set_stage(Terms(pool=STAYING))
    corner, queue = stage.corner, stage.corner.order("exit 0")
    grant = make_grant(queue)
    await stage.done(queue, grant)
    ended = await stage.ended("p1")
    # The cluster removes it by itself, days later; here somebody does at once.
    assert (corner.gang() or {})["spec"]["ttlSecondsAfterFinished"] == KEPT_S > DAY_S
    corner.region.api.delete(JOBSET, "JobSet", names.jobset_name("p1"), corner.name)
    await corner.until(lambda: corner.gang() is None, "its removal")
    left = (await stage.see()).placements["p1"]
    assert (left.stage, left.cause) == (Stage.ENDED, Cause.NONE)
    assert [one.exit_code for one in left.members] == [0, 0]
    await stage.done(queue)  # an order whose answer was lost comes once more
    again = await stage.placed("p1", lambda seen: seen.uid != ended.uid)
    over = await stage.placed(
        "p1", lambda seen: seen.uid == again.uid and seen.stage is Stage.ENDED
    )
    assert over.cause is not Cause.NONE
    await corner.until(lambda: corner.reserved() == 0, "that its quota is given back")
    assert ranks_of(stage.lines()) == ["0", "1"]
