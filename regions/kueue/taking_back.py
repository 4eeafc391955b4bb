"""What was set up in a member cluster, taken back.

The rule: only what bears our label goes, by its uid; nothing while a gang of ours is there; a
namespace only when all that it holds is ours, and came to be with it or with its owner. What cannot
be looked at counts as somebody's. Read ``survey`` first.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

from regions.kueue import names
from regions.kueue.access import Api
from regions.kueue.bootstrap import Object, is_ours, member_of, name_of
from regions.kueue.clock import Clock
from regions.kueue.discovery import Served, path
from regions.kueue.errors import BrokenError, ClusterError, ConflictError, MissingError
from regions.kueue.manifest import JOBSET_API
from regions.kueue.objects import kinds
from regions.kueue.rights import NODE_EVENTS, RBAC
from regions.kueue.setting_up import find, read

SELECTOR = f"{names.MANAGED_BY}={names.MANAGER},{names.PART}={names.MEMBER_PART}"
GONE_WITHIN_S = 60.0
LOOK_S = 1.0
PAGE = 100
MOST_PAGES = 1_000
_BY_ITSELF = frozenset(
    {
        # What a cluster puts into each namespace, or keeps beside something else.
        ("configmaps", "kube-root-ca.crt"),
        ("serviceaccounts", "default"),
        ("resourcequotas", "gke-resource-quotas"),
    }
)
_FOLLOWING = frozenset({"events", "endpoints", "endpointslices"})
_VIEWS = frozenset({"metrics.k8s.io", "visibility.kueue.x-k8s.io"})
"""Groups whose objects are views of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An object that is there. ``left``: why it stays, empty when it goes."""

    path: str
    uid: str
    name: str
    left: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is there of ours. ``refused``: why nothing is taken back, empty when it can be.

    ``found`` is in the order in which it is removed.
    """

    refused: tuple[str, ...]
    found: tuple[Found, ...]


async def survey(api: Api, served: Served, namespace: str, account_namespace: str) -> Left:
    """Look at what is there of a member with these namespaces. Raises ClusterError."""
    gangs = [
        each
        for each in await _all(api, f"/apis/{JOBSET_API}/namespaces/{namespace}/jobsets")
        if _labels(each).get(names.MANAGED_BY) == names.MANAGER
    ]
    alive = [each for each in gangs if _is_alive(each)]
    if alive:
        said = (f"{each['metadata']['name']} {_whose(each)}".strip() for each in alive)
        refused = (f"gangs of the broker are there: {', '.join(said)}", "drain them first")
        return Left(refused=refused, found=())
    others = await _other_members(api, namespace)
    found = [_gang(each, namespace) for each in gangs]
    found += await _launchers(api, namespace)
    found += await _queues(api, served, namespace)
    rbac = f"/apis/{RBAC}/v1"
    for where in (
        f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies",
        f"{rbac}/namespaces/{namespace}/rolebindings",
        f"{rbac}/namespaces/{namespace}/roles",
        f"{rbac}/namespaces/{NODE_EVENTS}/rolebindings",
        f"{rbac}/namespaces/{NODE_EVENTS}/roles",
        f"{rbac}/clusterrolebindings",
        f"{rbac}/clusterroles",
    ):
        found += [_found(where, each) for each in await _set_up(api, where, namespace)]
    found += await _shared(api, served, account_namespace, others)
    found += await _namespaces(api, namespace, account_namespace, others)
    return Left(refused=(), found=tuple(found))


async def remove(api: Api, left: Left, clock: Clock) -> AsyncIterator[tuple[Found, str]]:
    """Remove what goes; yield each object with what became of it.

    At last those that are not gone within a minute are told once more. Raises ClusterError.
    """
    assert not left.refused
    going = [each for each in left.found if not each.left]
    for each in going:
        yield each, await _remove(api, each)
    until_s = clock.monotonic_s() + GONE_WITHIN_S
    while going := [each for each in going if await _is_there(api, each)]:
        if clock.monotonic_s() >= until_s:
            for each in going:
                yield each, "is still on its way out"
            return
        await clock.pause(LOOK_S)


async def _remove(api: Api, found: Found) -> str:
    body = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": found.uid},
    }
    try:
        await api.ask("DELETE", found.path, body=body)
    except MissingError:
        return "was gone already"
    except ConflictError:
        return "is another object by now, and stays"
    return "removed"


async def _is_there(api: Api, found: Found) -> bool:
    there = await find(api, found.path)
    return there is not None and there["metadata"].get("uid") == found.uid


# ---- what is there ----


async def _all(api: Api, where: str, selector: str = "") -> list[Object]:
    """Return all objects of a list; none where the kind is not served. Raises ClusterError."""
    found: list[Object] = []
    query = {"limit": str(PAGE)} | ({"labelSelector": selector} if selector else {})
    for _ in range(MOST_PAGES):
        try:
            page = read(await api.ask("GET", where, query=query))
        except MissingError:
            if "continue" in query:
                raise
            return found
        if "items" not in page:
            # Taken for an empty list it would show that no gang is there.
            raise BrokenError(f"{where} answers with no list")
        kind = str(page.get("kind", "")).removesuffix("List")
        found += ({"kind": kind, **each} for each in page["items"] or ())
        token = (page.get("metadata") or {}).get("continue")
        if not token:
            return found
        query = {**query, "continue": token}
    raise BrokenError(f"{where} is a list of more than {MOST_PAGES} pages")


async def _set_up(api: Api, where: str, namespace: str) -> list[Object]:
    return [each for each in await _all(api, where, SELECTOR) if member_of(each) == namespace]


async def _other_members(api: Api, namespace: str) -> list[str]:
    """Return the other namespaces of this cluster that were set up."""
    roles = await _all(api, f"/apis/{RBAC}/v1/clusterroles", SELECTOR)
    return sorted({member_of(each) for each in roles} - {namespace, ""})


