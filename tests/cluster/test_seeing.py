"""What is seen of a real cluster is what its API server has, through every fault on the way."""

from __future__ import annotations

import asyncio

import pytest

from regions.kueue.access import Deadlines
from regions.kueue.discovery import discover, rights
from regions.kueue.errors import SilentError
from regions.kueue.objects import kinds
from regions.kueue.objects.kinds import KINDS
from regions.kueue.objects.workload import Workload
from regions.kueue.watching import Bounds
from tests.cluster.conftest import Object, Place
from tests.cluster.rig import fleet
from tests.cluster.rig.door import Fault
from tests.cluster.views import bare, self_same, viewing

pytestmark = pytest.mark.cluster

SHORT = Deadlines(call_s=2.0, page_s=10.0, silence_s=3.0)


async def test_what_a_cluster_serves_is_found(place: Place) -> None:
    async with viewing(place) as view:
        served = await discover(view.api)
    assert served.kubernetes == "v1.35.4"
    assert served.versions == {kind.name: kind.versions[0] for kind in KINDS}
    assert served.blind == ()


async def test_pages_and_watches_come_to_what_the_api_server_has(place: Place) -> None:
    async def create(name: str) -> None:
        body = bare(name, place, place.queue, 1)
        await asyncio.to_thread(place.region.api.create, body)

    for at in range(30):
        await create(f"first-{at}")
    async with viewing(place) as view:
        view.follow(*KINDS, bounds=Bounds(page_items=7))
        await view.until(
            lambda: all(each.health.heard_s is not None for each in view.informers.values()),
            "every kind",
        )
        for at in range(10):
            await create(f"then-{at}")
        for kind in KINDS:
            await self_same(view, place, kind)
        assert len(view.objects(kinds.WORKLOADS)) == 40
        assert all(not each.cache.unreadable for each in view.informers.values())


async def test_an_older_version_of_kueue_is_read_as_the_newest_is(place: Place) -> None:
    """Both are served here, so that a cluster with the older alone is seen as well as this one."""
    older = [kind for kind in KINDS if kind.group == kinds.KUEUE]
    assert {kind.versions[1] for kind in older} == {"v1beta1"}
    priority = {"kueue.x-k8s.io/priority-class": "normal"}
    place.submit("runs", ["sleep", "600"], labels=priority)
    place.submit("waits", ["true"], ranks=40)
    async with viewing(place) as new, viewing(place) as old:
        new.follow(*older)
        old.follow(*older, version="v1beta1")

        def running() -> list[Workload]:
            found = old.objects(kinds.WORKLOADS).values()
            return [one for one in found if one.meta.namespace == place.namespace and one.has_quota]

        await old.until(running, "a gang that was let in")
        await old.until(
            lambda: all(old.objects(kind) == new.objects(kind) for kind in older), "the same"
        )
        [runs] = running()
        assert runs.assignments
        assert (runs.priority_class, runs.priority) == ("normal", fleet.PRIORITIES["normal"])
        assert all(not each.cache.unreadable for each in old.informers.values())


async def test_a_kind_of_which_nothing_happens_is_known_to_be_as_it_was(place: Place) -> None:
    async with viewing(place) as view:
        # Of a kind that never changed a server may send no bookmark: it ends the watch in time.
        view.follow(kinds.TOPOLOGIES, bounds=Bounds(watch_s=5))
        informer = view.informers["topologies"]
        await view.until(lambda: informer.health.heard_s is not None, "the list")
        listed_s = informer.health.heard_s or 0.0
        await view.until(lambda: (informer.health.heard_s or 0.0) > listed_s + 8, "its quiet")
        assert informer.health.trouble == ""


async def make_class(place: Place, name: str, value: int) -> None:
    body = {
        "apiVersion": fleet.KUEUE,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": f"{place.namespace}-{name}"},
        "value": value,
    }
    await asyncio.to_thread(place.region.api.apply, body)


async def drop_class(place: Place, name: str) -> None:
    full = f"{place.namespace}-{name}"
    await asyncio.to_thread(place.region.api.delete, fleet.KUEUE, "WorkloadPriorityClass", full)


