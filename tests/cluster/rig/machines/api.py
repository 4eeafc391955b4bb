"""The API server as the machines ask it: plain objects, and a list that is kept up to date.

The rule: machines outlive their API server. A write that is not answered is tried until it is
(``persist``), and a watch that ends or goes silent begins again with a list.

Read ``Client.follow``.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

Object = dict[str, Any]
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
CALL_S = 10.0
WATCH_S = 120
AGAIN_S = 0.5
LINE_BYTES = 4_000_000  # of a watch: an object is at most 1.5 MB


class RefusedError(Exception):
    """The API server said no. ``status`` is HTTP's number."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


UNANSWERED = (aiohttp.ClientError, TimeoutError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the API server is, and who we are."""

    server: str
    token: str
    tls: ssl.SSLContext


def read_kubeconfig(path: Path) -> Access:
    """Return what a kubeconfig of this rig says."""
    config = yaml.safe_load(path.read_text())
    cluster = config["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return Access(
        server=cluster["server"],
        token=config["users"][0]["user"]["token"],
        tls=ssl.create_default_context(cadata=authority),
    )


class Client:
    """Calls to one API server."""

    def __init__(self, access: Access) -> None:
        self._session = aiohttp.ClientSession(
            base_url=access.server,
            headers={"Authorization": f"Bearer {access.token}"},
            connector=aiohttp.TCPConnector(ssl=access.tls, limit=0),
            read_bufsize=LINE_BYTES,
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def get(self, path: str, **query: str) -> Object:
        """Return the object or list at a path."""
        return await self.call("GET", path, query=query)

    async def call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        kind: str = "application/json",
        query: dict[str, str] | None = None,
    ) -> Object:
        """Make one call. Raises RefusedError, or one of UNANSWERED."""
        async with self._session.request(
            method,
            path,
            data=None if body is None else json.dumps(body),
            headers={"Content-Type": kind},
            params=query or {},
            timeout=aiohttp.ClientTimeout(total=CALL_S),
        ) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise RefusedError(answer.status, text[:500])
        found: Object = json.loads(text)
        return found

    async def persist(
        self, method: str, path: str, body: Object | None = None, *, kind: str = "application/json"
    ) -> Object | None:
        """Make a call until it is answered; None when what it is about is gone or was replaced."""
        while True:
            try:
                return await self.call(method, path, body, kind=kind)
            except RefusedError as error:
                if error.status in (404, 409):
                    return None
                if error.status < 500 and error.status != 429:
                    raise
            except UNANSWERED:
                pass
            await asyncio.sleep(AGAIN_S)

    async def follow(
        self, path: str, see: Callable[[str, Object], None], *, stop: asyncio.Event
    ) -> None:
        """Call ``see(kind, object)`` for all objects of a path, then for each change.

        After every list, ``see("LISTED", list)`` tells what there is: what is not in it is gone.
        """
        while not stop.is_set():
            try:
                listed = await self.get(path)
                see("LISTED", listed)
                async for event in self._watch(path, listed["metadata"]["resourceVersion"]):
                    if event["type"] == "ERROR":
                        break
                    see(event["type"], event["object"])
            except (RefusedError, *UNANSWERED):
                await asyncio.sleep(AGAIN_S)

    async def _watch(self, path: str, version: str) -> AsyncIterator[Object]:
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(WATCH_S)}
        patience = aiohttp.ClientTimeout(total=None, sock_connect=CALL_S, sock_read=WATCH_S + 5)
        async with self._session.get(path, params=query, timeout=patience) as answer:
            if answer.status >= 400:
                raise RefusedError(answer.status, await answer.text())
            while line := await answer.content.readline():
                event: Object = json.loads(line)
                yield event
