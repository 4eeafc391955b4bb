"""What is seen of a real cluster is what its API server has, through every fault on the way."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Any

import pytest

from regions.kueue import drift
from regions.kueue.access import Api, Deadlines
from regions.kueue.clock import SystemClock
from regions.kueue.credentials import Kubeconfig
from regions.kueue.discovery import discover, rights
from regions.kueue.errors import SilentError
from regions.kueue.objects import kinds
from regions.kueue.objects.kinds import KINDS, Kind
from regions.kueue.quota import Standing, Tree
from regions.kueue.source import ApiSource
from regions.kueue.watching import Bounds, Informer
from tests.cluster.conftest import Object, Place
from tests.cluster.rig import fleet
from tests.cluster.rig.door import Fault
from tests.cluster.rig.waiting import wait_until

pytestmark = pytest.mark.cluster

GPU = "nvidia.com/gpu"
QUICK = Bounds(first_pause_s=0.1, longest_pause_s=1.0)
SHORT = Deadlines(call_s=2.0, page_s=10.0, silence_s=3.0)


class View:
    """Informers of some kinds of one region, as one user."""

    def __init__(
        self, place: Place, user: str = "admin", deadlines: Deadlines | None = None
    ) -> None:
        own = Kubeconfig(path=str(place.region.kubeconfig(user)))
        self.api = Api(own, SystemClock(), deadlines or Deadlines())
        self.informers: dict[str, Informer[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def follow(
        self, *followed: Kind[Any], scopes: tuple[str, ...] = ("",), bounds: Bounds = QUICK
    ) -> None:
        for kind in followed:
            version = kind.versions[0]
            informer = Informer(
                kind,
                version,
                ApiSource(self.api, kind, version),
                clock=SystemClock(),
                chance=random.Random(1),
                scopes=scopes,
                bounds=bounds,
            )
            self.informers[kind.plural] = informer
            self._tasks.append(asyncio.create_task(informer.run()))

    def objects(self, kind: Kind[Any]) -> dict[str, Any]:
        return dict(self.informers[kind.plural].cache.objects)

    async def until(self, is_so: Callable[[], object], what: str, within_s: float = 60.0) -> None:
        try:
            async with asyncio.timeout(within_s):
                while not is_so():
                    for task in self._tasks:
                        assert not task.done(), task
                    await asyncio.sleep(0.05)
        except TimeoutError:
            health = {name: each.health for name, each in self.informers.items()}
            raise AssertionError(f"{what} was not seen: {health}") from None

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.api.close()


@contextlib.asynccontextmanager
async def viewing(place: Place, **options: Any) -> AsyncIterator[View]:
    view = View(place, **options)
    try:
        yield view
    finally:
        await view.close()


def versions(found: Iterable[Object]) -> dict[str, str]:
    """The resource versions of plain objects, by their keys."""
    return {kinds.key_of(each): each["metadata"]["resourceVersion"] for each in found}


async def there(place: Place, kind: Kind[Any]) -> dict[str, str]:
    """What the API server has of a kind, asked by the tests' own client."""
    group = f"{kind.group}/" if kind.group else ""
    root = f"/apis/{group}{kind.versions[0]}" if group else f"/api/{kind.versions[0]}"
    body = await asyncio.to_thread(place.region.api.get, f"{root}/{kind.plural}")
    return versions(body["items"])


async def test_what_a_cluster_serves_is_found(place: Place) -> None:
    async with viewing(place) as view:
        served = await discover(view.api)
    assert served.kubernetes == "v1.35.4"
    assert served.versions == {kind.name: kind.versions[0] for kind in KINDS}
    assert (served.positions, served.blind) == ("v1beta2", ())


async def test_pages_and_watches_come_to_what_the_api_server_has(place: Place) -> None:
    async with viewing(place) as view:
        view.follow(*KINDS, bounds=Bounds(page_items=2))
        await view.until(
            lambda: all(each.health.heard_s is not None for each in view.informers.values()),
            "every kind",
        )
        await asyncio.to_thread(place.submit, "gang", ["sleep", "600"])
        await view.until(lambda: len(view.objects(kinds.JOB_SETS)) == 1, "the JobSet")
        await asyncio.to_thread(place.wait_running, "gang", 2, 120)
        for kind in KINDS:
            await self_same(view, place, kind)
        assert all(not each.cache.unreadable for each in view.informers.values())
        (workload,) = view.objects(kinds.WORKLOADS).values()
        assert workload.has_quota
        assert drift.held([workload])[place.namespace].popitem()[1] == 16


async def self_same(view: View, place: Place, kind: Kind[Any]) -> None:
    """Wait until a kind is seen as the API server has it: nodes and leases change all the time."""
    for _ in range(50):
        asked = await there(place, kind)
        seen = {key: each.meta.resource_version for key, each in view.objects(kind).items()}
        if seen == asked:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{kind.name}: seen {seen}, there {asked}")


async def test_a_kind_of_which_nothing_happens_is_known_to_be_as_it_was(place: Place) -> None:
    async with viewing(place) as view:
        # Of a kind that never changed a server sends no bookmarks: it ends the watch at its time.
        view.follow(kinds.TOPOLOGIES, bounds=Bounds(quiet_s=5, watch_s=5))
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
        assert informer.cache.changed_since(mark) == frozenset({key, new})
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
        assert informer.cache.changed_since(mark) == frozenset({key})
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