@pytest.mark.parametrize("fault", [Fault.SILENT, Fault.CLOSED, Fault.DEAF])
async def test_what_happened_while_a_cluster_was_silent_is_seen_afterwards(
    place: Place, fault: Fault
) -> None:
    async with viewing(place, deadlines=SHORT) as view:
        view.follow(kinds.PRIORITY_CLASSES)
        informer = view.informers["workloadpriorityclasses"]
        await make_class(place, "before", 1)
        key = f"{place.namespace}-before"
        await view.until(lambda: key in informer.cache.objects, "the class")
        seen_s, mark = informer.health.heard_s, informer.cache.generation
        await asyncio.to_thread(place.region.cut_off, fault)
        await view.until(lambda: informer.health.trouble, "the silence", within_s=15)
        assert key in informer.cache.objects
        assert informer.health.heard_s is not None
        assert seen_s is not None
        with pytest.raises(SilentError):
            await view.api.ask("GET", "/version")
        await make_class(place, "during", 2)
        await drop_class(place, "before")
        await asyncio.to_thread(place.region.reconnect)
        new = f"{place.namespace}-during"
        await view.until(
            lambda: new in informer.cache.objects and key not in informer.cache.objects,
            "what happened meanwhile",
        )
        assert informer.cache.generation == mark + 2
        assert informer.health.trouble == ""
        await drop_class(place, "during")


async def test_a_position_that_is_too_old_is_listed_anew(place: Place) -> None:
    async with viewing(place) as view:
        view.follow(kinds.PRIORITY_CLASSES)
        informer = view.informers["workloadpriorityclasses"]
        await view.until(lambda: informer.health.heard_s is not None, "the list")
        mark = informer.cache.generation
        informer._position = "1"
        await asyncio.to_thread(place.region.cut_watches)
        await make_class(place, "anew", 3)
        key = f"{place.namespace}-anew"
        await view.until(lambda: key in informer.cache.objects, "the class")
        assert informer._position != "1"
        assert informer.cache.generation == mark + 1
        await drop_class(place, "anew")


async def test_an_api_server_that_was_killed_is_followed_again(place: Place) -> None:
    async with viewing(place, deadlines=SHORT) as view:
        view.follow(kinds.PRIORITY_CLASSES, kinds.WORKLOADS, kinds.PODS)
        await view.until(
            lambda: all(each.health.heard_s is not None for each in view.informers.values()),
            "the kinds",
        )
        before = view.objects(kinds.PRIORITY_CLASSES)
        await asyncio.to_thread(place.region.kill_api_server)
        await view.until(
            lambda: all(each.health.trouble for each in view.informers.values()), "its end", 30
        )
        assert view.objects(kinds.PRIORITY_CLASSES) == before
        await asyncio.to_thread(place.region.start_api_server)
        await make_class(place, "later", 4)
        key = f"{place.namespace}-later"
        await view.until(lambda: key in view.objects(kinds.PRIORITY_CLASSES), "the class")
        await drop_class(place, "later")


def allow(place: Place, user: str, *rules: Object) -> None:
    """Give a user rights in the place's namespace."""
    meta = {"name": f"{user}-sees", "namespace": place.namespace}
    rbac = "rbac.authorization.k8s.io"
    place.region.api.apply(
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": list(rules)},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": meta["name"]},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
        },
    )


async def test_missing_rights_narrow_what_is_seen_and_are_said(place: Place) -> None:
    rule = {
        "apiGroups": ["kueue.x-k8s.io"],
        "resources": ["localqueues"],
        "verbs": ["list", "watch"],
    }
    await asyncio.to_thread(allow, place, "broker", rule)
    async with viewing(place, user="broker") as view:
        view.follow(kinds.LOCAL_QUEUES, kinds.WORKLOADS, scopes=("", place.namespace))
        view.follow(kinds.NODES)
        await view.until(lambda: view.objects(kinds.LOCAL_QUEUES), "the queue")
        await view.until(
            lambda: all(view.informers[each].health.is_denied for each in ("workloads", "nodes")),
            "the refusal",
        )
        queues, nodes = (view.informers[each].health for each in ("localqueues", "nodes"))
        assert (queues.scope, queues.trouble) == (place.namespace, "")
        assert nodes.heard_s is None
        assert nodes.trouble.startswith('we may not see nodes: nodes is forbidden: User "broker"')
        may = await rights(view.api, place.namespace)
    assert may.may("list", "kueue.x-k8s.io", "localqueues") is True
    assert may.may("create", "jobset.x-k8s.io", "jobsets") is False
