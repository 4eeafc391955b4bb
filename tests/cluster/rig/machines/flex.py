"""Answers ProvisioningRequests as GKE's queued provisioning does: all nodes of one, or none.

The rule: conditions are added in the order in which GKE shows them (Accepted, then Provisioned or
Failed, then BookingExpired or CapacityRevoked), and a silent cloud adds none. GKE's own controller
is not open; types and reasons are those of the open autoscaler. Read ``Flex.look``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from tests.cluster.rig.machines.api import MERGE, UNANSWERED, Client, Object, RefusedError
from tests.cluster.rig.machines.cloud import Cloud
from tests.cluster.rig.machines.containers import second
from tests.cluster.rig.machines.pools import Pool, fits

REQUESTS = "/apis/autoscaling.x-k8s.io/v1/provisioningrequests"
CLASS = "queued-provisioning.gke.io"
LOOK_S = 0.3


class Flex:
    """The requests of a region and what became of each."""

    def __init__(self, api: Client, cloud: Cloud) -> None:
        self._api = api
        self._cloud = cloud
        self._requests: dict[str, Object] = {}
        self._since: dict[str, float] = {}
        self._booked: dict[str, float] = {}

    def see(self, kind: str, seen: Object) -> None:
        """Take note of a change to a request, or of the list of all."""
        if kind == "LISTED":
            self._requests = {r["metadata"]["uid"]: r for r in seen["items"]}
        elif kind == "DELETED":
            self._requests.pop(seen["metadata"]["uid"], None)
        else:
            self._requests[seen["metadata"]["uid"]] = seen

    async def run(self, stop: asyncio.Event) -> None:
        """Look and act until told to stop."""
        while not stop.is_set():
            for request in list(self._requests.values()):
                with contextlib.suppress(RefusedError, *UNANSWERED):
                    await self.look(request, time.monotonic())
            await asyncio.sleep(LOOK_S)

    async def look(self, request: Object, now: float) -> None:
        """Take a request one step further, if it is time and the pool's orders say so."""
        held = {c["type"]: c["status"] for c in request.get("status", {}).get("conditions", [])}
        if request["spec"]["provisioningClassName"] != CLASS or held.get("Failed") == "True":
            return
        pool, count = await self._asked(request)
        if pool is None:
            words = "no node pool with queued provisioning suits the request"
            await self.add(request, "Failed", "True", "CapacityIsNotFound", words)
            return
        uid = request["metadata"]["uid"]
        waited_s = now - self._since.setdefault(uid, now)
        if held.get("Provisioned") == "True":
            booking_over = now - self._booked.get(uid, now) > (pool.booking_s or float("inf"))
            if booking_over and "BookingExpired" not in held:
                words = "Capacity booking for the provisioning request has expired"
                await self.add(
                    request, "BookingExpired", "True", "CapacityReservationTimeExpired", words
                )
        elif pool.flex == "silent":
            return
        elif "Accepted" not in held:
            await self.add(request, "Accepted", "True", "Accepted", "the request was accepted")
        elif pool.flex == "fail":
            words = pool.flex_message or "Capacity is not found, CA will try to find it later."
            await self.add(request, "Failed", "True", "CapacityIsNotFound", words)
        elif pool.flex == "wait" or waited_s < pool.delay_s:
            words = pool.flex_message or "waiting for resources; no estimate yet"
            await self.add(request, "Provisioned", "False", "CapacityIsNotFound", words)
        elif pool.supply is None or pool.supply >= count:
            pool.take(count)
            await self._cloud.add_nodes(pool, count, request["metadata"]["name"])
            self._booked[uid] = now
            await self.add(request, "Provisioned", "True", "CapacityIsFound", "Capacity is found")

    async def revoke(self, namespace: str, name: str) -> None:
        """Say of a request that its capacity was taken back."""
        for request in list(self._requests.values()):
            meta = request["metadata"]
            if (meta["namespace"], meta["name"]) == (namespace, name):
                words = "the capacity was revoked"
                await self.add(request, "CapacityRevoked", "True", "CapacityRevoked", words)

    async def add(self, request: Object, kind: str, status: str, reason: str, words: str) -> None:
        """Set a condition of a request, unless it says just that already."""
        before = request.get("status", {}).get("conditions", [])
        new = {"type": kind, "status": status, "reason": reason, "message": words}
        if any(all(c.get(key) == value for key, value in new.items()) for c in before):
            return
        new["lastTransitionTime"] = second()
        conditions = [c for c in before if c["type"] != kind] + [new]
        meta = request["metadata"]
        path = f"/apis/autoscaling.x-k8s.io/v1/namespaces/{meta['namespace']}/provisioningrequests"
        body: Object = {
            "metadata": {"resourceVersion": meta["resourceVersion"]},
            "status": {"conditions": conditions},
        }
        found = await self._api.call("PATCH", f"{path}/{meta['name']}/status", body, kind=MERGE)
        self._requests[meta["uid"]] = found

    async def _asked(self, request: Object) -> tuple[Pool | None, int]:
        """Return the pool that suits a request and how many nodes it takes."""
        namespace = request["metadata"]["namespace"]
        suits = [pool for pool in self._cloud.pools.values() if pool.is_queued]
        count = 0
        for pod_set in request["spec"]["podSets"]:
            name = pod_set["podTemplateRef"]["name"]
            template = await self._api.get(f"/api/v1/namespaces/{namespace}/podtemplates/{name}")
            spec = template["template"]["spec"]
            suits = [pool for pool in suits if fits(pool, spec)]
            count += pod_set["count"]
        return (suits[0], count) if suits else (None, 0)