async def _launchers(api: Api, namespace: str) -> list[Found]:
    where = f"/api/v1/namespaces/{namespace}/configmaps"
    part = f"{names.MANAGED_BY}={names.MANAGER},{names.PART}={names.LAUNCHER_PART}"
    return [_found(where, each) for each in await _all(api, where, part)]


async def _queues(api: Api, served: Served, namespace: str) -> list[Found]:
    locals_at = _path(served, kinds.LOCAL_QUEUES, namespace)
    everywhere = await _all(api, _path(served, kinds.LOCAL_QUEUES)) if locals_at else []
    ours = await _set_up(api, locals_at, namespace) if locals_at else []
    found = [_found(locals_at, each) for each in ours]
    gone = {each.uid for each in found}
    where = _path(served, kinds.CLUSTER_QUEUES)
    for each in await _set_up(api, where, namespace) if where else ():
        users = [
            f"{one['metadata']['namespace']}/{one['metadata']['name']}"
            for one in everywhere
            if one.get("spec", {}).get("clusterQueue") == each["metadata"]["name"]
            and one["metadata"].get("uid") not in gone
        ]
        left = f"LocalQueue {', '.join(users)} leads to it" if users else ""
        found.append(_found(where, each, left))
    return found


async def _shared(
    api: Api, served: Served, account_namespace: str, others: list[str]
) -> list[Found]:
    """Return what all members of the cluster share: it goes with the last of them."""
    left = f"{', '.join(others)} of this cluster needs it" if others else ""
    found: list[Found] = []
    for where in (
        _path(served, kinds.PRIORITY_CLASSES),
        f"/api/v1/namespaces/{account_namespace}/serviceaccounts",
    ):
        if where:
            found += [_found(where, each, left) for each in await _all(api, where, SELECTOR)]
    return found


def _path(served: Served, kind: kinds.Kind[Any], namespace: str = "") -> str:
    version = served.version(kind)
    return path(kind, version, namespace) if version is not None else ""


# ---- namespaces ----


async def _namespaces(
    api: Api, namespace: str, account_namespace: str, others: list[str]
) -> list[Found]:
    found: list[Found] = []
    for name in dict.fromkeys((namespace, account_namespace)):
        there = await find(api, f"/api/v1/namespaces/{name}")
        if there is None or not is_ours(there):
            continue
        left = ""
        if name != namespace and others:
            left = f"{', '.join(others)} of this cluster needs it"
        else:
            strangers = await _strangers(api, name)
            if strangers:
                more = f" and {len(strangers) - 5} more" if len(strangers) > 5 else ""
                left = f"it holds what is not ours: {', '.join(strangers[:5])}{more}"
        found.append(_found("/api/v1/namespaces", there, left))
    return found


async def _strangers(api: Api, namespace: str) -> list[str]:
    """Return what a namespace holds that is neither ours nor there by itself."""
    found: list[str] = []
    for root, resource in await _listable(api):
        where = f"{root}/namespaces/{namespace}/{resource}"
        try:
            there = await _all(api, where)
        except ClusterError as error:
            found.append(f"{resource}, which cannot be looked at ({error})")
            continue
        found += [
            f"{resource}/{each['metadata']['name']}"
            for each in there
            if not _comes_along(resource, each)
        ]
    return found


def _comes_along(resource: str, each: Object) -> bool:
    meta = each["metadata"]
    return (
        _labels(each).get(names.MANAGED_BY) == names.MANAGER
        or bool(meta.get("ownerReferences"))
        or (resource, meta["name"]) in _BY_ITSELF
    )


async def _listable(api: Api) -> list[tuple[str, str]]:
    """Return where objects can stand in a namespace: the root of their API, and their plural."""
    groups = (await _told(api, "/apis")).get("groups") or ()
    wanted = [each for each in groups if each["name"] not in _VIEWS]
    roots = ["/api/v1", *(f"/apis/{each['preferredVersion']['groupVersion']}" for each in wanted)]
    told = await asyncio.gather(*(_told(api, root) for root in roots))
    return [
        (root, each["name"])
        for root, there in zip(roots, told, strict=True)
        for each in there.get("resources") or ()
        if each.get("namespaced")
        and "list" in each.get("verbs", ())
        and each["name"] not in _FOLLOWING
    ]


async def _told(api: Api, where: str) -> Object:
    """Return what a cluster says that it serves; that it says nothing is no answer."""
    there = await find(api, where)
    if there is None:
        raise BrokenError(f"{where} is not there: nobody knows what a namespace holds")
    return there


# ---- what an object says ----


def _found(where: str, each: Object, left: str = "") -> Found:
    meta = each["metadata"]
    kind = each.get("kind") or where.rpartition("/")[2]  # a list need not say of what it is
    return Found(
        path=f"{where}/{meta['name']}",
        uid=meta["uid"],
        name=name_of({"kind": kind, "metadata": meta}),
        left=left,
    )


def _gang(each: Object, namespace: str) -> Found:
    return _found(f"/apis/{JOBSET_API}/namespaces/{namespace}/jobsets", each)


def _labels(each: Object) -> dict[str, str]:
    return each["metadata"].get("labels") or {}


def _is_alive(each: Object) -> bool:
    """Whether a JobSet of ours is a gang that is not over."""
    if _labels(each).get(names.PART) == names.OCCUPIED_PART:
        return False
    return not (each.get("status") or {}).get("terminalState")


def _whose(each: Object) -> str:
    labels = _labels(each)
    said: Iterable[str] = (labels.get(names.TEAM, ""), labels.get(names.RUN, ""))
    text = "/".join(one for one in said if one)
    return f"({text})" if text else ""
