"""A cloud with an autoscaler, whose supply of machines is a test's to give and to take.

The rule: it does to pods what GKE's autoscaler does, with its events: a scale-up is triggered, and
then the nodes come, come late, come in part, are out of stock, or nothing is heard of them.
Read ``Cloud.look``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from tests.cluster.rig.machines.api import MERGE, UNANSWERED, Client, Object, RefusedError
from tests.cluster.rig.machines.kubelet import Kubelet
from tests.cluster.rig.machines.pools import (
    LIVE_NODE,
    POOL,
    Growth,
    Pool,
    event,
    fits,
    gpus,
    is_unschedulable,
    new_node,
    node_event,
)

LOOK_S = 0.4
RISK = "Pod is at risk of not being scheduled."
TROUBLE = {"stockout": "GCE out of resources", "quota": "GCE quota exceeded"}


class Cloud:
    """The node pools of a region and the nodes in them."""

    def __init__(self, api: Client, region: str, kubelet: Kubelet) -> None:
        self._api = api
        self.region = region
        self.pools: dict[str, Pool] = {}
        self.nodes: dict[str, Object] = {}
        self._kubelet = kubelet
        self._pods: dict[str, Object] = {}
        self._growing: list[Growth] = []
        self._backoff: dict[str, float] = {}
        self._told: set[tuple[str, str, str]] = set()
        self._empty_since: dict[str, float] = {}
        self._ends_at: dict[str, float] = {}

    def see_pod(self, kind: str, seen: Object) -> None:
        """Take note of a change to a pod, or of the list of all."""
        if kind == "LISTED":
            self._pods = {pod["metadata"]["uid"]: pod for pod in seen["items"]}
        elif kind == "DELETED":
            self._pods.pop(seen["metadata"]["uid"], None)
        else:
            self._pods[seen["metadata"]["uid"]] = seen

    def see_node(self, kind: str, seen: Object) -> None:
        """Take note of a change to a node, or of the list of all."""
        if kind == "LISTED":
            self.nodes = {node["metadata"]["name"]: node for node in seen["items"]}
        elif kind == "DELETED":
            self.nodes.pop(seen["metadata"]["name"], None)
        else:
            self.nodes[seen["metadata"]["name"]] = seen

    async def run(self, stop: asyncio.Event) -> None:
        """Look and act until told to stop."""
        while not stop.is_set():
            with contextlib.suppress(RefusedError, *UNANSWERED):
                await self.look(time.monotonic())
            await asyncio.sleep(LOOK_S)

    async def look(self, now: float) -> None:
        """See which pods wait for nodes, which nodes are due, and which are not needed any more."""
        waiting = [pod for pod in self._pods.values() if is_unschedulable(pod)]
        for pool in self.pools.values():
            if pool.is_autoscaled and not pool.is_queued:
                pods = [pod for pod in waiting if fits(pool, pod["spec"])]
                await self._grow(pool, pods, now)
        for growth in [g for g in self._growing if g.due_s <= now]:
            await self._arrive(growth, now)
        await self._end_nodes(now)

    async def add_nodes(self, pool: Pool, count: int, request: str = "") -> list[str]:
        """Make nodes at once, and return their names once they are registered."""
        made = [new_node(pool, self.region, request) for _ in range(count)]
        for node in made:
            name = node["metadata"]["name"]
            await self._api.persist("POST", "/api/v1/nodes", node)
            if pool.max_run_s is not None:
                self._ends_at[name] = time.monotonic() + pool.max_run_s
        return [node["metadata"]["name"] for node in made]

    async def lose_node(self, name: str) -> None:
        """Kill a node with all that runs on it; nobody is told."""
        self._kubelet.lose_node(name)
        labels = {"metadata": {"labels": {LIVE_NODE: "false"}}}
        await self._api.persist("PATCH", node_path(name), labels, kind=MERGE)

    async def remove_node(self, name: str) -> None:
        """Kill a node, and have its object removed as a cloud's controller does."""
        self._kubelet.lose_node(name)
        await self._api.persist("DELETE", node_path(name))

    async def preempt_node(self, name: str, notice_s: float) -> None:
        """End a node as a spot machine ends: its pods are told, then it goes with its object."""
        condition = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
        condition |= {"message": "node is shutting down"}
        words = "Shutdown manager detected shutdown event"
        told = node_event(name, "Shutdown", words)
        await self._api.call("POST", "/api/v1/namespaces/default/events", told)
        labels = {"metadata": {"labels": {LIVE_NODE: "false"}}}
        await self._api.persist("PATCH", node_path(name), labels, kind=MERGE)
        await self._api.persist(
            "PATCH",
            f"{node_path(name)}/status",
            {"status": {"conditions": [condition]}},
            kind="application/strategic-merge-patch+json",
        )
        await self._kubelet.shut_down_node(name, notice_s)
        await asyncio.sleep(LOOK_S)  # the last statuses are told before the machine is gone
        await self.remove_node(name)

    async def _grow(self, pool: Pool, pods: list[Object], now: float) -> None:
        """Order the nodes that pods wait for, or say why not."""
        growing = [g for g in self._growing if g.pool == pool.name]
        coming = sum(g.count for g in growing)
        per_node = max(1, pool.accelerators)
        needed = -(-sum(max(1, gpus(pod["spec"])) for pod in pods) // per_node)
        here = len(self.nodes_of(pool))
        count = min(needed - coming, pool.max_nodes - here - coming)
        if needed <= coming:
            return
        if now < self._backoff.get(pool.name, 0.0):
            await self._tell_all(
                pods, "NotTriggerScaleUp", not_triggered("in backoff after failed scale-up")
            )
        elif count <= 0:
            await self._tell_all(
                pods, "NotTriggerScaleUp", not_triggered("max node group size reached")
            )
        else:
            uids = {pod["metadata"]["uid"] for pod in pods}
            due_s = now + pool.delay_s
            self._growing.append(Growth(pool=pool.name, count=count, due_s=due_s, pods=uids))
            size = f"{here + coming}->{here + coming + count} (max: {pool.max_nodes})"
            words = f"pod triggered scale-up: [{{{pool.group(self.region)} {size}}}]"
            await self._tell_all(pods, "TriggeredScaleUp", words, again=True)

    async def _arrive(self, growth: Growth, now: float) -> None:
        """Bring the nodes that are due, as far as there are any."""
        pool = self.pools[growth.pool]
        if pool.answer == "silent":
            return
        self._growing.remove(growth)
        given = pool.take(growth.count) if pool.answer == "nodes" else 0
        await self.add_nodes(pool, given)
        if given < growth.count:
            self._backoff[pool.name] = now + pool.backoff_s
            trouble = TROUBLE.get(pool.answer, TROUBLE["stockout"])
            words = (
                f"Node scale up in zones {pool.zone} associated with this pod failed: {trouble}."
            )
            pods = [self._pods[uid] for uid in growth.pods if uid in self._pods]
            await self._tell_all(pods, "FailedScaleUp", f"{words} {RISK}", again=True)

    async def _end_nodes(self, now: float) -> None:
        """Remove nodes that stood empty for too long, and end those whose time is over."""
        busy = {pod["spec"].get("nodeName") for pod in self._pods.values() if is_alive(pod)}
        for name, node in list(self.nodes.items()):
            pool = self.pools.get(node["metadata"]["labels"].get(POOL, ""))
            if pool is None or name in self._kubelet.dead_nodes:
                continue
            if now > self._ends_at.get(name, now):
                del self._ends_at[name]
                await self.preempt_node(name, 25.0)
            if name in busy or pool.idle_s is None:
                self._empty_since.pop(name, None)
            elif now - self._empty_since.setdefault(name, now) > pool.idle_s:
                await self.remove_node(name)

    def nodes_of(self, pool: Pool) -> list[Object]:
        """Return the nodes of a pool that live."""
        dead = self._kubelet.dead_nodes
        return [
            node
            for name, node in self.nodes.items()
            if node["metadata"]["labels"].get(POOL) == pool.name and name not in dead
        ]

    async def _tell_all(
        self, pods: list[Object], reason: str, words: str, *, again: bool = False
    ) -> None:
        kind = "Warning" if reason == "FailedScaleUp" else "Normal"
        for pod in pods:
            key = (pod["metadata"]["uid"], reason, words)
            if again or key not in self._told:
                self._told.add(key)
                path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/events"
                await self._api.call("POST", path, event(pod, kind, reason, words))


def not_triggered(why: str) -> str:
    return f"pod didn't trigger scale-up: 1 {why}"


def node_path(name: str) -> str:
    return f"/api/v1/nodes/{name}"


def is_alive(pod: dict[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
