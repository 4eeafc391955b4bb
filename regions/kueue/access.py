"""One client per cluster, and a deadline on everything that is asked.

The rule: nothing is tried twice here, whoever asks looks again; and no request is left to a default
time-out. The official client brings TLS, proxies and credentials. Its models are not used: they
take every object apart and together again, some milliseconds each, and a page has 500. Bytes are
what it hands on. Read ``Api.ask`` first.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import msgspec
from kubernetes.aio.client import ApiClient

from regions.kueue.clock import Clock, ServerTime
from regions.kueue.credentials import Credentials, Login, identity
from regions.kueue.errors import (
    AccessError,
    BrokenError,
    SilentError,
    UnauthorizedError,
    refusal,
)

REFRESH_S = 60.0
"""How often credentials are looked at; the loaders renew them five minutes before their end."""
RELOAD_S = 5.0
"""At least so long between two readings from the beginning: a plugin whose tokens are refused is
not run for every request."""
MAX_ANSWER_BYTES = 64 << 20
MAX_LINE_BYTES = 16 << 20  # an object has at most 1.5 MB in etcd, and a watch adds little to it

JSON = "application/json"
MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long things may take, in seconds. ``silence_s`` bounds the time in which a watch says
    nothing at all: whoever watches asks the server to end the watch before, and to say so."""

    call_s: float = 10.0
    page_s: float = 60.0
    login_s: float = 30.0
    silence_s: float = 105.0


