"""A gRPC server whose every call comes in by one door.

The rule: no method is registered with gRPC by name. The aio server keeps a task for each that is,
and at every call asyncio waits for all of them anew: with some forty methods a call cost half as
much again, whichever it was. Found by its name when it comes, a method costs two look-ups.
"""

from collections.abc import Iterable, Mapping

import grpc
import grpc.aio


class OneDoor(grpc.aio.Server):
    """Another server, but for the registration of methods, which it leaves out."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(
        self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]
    ) -> None:
        """Serve methods that are found by name. Generated code calls this, and then the next."""
        self._server.add_generic_rpc_handlers(tuple(generic_rpc_handlers))

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, object]
    ) -> None:
        """Do nothing: these are the methods that were just added."""

    def add_insecure_port(self, address: str) -> int:
        """Listen on an address; return its port."""
        return self._server.add_insecure_port(address)

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        """Listen on an address with credentials; return its port."""
        return self._server.add_secure_port(address, server_credentials)

    async def start(self) -> None:
        """Begin to serve."""
        await self._server.start()

    async def stop(self, grace: float | None) -> None:
        """Take no more calls; those that are open have ``grace`` seconds."""
        await self._server.stop(grace)

    async def wait_for_termination(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Return once it has stopped, True, or after ``timeout`` seconds, False."""
        return await self._server.wait_for_termination(timeout)
