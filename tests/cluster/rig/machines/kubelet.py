"""What the kubelets of a region's nodes do, for all of its nodes in one place.

The rule: the API server's list is the wish, what runs is the truth, and each look brings one to the
other; an event that was missed is made good by the next list. Read ``Kubelet.see``.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from typing import Any

from tests.cluster.rig.machines.api import Object, RefusedError
from tests.cluster.rig.machines.pod import Pod
from tests.cluster.rig.machines.recipe import Surroundings

PODS = "/api/v1/pods"
OVER = ("Succeeded", "Failed")
SHUTDOWN = "Pod was terminated in response to imminent node shutdown."


class Kubelet:
    """The pods of a region as processes."""

    def __init__(self, shared: Surroundings) -> None:
        self._api = shared.api
        self.shared = shared
        self.pods: dict[str, Pod] = {}
        self.dead_nodes: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._leaving: set[str] = set()

    def see(self, kind: str, seen: Object) -> None:
        """Take note of a change to a pod, or of the list of all."""
        if kind == "LISTED":
            there = {pod["metadata"]["uid"] for pod in seen["items"]}
            for uid in self.pods.keys() - there:
                self._gone(uid)
            for pod in seen["items"]:
                self._is_wanted(pod)
        elif kind == "DELETED":
            self._gone(seen["metadata"]["uid"])
        else:
            self._is_wanted(seen)

    def find(self, namespace: str, name: str) -> Pod | None:
        """Return the newest pod of that name, running or over."""
        named = [
            p
            for p in self.pods.values()
            if (p.meta["namespace"], p.meta["name"]) == (namespace, name)
        ]
        return named[-1] if named else None

    def lose_node(self, node: str) -> None:
        """A node is gone with all its processes, and tells nobody."""
        self.dead_nodes.add(node)
        for pod in self.pods.values():
            if pod.node == node:
                pod.vanish()

    async def shut_down_node(self, node: str, notice_s: float) -> None:
        """A node is told that it ends: its pods are, too; return when they are over."""
        ended = [p for p in self.pods.values() if p.node == node and not p.is_over]
        for pod in ended:
            pod.end(notice_s, SHUTDOWN)
        await asyncio.gather(*(pod.over.wait() for pod in ended))

    def _is_wanted(self, seen: Object) -> None:
        meta, node = seen["metadata"], seen["spec"].get("nodeName")
        if not node or node in self.dead_nodes:
            return
        pod = self.pods.get(meta["uid"])
        if meta.get("deletionTimestamp"):
            if pod is not None:
                pod.end(meta.get("deletionGracePeriodSeconds"))
            self._leave(seen)
        elif pod is None and seen.get("status", {}).get("phase") not in OVER:
            pod = self.pods[meta["uid"]] = Pod(self.shared, seen)
            self._begin(pod.run())

    def _leave(self, seen: Object) -> None:
        uid = seen["metadata"]["uid"]
        if uid not in self._leaving:
            self._leaving.add(uid)
            self._begin(self._let_go(seen))

    async def _let_go(self, seen: Object) -> None:
        """Remove a pod's object once nothing of it runs and its last status was told."""
        meta = seen["metadata"]
        pod = self.pods.get(meta["uid"])
        while pod is not None and not (pod.is_over and pod.is_told):
            if pod.node in self.dead_nodes:
                self._leaving.discard(meta["uid"])
                return
            await asyncio.sleep(0.02)
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        await self._api.persist("DELETE", path, body)
        self._leaving.discard(meta["uid"])

    def _gone(self, uid: str) -> None:
        pod = self.pods.get(uid)
        if pod is None:
            return
        if not pod.is_over:
            pod.vanish()
        if pod.node not in self.dead_nodes:
            del self.pods[uid]
            pod.forget()

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            if not isinstance(error, RefusedError):
                traceback.print_exception(error, file=sys.stderr)
