"""HTTP to registries: one request, one answer, and an end to everything.

The rule: each wait has a bound, each body a limit, no redirect is followed here, no cookie is kept
and nothing is unpacked, for digests are of what was sent. What the client library says in an error
is not repeated: it holds addresses, and those may hold signatures. Read ``Wire.ask`` first.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from yarl import URL

from replicator.errors import RegistryRefused, RegistryUnreachable, TooLarge

Body = bytes | AsyncIterator[bytes]
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

    ``within_s`` is for the whole of it. What has a body says its length in its headers, and is given
    ``silence_s`` for each of its pieces instead, and ``commit_s`` for its answer.
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

        Raises RegistryUnreachable when there is no answer, or not to its end, within the bound.
        """
        name = request.name
        body = _in_pieces(request.body) if isinstance(request.body, bytes) else request.body
        try:
            async with asyncio.timeout(request.within_s) as limit:
                if body is not None:
                    body = self._paced(body, limit)
                async with self._session.request(
                    request.method,
                    request.url,
                    data=body,
                    headers=request.headers,
                    allow_redirects=False,
                ) as answer:
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


@asynccontextmanager
async def open_wire(bounds: Bounds) -> AsyncIterator[Wire]:
    """Hold the connections to registries for as long as the block lasts."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, limit_per_host=0),
        timeout=aiohttp.ClientTimeout(
            total=None, sock_connect=bounds.connect_s, sock_read=bounds.silence_s
        ),
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


def _kind(error: aiohttp.ClientError) -> str:
    """Return what is safe to say of a broken line: its kind, and the system's own words."""
    reason = error.strerror if isinstance(error, OSError) else None
    return f"{type(error).__name__}, {reason}" if reason else type(error).__name__
