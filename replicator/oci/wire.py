"""HTTP to registries: one request, one answer, and an end to everything.

The rule: each wait has a bound, each body a limit, no redirect is followed here, no cookie is kept
and nothing is unpacked, for digests are of what was sent. What the client library says in an error
is not repeated: it holds addresses, and those may hold signatures. Read ``Wire.ask`` first.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import aiohttp
from yarl import URL

from replicator.errors import (
    RegistryError,
    RegistryRefused,
    RegistryUnreachable,
    ReplicatorError,
    TooLarge,
)
from replicator.oci.parallel import beside

Body = bytes | AsyncGenerator[bytes, None]
_PIECE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How long is waited. ``call_s`` is for a whole small call, ``silence_s`` between two bytes."""

    connect_s: float = 10.0
    call_s: float = 30.0
    silence_s: float = 60.0
    # A registry over an object store puts the parts of a layer together before it answers.
    commit_s: float = 600.0
    # Who sends less than this for long is silent in a way that silence_s does not see.
    slowest_bytes_per_s: int = 64 << 10

    def transfer_s(self, size_bytes: int) -> float:
        """Return how long so many bytes may take in all, one way."""
        return self.commit_s + size_bytes / self.slowest_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked. ``name`` is what errors call it.

    ``within_s`` is for the whole of it. What has a body says its length in its headers, and is
    given ``silence_s`` for each of its pieces instead, and ``commit_s`` for its answer.
    """

    method: str
    url: URL
    name: str
    headers: Mapping[str, str]
    within_s: float
    body: Body | None = None


class Wire:
    """One pool of connections to all registries: ``async with open_wire(...) as wire``."""

    def __init__(self, session: aiohttp.ClientSession, bounds: Bounds) -> None:
        self._session = session
        self.bounds = bounds

    @asynccontextmanager
    async def ask(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and hand on the answer, whatever its status; its body is still to come.

        Raises what a streamed body raises; RegistryUnreachable when there is no answer, or not to
        its end, within the bound.
        """
        body = request.body
        if body is None or isinstance(body, bytes):
            pieces = None if body is None else _in_pieces(body)
            async with self._asked(request, pieces) as answer:
                yield answer
            return
        stream = Stream(body)
        async with beside(stream.fill()):
            try:
                async with self._asked(request, stream.drain()) as answer:
                    yield answer
            except RegistryError:
                # The client library says that it could not send; why is what the source said.
                if stream.failure is not None:
                    raise stream.failure from None
                raise

    @asynccontextmanager
    async def _asked(
        self, request: Request, pieces: AsyncIterator[bytes] | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        name, bounds = request.name, self.bounds
        silence_s = bounds.silence_s if pieces is None else bounds.commit_s
        try:
            async with (
                asyncio.timeout(request.within_s) as limit,
                self._session.request(
                    request.method,
                    request.url,
                    data=None if pieces is None else self._paced(pieces, limit),
                    headers=request.headers,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(
                        total=None, sock_connect=bounds.connect_s, sock_read=silence_s
                    ),
                ) as answer,
            ):
                yield answer
        except TimeoutError:
            raise RegistryUnreachable(name, "the registry fell silent") from None
        except aiohttp.ClientResponseError:
            raise RegistryRefused(name, "the registry's answer is no HTTP") from None
        except aiohttp.ClientError as error:
            raise RegistryUnreachable(name, f"the line broke: {_kind(error)}") from None

    async def _paced(
        self, body: AsyncIterator[bytes], limit: asyncio.Timeout
    ) -> AsyncIterator[bytes]:
        """Pass a body on, and give up on who does not take it; where it comes from has time."""
        now_s = asyncio.get_running_loop().time
        async for chunk in body:
            limit.reschedule(now_s() + self.bounds.silence_s)
            yield chunk
            limit.reschedule(None)
        limit.reschedule(now_s() + self.bounds.commit_s)


class Stream:
    """A body on its way from where it comes from to the client library, one chunk at a time.

    The library drops a body that it need not send, wherever it stands. What fills this one is
    ours, so that it is ended, and its own connection given back, when the request is.
    """

    def __init__(self, source: AsyncGenerator[bytes, None]) -> None:
        self.failure: ReplicatorError | None = None
        self._source = source
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)

    async def fill(self) -> None:
        """Take chunks from the source until it ends, or fails."""
        try:
            async with aclosing(self._source) as chunks:
                async for chunk in chunks:
                    await self._queue.put(chunk)
        except ReplicatorError as error:
            self.failure = error
        await self._queue.put(None)

    async def drain(self) -> AsyncIterator[bytes]:
        """Yield the chunks. Raises what the source raised."""
        while (chunk := await self._queue.get()) is not None:
            yield chunk
        if self.failure is not None:
            raise self.failure


@asynccontextmanager
async def open_wire(bounds: Bounds) -> AsyncIterator[Wire]:
    """Hold the connections to registries for as long as the block lasts."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, limit_per_host=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        headers={"Accept-Encoding": "identity", "User-Agent": "capacity-broker"},
    ) as session:
        yield Wire(session, bounds)


async def whole(answer: aiohttp.ClientResponse, name: str, limit_bytes: int) -> bytes:
    """Return a small answer's body. Raises TooLarge when it does not end within the limit."""
    content = bytearray()
    while chunk := await answer.content.readany():
        content += chunk
        if len(content) > limit_bytes:
            raise TooLarge(name, f"the registry sends more than {limit_bytes} bytes for it")
    return bytes(content)


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    """Yield a body in pieces, for whoever takes them one by one is not silent meanwhile."""
    for at in range(0, len(body), _PIECE_BYTES):
        yield body[at : at + _PIECE_BYTES]


async def beginning(answer: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    """Return what an answer begins with; the rest of it is left where it is."""
    content = bytearray()
    while len(content) < limit_bytes and (chunk := await answer.content.readany()):
        content += chunk
    return bytes(content)


def _kind(error: aiohttp.ClientError) -> str:
    """Return what is safe to say of a broken line: its kind, and the system's own words."""
    reason = error.strerror if isinstance(error, OSError) else None
    return f"{type(error).__name__}, {reason}" if reason else type(error).__name__
