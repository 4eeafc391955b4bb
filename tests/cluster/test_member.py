"""A cluster that ``broker regions bootstrap`` set up: the rights that it gives are just enough.

The port runs with the broker's own account, whose rights are the printed ones, in a namespace that
admits ``restricted`` pods only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.cli import exits
from regions.kueue import names
from regions.kueue.access import Api
from regions.kueue.bootstrap import RUNNING, WAITING
from regions.kueue.checkup import Member, examine, is_allowed
from regions.kueue.manifest import JOBSET_API, PRIORITY_LABEL
from regions.kueue.rights import RIGHTS
from tests.cluster.member_world import MemberWorld, OwnQueueWorld
from tests.cluster.rig.brokerd import IMAGE
from tests.cluster.rig.region import Region
from tests.cluster.rig.rig import Rig
from tests.cluster.rig.waiting import wait_until
from tests.cluster.scene import scene_of
from tests.contract.cluster.conftest import Set
from tests.contract.cluster.world import Shape, Stagehand, make_grant, make_queue, script

pytestmark = pytest.mark.cluster

PATIENCE_S = 120.0


@pytest.fixture
async def members() -> AsyncIterator[list[MemberWorld]]:
    """The members that a test made, ended after it."""
    worlds: list[MemberWorld] = []
    yield worlds
    for world in worlds:
        await world.end()


@pytest.fixture
def set_stage(region: Region, tmp_path: Path, members: list[MemberWorld]) -> Set:
    """Make a world of a shape."""

    async def make(shape: Shape) -> Stagehand:
        members.append(MemberWorld(region, tmp_path, shape))
        await members[-1].start()
        return Stagehand(members[-1], patience_s=PATIENCE_S)

    return make


@pytest.fixture
async def member(set_stage: Set, members: list[MemberWorld]) -> MemberWorld:
    """One member."""
    await set_stage(Shape())
    return members[0]


async def test_a_gang_lives_its_whole_life_by_the_rights_that_were_given(
    set_stage: Set, members: list[MemberWorld]
) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, "echo one; sleep 600"), granted_priority=1_000_000)
    await stage.done(queue)
    await stage.whole("p1")
    api, name = members[0].region.api, members[0].name

    def priority() -> str:
        found = api.find(JOBSET_API, "JobSet", names.jobset_name("p1"), name)
        assert found is not None
        return str(found["metadata"]["labels"][PRIORITY_LABEL])

    assert await asyncio.to_thread(priority) == WAITING
    grant = make_grant(queue)
    await stage.done(grant)
    await stage.running(grant.epoch)
    assert await asyncio.to_thread(priority) == RUNNING
    assert (await stage.see()).blind == ()
    printed = [chunk async for chunk in stage.world.cluster.logs("p1", 1, 0, False)]
    assert printed == [(4, b"one\n")]
    ended = await stage.close_by_force(queue, grant.epoch)
    assert [one.is_alive for one in ended.members] == [False, False]


async def test_the_rights_are_just_those_and_each_that_is_taken_away_is_named(
    member: MemberWorld,
) -> None:
    api = member.api()
    assert await amiss(api, member) == []
    # Not in the table, and tempting: what would let it give itself more.
    for verb, resource, namespace in (
        ("get", "secrets", member.name),
        ("create", "pods", member.name),
        ("create", "serviceaccounts/token", member.accounts),
        ("create", "configmaps", member.accounts),
        ("delete", "configmaps", member.name),
        ("patch", "nodes", ""),
    ):
        right = replace(RIGHTS[0], group="", resource=resource)
        assert not await is_allowed(api, right, verb, namespace), (verb, resource)
    for right in RIGHTS:
        rules = await asyncio.to_thread(member.take_away, right)
        what = f"right to {', '.join(right.verbs)} {right.name}"
        said = f"is not held {right.scope}: {right.loss}"
        assert await until_judged(api, member, is_well=False) == [(what, said)]
        await asyncio.to_thread(member.give_back, right, rules)
        assert await until_judged(api, member, is_well=True) == []
    await api.close()


async def test_nothing_is_taken_back_while_a_gang_is_there_and_all_of_it_after(
    set_stage: Set, members: list[MemberWorld], capsys: pytest.CaptureFixture[str]
) -> None:
    stage = await set_stage(Shape())
    queue = make_queue(script(stage.world, "exit 0"))
    await stage.done(queue)
    await stage.whole("p1")
    [world] = members
    before = await asyncio.to_thread(world.ours)
    assert await asyncio.to_thread(world.bootstrap, "--apply", "--yes") == exits.OK
    told = capsys.readouterr()
    assert "nothing is to be done" in told.err
    assert await asyncio.to_thread(world.bootstrap, "--remove", "--yes") == exits.REFUSED
    gang = names.jobset_name("p1")
    assert f"gangs of the broker are there: {gang} (vision)" in capsys.readouterr().err
    assert await asyncio.to_thread(world.ours) == before
    await stage.done(make_grant(queue))
    await stage.ended("p1")
    await world.turn_away()

    def is_over() -> bool:
        found = world.region.api.find(JOBSET_API, "JobSet", gang, world.name) or {}
        return bool(found.get("status", {}).get("terminalState"))

    await asyncio.to_thread(wait_until, is_over, 60, "the gang's end")
    assert await asyncio.to_thread(world.bootstrap, "--remove", "--yes") == exits.OK
    told = capsys.readouterr()
    assert "still on its way out" not in told.out
    assert await asyncio.to_thread(world.ours) == []
    for namespace in (world.name, world.accounts):
        assert await asyncio.to_thread(world.region.api.find, "v1", "Namespace", namespace) is None


async def test_a_gang_runs_in_a_queue_of_the_brokers_own_which_goes_with_the_rest(
    region: Region, tmp_path: Path, members: list[MemberWorld]
) -> None:
    world = OwnQueueWorld(region, tmp_path, Shape())
    members.append(world)
    await world.start()
    stage = Stagehand(world, patience_s=PATIENCE_S)
    [queue] = (await stage.see()).queues
    [flavor] = queue.flavors
    assert (flavor.nominal, flavor.free) == (4, 4)
    order = make_queue(script(world, "exit 0"))
    await stage.done(order)
    await stage.whole("p1")
    assert (await stage.see()).queues[0].flavors[0].reserved == 2
    await stage.done(make_grant(order))
    await stage.ended("p1")
    await world.turn_away()
    assert f"ClusterQueue {world.name}-ours" in await asyncio.to_thread(world.ours)

    def is_over() -> bool:
        found = world.region.api.find(JOBSET_API, "JobSet", names.jobset_name("p1"), world.name)
        return bool((found or {}).get("status", {}).get("terminalState"))

    await asyncio.to_thread(wait_until, is_over, 60, "the gang's end")
    assert await asyncio.to_thread(world.bootstrap, "--remove", "--yes") == exits.OK
    assert await asyncio.to_thread(world.ours) == []


def test_doctor_sends_a_small_gang_the_whole_way(began: Rig, region: Region) -> None:
    with scene_of(began, (region.name,)) as scene:
        given = ("doctor", "--try", region.name, "--image", IMAGE, "--within", "90s")
        tried = scene.brokerd.cli(*given)
        cluster = f"gke-{region.name}"
        assert tried.returncode == 0, tried.stdout + tried.stderr
        assert f"ok  {region.name}/{cluster} rights: all " in tried.stdout
        ran = f"a gang ran to its end in {cluster}, queue training, flavor spot"
        assert f"ok  try {region.name}: {ran}" in tried.stdout


async def amiss(api: Api, member: MemberWorld) -> list[tuple[str, str]]:
    findings = await examine(api, Member(namespace=member.name))
    return [(each.what, each.said) for each in findings if not each.is_well]


async def until_judged(api: Api, member: MemberWorld, *, is_well: bool) -> list[tuple[str, str]]:
    """Which rights are amiss, once the cluster judges by the roles as they are now."""
    async with asyncio.timeout(30):
        while True:
            found = [each for each in await amiss(api, member) if each[0].startswith("right")]
            if (not found) is is_well:
                return found
            await asyncio.sleep(0.1)
