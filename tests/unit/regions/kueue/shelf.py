"""A shelf of objects in the place of an API server, and orders that are carried out on it."""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp import web

from regions.cluster import EpochKey, Grant, Queue, Withdraw
from regions.kueue import names
from regions.kueue.objects.job_set import JobSet, read_job_set
from regions.kueue.objects.reading import Fields
from regions.kueue.orders import Orders
from regions.kueue.site import Site
from regions.launcher.store import DirectoryStore
from regions.store_orders import StoreOrders
from tests.unit.regions.kueue.making import PACKED, make_queue, make_site
from tests.unit.regions.kueue.servers import Server, serving

Json = dict[str, Any]
NAMESPACE = "training"
GANGS = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
POLICIES = f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies"
CLASSES = {"waiting": -1000, "low": 100, "high": 300}


class Shelf:
    """Objects by path, as an API server keeps them; a test says what goes wrong, by its path."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.calls: list[tuple[str, str]] = []
        self.failing: dict[tuple[str, str], tuple[int, str]] = {}
        self.are_kept = False
        self.uids = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        where, method = request.path, request.method
        self.calls.append((method, where))
        failing = self.failing.get((method, where))
        if failing is not None:
            return web.json_response({"message": failing[1]}, status=failing[0])
        body = json.loads(await request.read() or b"{}")
        if method == "POST":
            return self._create(f"{where}/{body['metadata']['name']}", body)
        found = self.objects.get(where)
        if found is None:
            return web.json_response({"message": "not found"}, status=404)
        if method == "DELETE":
            return self._delete(where, found, body["preconditions"])
        if method == "PATCH":
            assert request.content_type == "application/merge-patch+json"
            found["metadata"]["labels"] |= body["metadata"]["labels"]
        return web.json_response(found)

    def _create(self, where: str, body: Json) -> web.Response:
        if where in self.objects:
            return web.json_response({"message": "exists"}, status=409)
        self.uids += 1
        body["metadata"] |= {"uid": f"uid-{self.uids}", "resourceVersion": "1"}
        self.objects[where] = body
        return web.json_response(body, status=201)

    def _delete(self, where: str, found: Json, preconditions: Json) -> web.Response:
        meta = found["metadata"]
        if any(meta[name] != value for name, value in preconditions.items()):
            return web.json_response({"message": "precondition failed"}, status=409)
        if self.are_kept:
            meta["deletionTimestamp"] = "2026-11-01T00:00:00Z"
        else:
            del self.objects[where]
        return web.json_response(found)

    def gang(self, placement: str = "") -> Json | None:
        name = names.jobset_name(placement or make_queue().placement)
        return self.objects.get(f"{GANGS}/{name}")

    def has(self, uid: str) -> bool:
        return any(each["metadata"].get("uid") == uid for each in self.objects.values())


class Stage:
    """Orders on a shelf and a store."""

    def __init__(self, server: Server, shelf: Shelf, store: DirectoryStore) -> None:
        self.shelf = shelf
        self.store = store
        self.site: Site | Exception = make_site(priority_classes=CLASSES)
        self.server = server
        server.answer = shelf.answer
        self.orders = self.anew()

    def anew(self) -> Orders:
        """The orders of a broker that starts anew, and remembers nothing."""
        return Orders(
            self.server.api(),
            StoreOrders(self.store, 5.0),
            self.server.clock,
            namespace=NAMESPACE,
            packed=PACKED,
            site_of=self._site_of,
            classes=lambda: CLASSES,
            is_there=self.shelf.has,
            is_empty=lambda _: True,
        )

    def _site_of(self, _: Queue) -> Site:
        if isinstance(self.site, Exception):
            raise self.site
        return self.site

    def seen(self) -> JobSet:
        return read_job_set(Fields(self.shelf.gang()), "")


@contextlib.asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    """Set a stage, with its store in a folder."""
    DirectoryStore.create(str(folder / "store"))
    async with serving() as server:
        yield Stage(server, Shelf(), DirectoryStore(str(folder / "store")))


def make_withdraw(uid: str = "", **changes: Any) -> Withdraw:
    queue = make_queue()
    order = Withdraw(
        placement=queue.placement, run_key=queue.run_key, uid=uid, epoch=None, is_closed=False
    )
    return replace(order, **changes)


def make_grant(nonce: str = "0123456789ab") -> Grant:
    queue = make_queue()
    return Grant(
        placement=queue.placement,
        epoch=EpochKey(run_key=queue.run_key, number=1, nonce=nonce),
        incarnation=1,
        world_size=2,
        resume_path=None,
        bundle_digest="",
        seals=(),
    )
