"""The table of rights is what is asked of a cluster: no row too many, and none too few."""

import asyncio
import contextlib
import random
import re
from collections.abc import Iterable
from pathlib import Path

from aiohttp import web

from regions.kueue.manifest import PRIORITY_LABEL
from regions.kueue.rights import RIGHTS, Right, Scope, granted, rules
from regions.kueue.sight import FOLLOWED, Sight
from regions.launcher.store import DirectoryStore
from tests.house.tree import text_of, written_files
from tests.unit.regions.kueue.making import make_queue
from tests.unit.regions.kueue.servers import serving
from tests.unit.regions.kueue.shelf import NAMESPACE, Shelf, Stage, make_withdraw
from tests.unit.regions.kueue.test_logs import Kubelet, read, reading
from tests.unit.regions.kueue.test_sight import OURS, Cluster

Asked = tuple[str, str, str, str]  # verb, group, resource, namespace
_PATH = re.compile(
    r"/apis?(?:/(?P<group>[\w.-]+\.[\w.-]+|batch))?/v\w+(?:/namespaces/(?P<place>[\w-]+))?"
    r"/(?P<resource>[a-z]+)(?:/(?P<name>[\w.-]+))?(?:/(?P<part>[a-z]+))?"
)
_VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


def right_of(method: str, path_qs: str) -> Asked | None:
    """What a request needs a right to; None: what every login may ask."""
    path, _, query = path_qs.partition("?")
    found = _PATH.fullmatch(path)
    if found is None:
        assert path == "/version" or re.fullmatch(r"/apis/[\w.-]+(/v\w+)?", path), path
        return None
    resource = found["resource"] + (f"/{found['part']}" if found["part"] else "")
    seeing = "get" if found["name"] else "watch" if "watch=1" in query else "list"
    return _VERBS.get(method, seeing), found["group"] or "", resource, found["place"] or ""


def table(rights: Iterable[Right], ours: str) -> set[Asked]:
    places = {Scope.CLUSTER: "", Scope.GANGS: ours, Scope.NODE_EVENTS: "default"}
    return {
        (verb, each.group, each.resource, places[each.scope])
        for each in rights
        for verb in each.verbs
    }


async def seen(ours: str) -> set[Asked]:
    """What is asked to see a whole cluster."""
    async with serving() as server:
        cluster, all_watched = Cluster(), asyncio.Event()

        async def answer(request: web.Request) -> web.StreamResponse:
            if sum("watch=1" in path for _, path, _ in server.asked) == len(FOLLOWED):
                all_watched.set()
            return await cluster.answer(request)

        server.answer = answer
        sight = Sight(server.api(), ours, clock=server.clock, chance=random.Random(1))
        running = asyncio.create_task(sight.run())
        async with asyncio.timeout(20):
            await all_watched.wait()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return {each for method, path, _ in server.asked if (each := right_of(method, path))}


async def done(root: Path) -> set[Asked]:
    """What is asked to queue a gang twice, raise it, and withdraw it."""
    DirectoryStore.create(str(root / "store"))
    async with serving() as server:
        stage = Stage(server, Shelf(), DirectoryStore(str(root / "store")))
        assert (await stage.orders.carry_out(make_queue())).is_done
        assert (await stage.anew().carry_out(make_queue())).is_done
        assert stage.shelf.gang() is not None
        assert stage.seen().meta.labels[PRIORITY_LABEL] != "high"
        assert (await stage.orders.raise_priority(stage.seen())).is_done
        assert (await stage.orders.carry_out(make_withdraw())).is_done
        return {each for call in stage.shelf.calls if (each := right_of(*call))}


async def printed() -> set[Asked]:
    """What is asked to read a rank's log."""
    async with serving() as server:
        await read(reading(server, Kubelet()), 0)
        return {each for method, path, _ in server.asked if (each := right_of(method, path))}


async def test_the_table_is_what_is_asked_of_a_cluster(tmp_path: Path) -> None:
    assert NAMESPACE == "training"
    seeing = {
        (verb, group, resource, NAMESPACE if place == OURS else place)
        for verb, group, resource, place in await seen(OURS)
    }
    asked = seeing | await done(tmp_path) | await printed()
    assert asked == table(RIGHTS, NAMESPACE)


def test_who_asks_a_cluster_is_known() -> None:
    # A module that begins to ask is added here together with its rows in the table.
    asking = {
        path
        for path in written_files(".py")
        if path.startswith(("regions/kueue/", "regions/gcp/"))
        and re.search(r"api\.(?:ask|lines|pieces)\(", text_of(path))
    }
    for_the_broker = {"apart", "checkup", "cluster", "discovery", "logs", "orders", "program"}
    for_the_broker |= {"recalling", "source"}
    for_who_sets_up = {"setting_up", "taking_back"}
    known = {f"regions/kueue/{name}.py" for name in for_the_broker | for_who_sets_up}
    assert asking - known == set()
    assert "regions/kueue/orders.py" in asking


def test_no_right_is_held_to_secrets_or_to_what_would_give_more_of_them() -> None:
    assert {each.resource for each in RIGHTS} & {
        "secrets", "serviceaccounts", "roles", "rolebindings", "clusterroles",
        "clusterrolebindings", "pods/exec", "pods/attach", "nodes/proxy",
    } == set()  # fmt: skip
    changing = {each.resource for each in RIGHTS if set(each.verbs) - {"get", "list", "watch"}}
    assert changing == {"jobsets", "configmaps", "networkpolicies"}
    assert {each.scope for each in RIGHTS if each.resource in changing} == {Scope.GANGS}


def test_where_others_pods_are_not_to_be_seen_ours_are() -> None:
    narrow = granted(RIGHTS, with_pods_of_others=False)
    assert table(RIGHTS, "ours") - table(narrow, "ours") == {
        ("list", "", "pods", ""),
        ("watch", "", "pods", ""),
    }
    assert table(narrow, "ours") - table(RIGHTS, "ours") == {
        ("list", "", "pods", "ours"),
        ("watch", "", "pods", "ours"),
    }


def test_rules_hold_every_right_of_their_scope_and_no_other() -> None:
    for scope in Scope:
        held = {
            (verb, group, resource)
            for rule in rules(RIGHTS, scope)
            for verb in rule["verbs"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        }
        wanted = {
            (verb, each.group, each.resource)
            for each in RIGHTS
            if each.scope is scope
            for verb in each.verbs
        }
        assert held == wanted


def test_each_right_says_what_it_is_for() -> None:
    for each in RIGHTS:
        assert each.purpose
        assert each.loss
        assert not each.sentence().endswith(".")
