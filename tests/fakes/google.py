"""Google's APIs on this machine: a real grpc.aio server that speaks their protos, for real clients.

The rule: each call takes the next answer of its script, and the last one stays; an answer is a
message, or a status to fail with. ``asked`` holds the requests as they came. Read ``FakeGoogle``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
from google.cloud import billing_v1, container_v1
from google.cloud.billing_v1.services.cloud_catalog.transports import (
    CloudCatalogGrpcAsyncIOTransport,
)
from google.cloud.container_v1.services.cluster_manager.transports import (
    ClusterManagerGrpcAsyncIOTransport,
)

Answer = container_v1.ListClustersResponse | billing_v1.ListSkusResponse | grpc.StatusCode


class FakeGoogle:
    """What Google answers, and what it was asked."""

    def __init__(self) -> None:
        self.listings: list[Answer] = []
        self.pages: dict[str, list[Answer]] = {}
        self.asked: list[Any] = []
        self.fleet: container_v1.ClusterManagerAsyncClient
        self.catalog: billing_v1.CloudCatalogAsyncClient

    async def clusters(self, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        """Answer ListClusters."""
        return await self._next(self.listings, request, context)

    async def skus(self, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        """Answer ListSkus: the page of the token that was sent."""
        script = self.pages.get(request.page_token, [grpc.StatusCode.INVALID_ARGUMENT])
        return await self._next(script, request, context)

    async def _next(
        self, script: list[Answer], request: Any, context: grpc.aio.ServicerContext[Any, Any]
    ) -> Any:
        self.asked.append(request)
        answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, grpc.StatusCode):
            await context.abort(answer, f"the script says {answer.name}")
        return answer


@asynccontextmanager
async def google() -> AsyncIterator[FakeGoogle]:
    """Serve a fake on a port of this machine, with real clients on it."""
    fake = FakeGoogle()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (
            _service(
                "google.container.v1.ClusterManager",
                *("ListClusters", fake.clusters),
                *(container_v1.ListClustersRequest, container_v1.ListClustersResponse),
            ),
            _service(
                "google.cloud.billing.v1.CloudCatalog",
                *("ListSkus", fake.skus),
                *(billing_v1.ListSkusRequest, billing_v1.ListSkusResponse),
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    fake.fleet = container_v1.ClusterManagerAsyncClient(
        transport=ClusterManagerGrpcAsyncIOTransport(channel=channel)
    )
    fake.catalog = billing_v1.CloudCatalogAsyncClient(
        transport=CloudCatalogGrpcAsyncIOTransport(channel=channel)
    )
    try:
        yield fake
    finally:
        await channel.close()
        await server.stop(None)


def _service(
    name: str, method: str, handler: Callable[..., Any], request: Any, response: Any
) -> Any:
    unary = grpc.unary_unary_rpc_method_handler(
        handler,
        request_deserializer=request.deserialize,
        response_serializer=response.serialize,
    )
    return grpc.method_handlers_generic_handler(name, {method: unary})
