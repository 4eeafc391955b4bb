"""Ways for the registries of a town to lie, and what is seen of it."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from tests.fakes.registry import digest_of
from tests.unit.replicator.oci.registries import THERE, Town

LAYER = bytes(range(256)) * (1 << 12) * 5  # 5 MiB
DIGEST = digest_of(LAYER)
LARGE = LAYER * 3

Answer = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


def lying(there: Town, part: str, answer: Answer, *, times: int = 1_000, method: str = "") -> None:
    """Have the source answer so to GETs of paths with this in them; the destination to others."""
    left = times

    async def lie(request: web.Request) -> web.StreamResponse | None:
        nonlocal left
        is_it = part in request.path and request.method == (method or "GET")
        if not is_it or left == 0:
            return None
        left -= 1
        return await answer(request)

    (there.there if method else there.here).lie = lie


async def stream(
    request: web.Request, content: bytes, status: int = 200, **headers: str
) -> web.StreamResponse:
    """Send headers, and then what may not be what they promise."""
    response = web.StreamResponse(
        status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    await response.prepare(request)
    await response.write(content)
    return response


async def cut(request: web.Request) -> None:
    """Break the line."""
    assert request.transport is not None
    request.transport.abort()
    await asyncio.Event().wait()


def nothing_came(there: Town) -> bool:
    """Whether the destination has neither the layer nor any manifest."""
    return (THERE, DIGEST) not in there.there.blobs and not there.there.manifests
