"""What the machines answer to: the API server's log calls, and a test's orders.

The rule: orders need the admin's token, for the port is open to whoever is on this machine.
Read ``routes``.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from tests.cluster.rig.machines.cloud import Cloud
from tests.cluster.rig.machines.flex import Flex
from tests.cluster.rig.machines.kubelet import Kubelet
from tests.cluster.rig.machines.output import read, read_query
from tests.cluster.rig.machines.pools import Pool

IMAGE_ERRORS = {
    "not-found": 'failed to pull and unpack image "{0}": failed to resolve reference "{0}":'
    " {0}: not found",
    "no-right": 'failed to pull and unpack image "{0}": failed to resolve reference "{0}":'
    " failed to authorize: failed to fetch oauth token: unexpected status: 403 Forbidden",
    "wrong-architecture": 'failed to pull and unpack image "{0}": no match for platform in'
    " manifest: not found",
}


class Control:
    """The HTTP side of a region's machines."""

    def __init__(self, kubelet: Kubelet, cloud: Cloud, flex: Flex, token: str) -> None:
        self._kubelet = kubelet
        self._cloud = cloud
        self._flex = flex
        self._token = token

    def routes(self) -> list[web.RouteDef]:
        """Return what is answered."""
        return [
            web.get("/containerLogs/{namespace}/{pod}/{container}", self.logs),
            web.get("/rig/state", self.state),
            web.post("/rig/pools", self.set_pool),
            web.post("/rig/pools/{pool}", self.change_pool),
            web.post("/rig/pools/{pool}/nodes", self.add_nodes),
            web.post("/rig/nodes/remove", self.remove_nodes),
            web.post("/rig/nodes/{node}/lose", self.lose_node),
            web.post("/rig/nodes/{node}/remove", self.remove_node),
            web.post("/rig/nodes/{node}/preempt", self.preempt_node),
            web.post("/rig/images", self.images),
            web.post("/rig/pods/{namespace}/{pod}/out-of-memory", self.out_of_memory),
            web.post("/rig/requests/{namespace}/{name}/revoke", self.revoke),
        ]

    @web.middleware
    async def guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Let orders through from those who hold the admin's token."""
        is_order = request.path.startswith("/rig/")
        if is_order and request.headers.get("Authorization") != f"Bearer {self._token}":
            return web.json_response({"message": "not yours"}, status=403)
        answer: web.StreamResponse = await handler(request)
        return answer

    async def logs(self, request: web.Request) -> web.StreamResponse:
        """Answer as a kubelet does: kept output, and what comes as long as it is asked for."""
        asked = request.match_info
        pod = self._kubelet.find(asked["namespace"], asked["pod"])
        container = pod.container(asked["container"]) if pod else None
        if pod is None or container is None or pod.node in self._kubelet.dead_nodes:
            return web.Response(status=404, text="no such container")
        log = pod.log_of(container.name)
        if not log.exists():
            return web.Response(status=400, text=f"container {container.name!r} is not started")
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await answer.prepare(request)
        query = read_query(request.query, datetime.now(UTC))

        def is_over() -> bool:
            return pod.is_over or container.exit_code is not None

        try:
            async for part in read(log, query, is_over):
                await answer.write(part)
        except ConnectionError:
            pass  # who listened went away
        return answer

    async def state(self, _: web.Request) -> web.Response:
        """Return the pools, the nodes that are dead, and the pods' names."""
        return web.json_response(
            {
                "pools": {p.name: dataclasses.asdict(p) for p in self._cloud.pools.values()},
                "dead_nodes": sorted(self._kubelet.dead_nodes),
                "pods": {uid: pod.meta["name"] for uid, pod in self._kubelet.pods.items()},
            }
        )

    async def set_pool(self, request: web.Request) -> web.Response:
        """Make a node pool, or put its fields back to what is said."""
        pool = Pool(**await request.json())
        before = self._cloud.pools.get(pool.name)
        pool.made = before.made if before else 0
        self._cloud.pools[pool.name] = pool
        return web.json_response({})

    async def change_pool(self, request: web.Request) -> web.Response:
        """Change fields of a node pool."""
        pool = self._cloud.pools[request.match_info["pool"]]
        for name, value in (await request.json()).items():
            setattr(pool, name, value)
        return web.json_response({})

    async def add_nodes(self, request: web.Request) -> web.Response:
        """Make nodes of a pool at once, whatever its supply."""
        pool = self._cloud.pools[request.match_info["pool"]]
        body = await request.json()
        return web.json_response({"nodes": await self._cloud.add_nodes(pool, body["count"])})

    async def lose_node(self, request: web.Request) -> web.Response:
        """Kill a node and everything on it; nobody is told."""
        await self._cloud.lose_node(request.match_info["node"])
        return web.json_response({})

    async def remove_node(self, request: web.Request) -> web.Response:
        """Kill a node, and remove its object."""
        await self._cloud.remove_node(request.match_info["node"])
        return web.json_response({})

    async def remove_nodes(self, _: web.Request) -> web.Response:
        """Kill all nodes, and remove their objects."""
        for name in list(self._cloud.nodes):
            await self._cloud.remove_node(name)
        return web.json_response({})

    async def preempt_node(self, request: web.Request) -> web.Response:
        """End a node as a spot machine ends; answers once it is gone."""
        notice_s = float((await request.json())["notice_s"])
        await self._cloud.preempt_node(request.match_info["node"], notice_s)
        return web.json_response({})

    async def images(self, request: web.Request) -> web.Response:
        """Say how pulls of images with some beginnings fail; an empty word heals."""
        for beginning, error in (await request.json()).items():
            if error:
                words = IMAGE_ERRORS.get(error, error).format(beginning)
                self._kubelet.shared.refused_images[beginning] = words
            else:
                self._kubelet.shared.refused_images.pop(beginning, None)
        return web.json_response({})

    async def out_of_memory(self, request: web.Request) -> web.Response:
        """Kill the containers of a pod as the kernel does when memory runs out."""
        pod = self._kubelet.find(request.match_info["namespace"], request.match_info["pod"])
        if pod is None:
            return web.json_response({"message": "no such pod"}, status=404)
        pod.run_out_of_memory()
        return web.json_response({})

    async def revoke(self, request: web.Request) -> web.Response:
        """Take back the capacity of a ProvisioningRequest."""
        await self._flex.revoke(request.match_info["namespace"], request.match_info["name"])
        return web.json_response({})