def bare(name: str, place: Place, queue: str, gpus: int) -> Object:
    """A Workload of one pod, with nobody behind it: quota is all that it is about."""
    container = {"name": "main", "image": "none", "resources": {"requests": {GPU: str(gpus)}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": fleet.KUEUE,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": place.namespace},
        "spec": {
            "queueName": queue,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


TREES = (
    # (queue, cohort, nominal, borrowing limit, lending limit), and (cohort, parent)
    (
        [("a", "left", 8, None, None), ("b", "left", 8, 2, None), ("c", "right", 8, None, 3)],
        [("left", "top"), ("right", "top")],
    ),
    (
        [("a", "one", 4, 6, 0), ("b", "one", 16, None, 5), ("c", "", 8, None, None)],
        [("one", "")],
    ),
)


@pytest.mark.parametrize("tree", TREES, ids=["a tree", "a flat cohort"])
async def test_what_is_counted_as_free_is_what_kueue_admits(place: Place, tree: Any) -> None:
    queues, cohorts = tree
    chance = random.Random(5)
    own = f"{place.namespace}-"
    await asyncio.to_thread(plant, place, queues, cohorts)
    async with viewing(place) as view:
        view.follow(kinds.CLUSTER_QUEUES, kinds.COHORTS, kinds.WORKLOADS, kinds.LOCAL_QUEUES)

        def standing(queue: str) -> Standing | None:
            return Tree(
                view.objects(kinds.CLUSTER_QUEUES).values(), view.objects(kinds.COHORTS).values()
            ).standing(f"{own}{queue}", "on-demand", GPU)

        def is_settled(count: int) -> bool:
            workloads = list(view.objects(kinds.WORKLOADS).values())
            ours = [each for each in workloads if each.meta.namespace == place.namespace]
            clusters = view.objects(kinds.CLUSTER_QUEUES).values()
            told = [each for each in clusters if each.reservation is not None]
            return (
                len([each for each in ours if each.has_quota]) == count
                and len([each for each in told if each.meta.name.startswith(own)]) == len(queues)
                and not drift.differences(told, drift.held(workloads))
            )

        for step in range(8):
            await view.until(partial(is_settled, step), "Kueue's own count")
            names = [name for name, *_ in queues]
            free = {name: found.free for name in names if (found := standing(name)) is not None}
            able = [name for name in names if free[name]]
            if not able:
                break
            queue = chance.choice(able)
            size = free[queue] or 0
            await asyncio.to_thread(refused, place, f"much-{step}", queue, size + 1)
            taken = chance.randint(1, size)
            await asyncio.to_thread(
                place.region.api.create, bare(f"fits-{step}", place, queue, taken)
            )
        else:
            await view.until(lambda: is_settled(8), "the last one")
        assert step > 1
    await asyncio.to_thread(uproot, place, queues, cohorts)


def plant(place: Place, queues: Any, cohorts: Any) -> None:
    own, api = f"{place.namespace}-", place.region.api
    for name, parent in cohorts:
        spec = {"parentName": f"{own}{parent}"} if parent else {}
        api.apply(fleet.named(fleet.KUEUE, "Cohort", f"{own}{name}", spec))
    for name, cohort, nominal, borrow, lend in queues:
        share = fleet.Share(
            capacity_type="ON_DEMAND", nominal=nominal, borrowing=borrow, lending=lend
        )
        never = {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"}
        made = fleet.cluster_queue(
            f"{own}{name}", [share], cohort=f"{own}{cohort}" if cohort else "", preemption=never
        )
        api.apply(made, fleet.local_queue(name, place.namespace, f"{own}{name}"))


def refused(place: Place, name: str, queue: str, gpus: int) -> None:
    """See that Kueue has looked at a workload and has not let it in; then take it away."""
    api = place.region.api
    api.create(bare(name, place, queue, gpus))

    def reason() -> str:
        found = api.find(fleet.KUEUE, "Workload", name, place.namespace) or {}
        held = found.get("status", {}).get("conditions", [])
        assert not any(c["type"] == "QuotaReserved" and c["status"] == "True" for c in held), name
        return next((c["message"] for c in held if c["type"] == "QuotaReserved"), "")

    wait_until(lambda: "insufficient" in reason(), 30, f"Kueue's word on {name}")
    api.delete(fleet.KUEUE, "Workload", name, place.namespace)
    wait_until(
        lambda: api.find(fleet.KUEUE, "Workload", name, place.namespace) is None, 30, "its end"
    )


def uproot(place: Place, queues: Any, cohorts: Any) -> None:
    own, api = f"{place.namespace}-", place.region.api
    for found in api.all(fleet.KUEUE, "Workload", place.namespace):
        api.delete(fleet.KUEUE, "Workload", found["metadata"]["name"], place.namespace)
    for name, *_ in queues:
        api.delete(fleet.KUEUE, "LocalQueue", name, place.namespace)
        api.delete(fleet.KUEUE, "ClusterQueue", f"{own}{name}")
    for name, _ in cohorts:
        api.delete(fleet.KUEUE, "Cohort", f"{own}{name}")
