"""A server of one test, on this machine: whatever is asked, the test says what it answers."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web
from aiohttp.test_utils import TestServer

from regions.kueue.access import Api, Deadlines
from regions.kueue.credentials import Credentials, Endpoint
from tests.unit.regions.kueue.clocks import StepClock

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """A server whose answer each test says, and that keeps what it was asked."""

    def __init__(self) -> None:
        self.clock = StepClock()
        self.asked: list[tuple[str, str, str]] = []
        self.answer: Handler = self.fine
        self.address = ""
        self.deadlines = Deadlines()
        self._apis: list[Api] = []

    def api(self, credentials: Credentials | None = None) -> Api:
        async def token() -> str:
            return "secret"

        own = Endpoint(host=self.address, ca_pem="", token=token)
        self._apis.append(Api(credentials or own, self.clock, self.deadlines))
        return self._apis[-1]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "")
        self.asked.append((request.method, request.path_qs, token))
        return await self.answer(request)

    async def fine(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=await request.read() or b"{}")

    async def close(self) -> None:
        for api in self._apis:
            await api.close()


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    found = Server()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", found.handle)
    async with TestServer(app) as running:
        found.address = str(running.make_url("")).rstrip("/")
        yield found
        await found.close()