class Api:
    """One cluster's API server. Made within a running loop."""

    def __init__(
        self,
        credentials: Credentials,
        clock: Clock,
        deadlines: Deadlines = Deadlines(),
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.deadlines = deadlines
        self.time = ServerTime(wall_s)
        self._login = Login(credentials, deadlines.login_s)
        self._clock = clock
        self._entering = asyncio.Lock()
        self._client: ApiClient | None = None
        self._identity: tuple[object, ...] = ()
        self._looked_s = 0.0
        self._is_refused = False

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        within_s: float | None = None,
    ) -> bytes:
        """Put one question and return the whole answer. Raises ClusterError."""
        limit_s = within_s or self.deadlines.call_s
        bounds = aiohttp.ClientTimeout(total=limit_s)
        asked = _Question(method, path, query or {}, body, content_type)
        async with self._answer(asked, bounds) as response:
            return await _whole(response)

    async def lines(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the lines of an answer that goes on, until the server ends it.

        Raises ClusterError; SilentError too when no whole line came for ``silence_s``.
        """
        silence_s = self.deadlines.silence_s
        loop = asyncio.get_running_loop()
        bounds = aiohttp.ClientTimeout(total=None, sock_connect=self.deadlines.call_s)
        asked = _Question("GET", path, query, None, JSON)
        async with self._answer(asked, bounds) as response:
            rest, heard_s = b"", loop.time()
            while chunk := await _chunk(response, heard_s + silence_s):
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > MAX_LINE_BYTES:
                    raise BrokenError(f"a line of more than {MAX_LINE_BYTES} bytes")
                for line in lines:
                    yield line
                if lines:
                    heard_s = loop.time()
            if rest.strip():
                raise BrokenError("the answer ends within a line")

    async def pieces(
        self, path: str, query: Mapping[str, str], silence_s: float
    ) -> AsyncGenerator[bytes, None]:
        """Yield an answer of bytes piece by piece, an empty one first, when it begins.

        Raises ClusterError; SilentError too when nothing came for ``silence_s``.
        """
        loop = asyncio.get_running_loop()
        bounds = aiohttp.ClientTimeout(total=None, sock_connect=self.deadlines.call_s)
        async with self._answer(_Question("GET", path, query, None, JSON), bounds) as response:
            yield b""
            while chunk := await _chunk(response, loop.time() + silence_s):
                yield chunk

    async def close(self) -> None:
        """Let go of all connections; what still waits for an answer gets an error."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    # ---- asking ----

    @asynccontextmanager
    async def _answer(
        self, asked: "_Question", bounds: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a question and hand on the answer to it, unless that is an error."""
        client = await self._enter()
        # A server that accepts and then says nothing would hold a watch for ever.
        within_s = bounds.total or self.deadlines.call_s
        try:
            async with asyncio.timeout(within_s):
                response = await asked.send(client, bounds)
            self.time.hear(response.headers.get("Date", ""))
            try:
                if response.history or 300 <= response.status < 400:
                    # What was asked was not done, whatever the page says that we were sent to.
                    raise BrokenError("the server sends whoever asks elsewhere, as a login would")
                if response.status >= 400:
                    async with asyncio.timeout(within_s):
                        self._refuse(response, await _whole(response))
                yield response
            finally:
                response.close()
        except TimeoutError as error:
            raise SilentError(f"no answer within {within_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise SilentError(f"{error}" or type(error).__name__) from error
        except UnicodeError as error:
            raise AccessError("the server's address cannot be one") from error

    def _refuse(self, response: aiohttp.ClientResponse, body: bytes) -> None:
        """Raise what the server's error means."""
        try:
            told = msgspec.json.decode(body, type=_Status)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            told = _Status(message=body[:200].decode("utf-8", "replace"))
        after = response.headers.get("Retry-After", "")
        after_s = told.details.retry_after_s if told.details is not None else None
        error = refusal(
            response.status,
            told.reason or "",
            told.message or "",
            float(after) if after.isascii() and after.isdigit() else after_s,
        )
        self._is_refused = self._is_refused or isinstance(error, UnauthorizedError)
        raise error

    async def _enter(self) -> ApiClient:
        """Return a client whose credentials hold. Raises AccessError."""
        async with self._entering:
            age_s = self._clock.monotonic_s() - self._looked_s
            if self._client is not None and age_s < (RELOAD_S if self._is_refused else REFRESH_S):
                return self._client
            if self._is_refused:
                self._login.forget()
            try:
                return await self._renew()
            except AccessError:
                # What we have may hold for minutes yet; the server says so when it does not.
                if self._client is None or self._is_refused:
                    raise
                return self._client
            finally:
                self._looked_s = self._clock.monotonic_s()

    async def _renew(self) -> ApiClient:
        configuration = await self._login.refresh()
        found = identity(configuration)
        if self._client is not None and found == self._identity:
            self._client.configuration.api_key = configuration.api_key
        else:
            await self.close()
            try:
                self._client = ApiClient(configuration)
            except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
                raise AccessError(f"the certificates cannot be used: {error}") from error
            self._client.user_agent = "capacity-broker"
            self._identity = found
        self._is_refused = False
        return self._client


@dataclass(frozen=True, slots=True)
class _Question:
    method: str
    path: str
    query: Mapping[str, str]
    body: object
    content_type: str

    async def send(
        self, client: ApiClient, bounds: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Send it and return the answer's head."""
        method, url, headers, body, _ = await client.param_serialize(
            self.method,
            self.path,
            query_params=list(self.query.items()),
            header_params={"Accept": JSON, "Content-Type": self.content_type},
            body=self.body,
            auth_settings=["BearerToken"],
        )
        answer = await client.call_api(method, url, headers, body, _request_timeout=bounds)
        response: aiohttp.ClientResponse = answer.response
        return response


class _Details(msgspec.Struct, frozen=True, kw_only=True):
    retry_after_s: float | None = msgspec.field(name="retryAfterSeconds", default=None)


class _Status(msgspec.Struct, frozen=True, kw_only=True):
    """The server's own word on an error."""

    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    """Read an answer to its end, if that is not too far."""
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise BrokenError(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


async def _chunk(response: aiohttp.ClientResponse, until_s: float) -> bytes:
    """Return what comes next, nothing at the end."""
    try:
        async with asyncio.timeout_at(until_s):
            return await response.content.readany()
    except TimeoutError as error:
        raise SilentError("the watch has been silent for too long") from error
