"""Orders: what they meet that is there already, what is refused, and what is tried again."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from regions.cluster import Cause, Outcome
from regions.kueue import names
from regions.kueue.explanation import verdict
from regions.kueue.hearing import Heard
from regions.kueue.manifest import (
    PRIORITY_LABEL,
    CannotQueueError,
    digest,
    granted_class,
    what_stays,
)
from regions.kueue.orders import OWNED_LATER, SENT_OTHERWISE
from regions.kueue.program import MENDED_S
from regions.kueue.sites import NotSeenError
from regions.kueue.vocabulary import Word
from regions.kueue.words import Verdict
from tests.unit.regions.kueue.making import PACKED, make_queue, make_site
from tests.unit.regions.kueue.shelf import (
    CLASSES,
    GANGS,
    MAPS,
    POLICIES,
    Shelf,
    Stage,
    make_grant,
    make_withdraw,
    staged,
)
from tests.unit.regions.test_observing import PLACED

Json = dict[str, Any]
GOLDEN = Path(__file__).parents[3] / "golden"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as made:
        yield made


async def test_a_gang_is_made_in_order_and_made_once(stage: Stage) -> None:
    for _ in range(2):
        assert await stage.orders.carry_out(make_queue()) == Outcome(is_done=True)
    assert await stage.anew().carry_out(make_queue()) == Outcome(is_done=True)
    posts = [where for method, where in stage.shelf.calls if method == "POST"]
    assert posts[:3] == [MAPS, GANGS, POLICIES]
    assert len(stage.shelf.objects) == 3
    (enclave,) = (each for where, each in stage.shelf.objects.items() if POLICIES in where)
    assert enclave["metadata"]["ownerReferences"][0]["uid"] == stage.seen().meta.uid


async def test_a_gang_that_is_granted_before_it_is_queued_waits_with_its_own_priority(
    stage: Stage,
) -> None:
    assert await stage.orders.carry_out(make_queue(is_granted=True)) == Outcome(is_done=True)
    gang = stage.seen()
    assert gang.meta.labels[PRIORITY_LABEL] == granted_class(gang, CLASSES) == "high"
    assert not stage.orders.is_low(gang)
    # One that was sent before its grant, and is sent again after it, is the same order.
    assert await stage.anew().carry_out(make_queue()) == Outcome(is_done=True)


async def test_gangs_that_come_together_bring_their_program_once(stage: Stage) -> None:
    orders = [make_queue(placement=f"p-{number}") for number in range(4)]
    async with asyncio.TaskGroup() as group:
        for order in orders:
            group.create_task(stage.orders.carry_out(order))
    assert [where for _, where in stage.shelf.calls].count(MAPS) == 1
    assert len(stage.shelf.objects) == 1 + 2 * len(orders)


def made(shelf: Shelf) -> list[Json]:
    """The objects as they were sent: without what the cluster writes into them."""
    sent = []
    for each in shelf.objects.values():
        own = ("uid", "resourceVersion")
        metadata = {name: value for name, value in each["metadata"].items() if name not in own}
        sent.append({**each, "metadata": metadata})
    return sent


async def test_what_is_shown_of_an_order_is_what_is_made(stage: Stage) -> None:
    order = make_queue(
        secrets=(("hub", "HF_TOKEN", "/secrets/hub"),), internet=True, service_account="trainer"
    )
    before = stage.orders.manifest(order, None)
    assert stage.shelf.calls == []
    await stage.orders.carry_out(order)
    after = stage.orders.manifest(order, stage.seen())
    assert list(after.objects) == made(stage.shelf)
    assert [each["kind"] for each in after.objects] == ["ConfigMap", "JobSet", "NetworkPolicy"]
    # Before it is there only its uid is missing, by which the policy goes with the gang.
    assert before.objects[:2] == after.objects[:2]
    assert OWNED_LATER in before.notes
    assert OWNED_LATER not in after.notes
    assert any("port 443" in note for note in after.notes)


async def test_what_was_sent_by_another_order_is_not_shown_as_this_one(stage: Stage) -> None:
    await stage.orders.carry_out(make_queue())
    assert SENT_OTHERWISE not in stage.orders.manifest(make_queue(), stage.seen()).notes
    other = stage.orders.manifest(make_queue(gate_timeout_s=60.0), stage.seen())
    assert SENT_OTHERWISE in other.notes


async def test_an_order_that_is_never_sent_is_shown_with_what_refuses_it(stage: Stage) -> None:
    assert "not pinned" in stage.orders.manifest(make_queue(image="lab/llm:1"), None).refusal
    stage.site = NotSeenError("the queues cannot be seen")
    shown = stage.orders.manifest(make_queue(), None)
    assert (shown.objects, shown.refusal) == ((), "the queues cannot be seen")


@pytest.mark.parametrize(
    "change",
    [
        {"command": ("python", "other.py")},
        {"env": {"A": "1"}},
        {"run_key": "another"},
        {"flavor": "another"},
        {"gang": {"ranks": 3}},
    ],
)
async def test_another_order_of_the_same_name_is_refused_for_good(
    stage: Stage, change: Json
) -> None:
    await stage.orders.carry_out(make_queue())
    outcome = await stage.orders.carry_out(make_queue(**change))
    assert (outcome.is_done, outcome.cause, outcome.retry_after_s) == (False, Cause.REFUSED, None)


MARKED = {**make_queue().labels, "log": "0123456789abcdef"}


def recorded(build: str) -> Json:
    """A gang as a build made it; no test may change what is recorded."""
    gang: Json = json.loads((GOLDEN / "gangs" / f"{build}.json").read_text())
    return gang


def test_the_digest_of_an_earlier_build_is_of_what_an_order_said_then() -> None:
    told = recorded("first")["metadata"]["annotations"]
    assert told[names.ORDER] != digest(what_stays(make_queue(labels=MARKED)))


@pytest.mark.parametrize("build", ["first", "second"])
async def test_a_gang_that_an_earlier_build_made_is_the_orders_own(
    stage: Stage, build: str
) -> None:
    gang = recorded(build)
    gang["metadata"] |= {"uid": "of-old", "resourceVersion": "1"}
    stage.shelf.objects[f"{GANGS}/{gang['metadata']['name']}"] = gang
    assert await stage.orders.carry_out(make_queue(labels=MARKED)) == Outcome(is_done=True)
    assert stage.seen().meta.uid == "of-old"
    # What keeps it apart from others is made anew, if it was not there.
    (enclave,) = (each for where, each in stage.shelf.objects.items() if POLICIES in where)
    assert enclave["metadata"]["ownerReferences"][0]["uid"] == "of-old"
    assert (await stage.orders.carry_out(make_grant())).is_done


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {**MARKED, "log": "another"}},
        {"labels": make_queue().labels},
        {"labels": MARKED, "run_key": "another"},
        {"labels": MARKED, "gang": {"ranks": 3}},
    ],
)
async def test_a_gang_of_another_log_or_of_another_size_is_not_the_orders_own(
    stage: Stage, change: Json
) -> None:
    await stage.orders.carry_out(make_queue(labels=MARKED))
    refused = await stage.orders.carry_out(make_queue(**change))
    assert (refused.is_done, refused.cause) == (False, Cause.REFUSED)


@pytest.mark.parametrize(
    "change",
    [
        {"gate_timeout_s": 60.0},
        {"stop_grace_s": 7.0},
        {"priority": 7, "granted_priority": 1_000_007},
    ],
)
async def test_an_order_whose_answer_was_lost_finds_its_own_under_another_policy(
    stage: Stage, change: Json
) -> None:
    await stage.orders.carry_out(make_queue())
    made = stage.seen().meta.uid
    assert await stage.anew().carry_out(make_queue(**change)) == Outcome(is_done=True)
    assert stage.seen().meta.uid == made


async def test_an_object_of_others_under_our_name_is_refused_and_left_alone(stage: Stage) -> None:
    await stage.orders.carry_out(make_queue())
    gang = stage.shelf.gang()
    assert gang is not None
    del gang["metadata"]["labels"][names.MANAGED_BY]
    orders = stage.anew()
    queued = await orders.carry_out(make_queue())
    gone = await orders.carry_out(make_withdraw())
    assert [(one.is_done, one.cause, one.retry_after_s) for one in (queued, gone)] == [
        (False, Cause.REFUSED, None)
    ] * 2
    assert stage.shelf.gang() == gang


@pytest.mark.parametrize(
    ("error", "cause", "is_tried_again"),
    [
        (CannotQueueError("there is no queue"), Cause.REFUSED, False),
        (NotSeenError("the queues cannot be seen"), Cause.UNKNOWN, True),
    ],
)
async def test_what_has_no_place_is_not_sent(
    stage: Stage, error: Exception, cause: Cause, is_tried_again: bool
) -> None:
    stage.site = error
    outcome = await stage.orders.carry_out(make_queue())
    assert (outcome.is_done, outcome.cause) == (False, cause)
    assert (outcome.retry_after_s is not None) is is_tried_again
    assert stage.shelf.calls == []


def missing(name: str) -> Verdict:
    """What pods say of a ConfigMap that their namespace does not have."""
    raw = f'MountVolume.SetUp failed for volume "launcher" : configmap "{name}" not found'
    return verdict(Heard(word=Word.CONFIG_MISSING, detail=name, raw=raw))


async def test_a_launcher_that_pods_miss_is_brought_again_and_asked_for_once(stage: Stage) -> None:
    await stage.orders.carry_out(make_queue())
    name = names.launcher_name(PACKED)
    del stage.shelf.objects[f"{MAPS}/{name}"]
    before = len(stage.shelf.calls)
    await stage.orders.mend_program([missing("of-a-profile")])
    assert len(stage.shelf.calls) == before
    for _ in range(3):
        await stage.orders.mend_program([missing(name), missing(name)])
    assert stage.shelf.calls[before:] == [("POST", MAPS)]
    # What its pods say goes on for a while; somebody may remove it meanwhile.
    del stage.shelf.objects[f"{MAPS}/{name}"]
    stage.server.clock.now_s += MENDED_S
    await stage.orders.mend_program([missing(name)])
    assert f"{MAPS}/{name}" in stage.shelf.objects


async def test_a_namespace_that_was_made_again_gets_the_launcher_with_its_next_gang(
    stage: Stage,
) -> None:
    await stage.orders.carry_out(make_queue())
    stage.shelf.objects.clear()
    stage.shelf.failing = {("POST", GANGS): (404, 'namespaces "training" not found')}
    assert not (await stage.orders.carry_out(make_queue(placement="p-2"))).is_done
    stage.shelf.failing = {}
    assert (await stage.orders.carry_out(make_queue(placement="p-2"))).is_done
    assert f"{MAPS}/{names.launcher_name(PACKED)}" in stage.shelf.objects


async def test_a_launcher_that_is_not_ours_is_not_run(stage: Stage) -> None:
    name = names.launcher_name(PACKED)
    stage.shelf.objects[f"{MAPS}/{name}"] = {"metadata": {"name": name}, "binaryData": {"x": ""}}
    outcome = await stage.orders.carry_out(make_queue())
    assert (outcome.is_done, outcome.cause, outcome.retry_after_s) == (False, Cause.REFUSED, None)
    assert stage.shelf.gang() is None


async def test_a_granted_gang_is_given_its_priority_once(stage: Stage) -> None:
    await stage.orders.carry_out(make_queue(granted_priority=300))
    assert stage.seen().meta.labels[PRIORITY_LABEL] == "waiting"
    assert stage.orders.is_low(stage.seen())
    for _ in range(2):
        assert (await stage.orders.raise_priority(stage.seen())).is_done
    assert stage.seen().meta.labels[PRIORITY_LABEL] == "high"
    assert [method for method, _ in stage.shelf.calls].count("PATCH") == 1


async def test_a_refusal_to_raise_a_priority_is_said(stage: Stage) -> None:
    await stage.orders.carry_out(make_queue(granted_priority=300))
    where = f"{GANGS}/{stage.seen().meta.name}"
    denied = "admission webhook denied: metadata.labels[kueue.x-k8s.io/priority-class]: immutable"
    stage.shelf.failing = {("PATCH", where): (403, denied)}
    outcome = await stage.orders.raise_priority(stage.seen())
    assert (outcome.is_done, outcome.cause, outcome.retry_after_s) == (False, Cause.REFUSED, None)
    assert "priority" in outcome.message


async def test_a_gang_without_a_class_stays_without_one(stage: Stage) -> None:
    stage.site = make_site(priority_classes={})
    await stage.orders.carry_out(make_queue())
    assert granted_class(stage.seen(), CLASSES) == ""


async def test_silence_is_an_outcome_and_says_nothing_else(stage: Stage) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    stage.server.deadlines = replace(stage.server.deadlines, call_s=0.05)
    stage.server.answer = hang
    orders = stage.anew()
    for action in (make_queue(), make_grant(), make_withdraw()):
        outcome = await orders.carry_out(action)
        assert (outcome.is_done, outcome.cause) == (False, Cause.UNKNOWN)
        assert outcome.retry_after_s is not None


async def test_who_was_refused_its_priority_is_shown_so_until_it_has_it(stage: Stage) -> None:
    await stage.orders.carry_out(make_queue(granted_priority=300))
    gang, where = stage.seen(), f"{GANGS}/{stage.seen().meta.name}"
    shown = replace(PLACED, placement="p", uid=gang.meta.uid)

    async def warning() -> str:
        await stage.orders.raise_priority(gang)
        return stage.orders.refusals.shown([shown])["p"].warning

    stage.shelf.failing = {("PATCH", where): (503, "etcd leader changed")}
    assert await warning() == ""
    stage.shelf.failing = {("PATCH", where): (403, "jobsets is forbidden")}
    assert "jobsets is forbidden" in await warning()
    stage.shelf.failing = {}
    assert await warning() == ""
    stage.shelf.failing = {("PATCH", where): (403, "jobsets is forbidden")}
    assert await warning() != ""
    assert stage.orders.refusals.shown([]) == {}
    assert stage.orders.refusals.shown([shown])["p"].warning == ""
