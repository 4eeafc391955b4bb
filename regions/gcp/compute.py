"""Quota and advice, over the REST interfaces of Compute Engine and Cloud Quotas.

The rule: everything has a deadline and a size, nothing is asked twice in here, and a refusal is
told in Google's words. It is four calls: Google's own client for them would take 69 MB of disk and
85 MB of memory. Read ``ComputeApi`` first.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote as quoted

import aiohttp

from regions.gcp import advice
from regions.gcp.errors import (
    AccessError,
    BrokenError,
    BusyError,
    GoogleError,
    RefusedError,
    SilentError,
)
from regions.gcp.quota import Quotas, quotas

COMPUTE = "https://compute.googleapis.com/compute/v1"
CLOUD_QUOTAS = "https://cloudquotas.googleapis.com/v1"
WITHIN_S = 30.0
MAX_BYTES = 16 << 20
MAX_PAGES = 50
_CHUNK_BYTES = 1 << 16


class ComputeApi:
    """One project's quota, and advice for it. ``token`` is asked before every call."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        token: Callable[[], Awaitable[str]],
        project: str,
        *,
        compute: str = COMPUTE,
        cloud_quotas: str = CLOUD_QUOTAS,
    ) -> None:
        self._session = session
        self._token = token
        self._project = quoted(project, safe=":")
        self._compute = compute
        self._cloud_quotas = cloud_quotas

    async def quotas(self, regions: tuple[str, ...]) -> Quotas:
        """Return the project's GPU quota in some regions. Raises GoogleError.

        What is refused for good, such as an interface that the project has not enabled, leaves the
        rest as it is, and stands in ``untold``.
        """
        base = f"{self._compute}/projects/{self._project}"
        project = await self._call("GET", base)
        by_region, untold = [], []
        for region in regions:
            try:
                by_region.append(await self._call("GET", f"{base}/regions/{quoted(region)}"))
            except (AccessError, RefusedError) as error:
                untold.append(f"{region} ({error})")
        limits: list[Mapping[str, Any]] = []
        try:
            limits = await self._limits()
        except (AccessError, RefusedError) as error:
            untold.append(f"Cloud Quotas ({error})")
        return replace(quotas(project, by_region, limits), untold=tuple(untold))

    async def advice(
        self, region: str, machine: str, count: int, model: str
    ) -> tuple[advice.Advice, ...]:
        """Return how likely a region's zones are to give machines now. Raises GoogleError.

        ``model`` is SPOT, FLEX_START or STANDARD. No machine is asked for.
        """
        url = f"{self._compute}/projects/{self._project}/regions/{quoted(region)}/advice/capacity"
        body = advice.question(machine, count, model)
        return advice.read_advice(await self._call("POST", url, body=body))

    async def _limits(self) -> list[Mapping[str, Any]]:
        url = (
            f"{self._cloud_quotas}/projects/{self._project}/locations/global"
            "/services/compute.googleapis.com/quotaInfos"
        )
        found: list[Mapping[str, Any]] = []
        token, seen = "", {""}
        for _ in range(MAX_PAGES):
            page = await self._call("GET", url, {"pageSize": "500", "pageToken": token})
            infos = page.get("quotaInfos") or []
            if not isinstance(infos, list):
                raise BrokenError("the quotas are no list")
            found.extend(each for each in infos if isinstance(each, dict))
            token = str(page.get("nextPageToken") or "")
            if not token:
                return found
            if token in seen:
                raise BrokenError("the quotas' pages go in a circle")
            seen.add(token)
        raise BrokenError(f"the quotas have more than {MAX_PAGES} pages")

    async def _call(
        self,
        method: str,
        url: str,
        params: Mapping[str, str] | None = None,
        *,
        body: object = None,
    ) -> Mapping[str, Any]:
        headers = {"Authorization": f"Bearer {await self._token()}"}
        try:
            async with (
                asyncio.timeout(WITHIN_S),
                self._session.request(
                    method,
                    url,
                    params=params,
                    headers=headers,
                    json=body,
                    allow_redirects=False,  # one would carry the token to somebody else
                ) as answer,
            ):
                return _object(answer.status, await _content(answer))
        except TimeoutError as error:
            raise SilentError(f"no answer within {WITHIN_S:g} s") from error
        except aiohttp.ClientError as error:
            raise SilentError(f"the connection broke: {type(error).__name__}") from error


async def _content(answer: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
        content += chunk
        if len(content) > MAX_BYTES:
            raise BrokenError(f"the answer is longer than {MAX_BYTES >> 20} MiB")
    return bytes(content)


def _object(status: int, content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content) if content else {}
    except (ValueError, RecursionError) as error:
        found = None
        if status == 200:
            raise BrokenError("the answer is no JSON") from error
    if status != 200:
        raise _refusal(status, found)
    if not isinstance(found, dict):
        raise BrokenError("the answer is no JSON object")
    return found


def _refusal(status: int, found: object) -> GoogleError:
    inner = found.get("error") if isinstance(found, dict) else None
    said = inner.get("message") if isinstance(inner, dict) else None
    words = f"{str(said)[:500] if said else 'refused'} ({status})"
    if status in (401, 403):
        return AccessError(words)
    return BusyError(words) if status == 429 or status >= 500 else RefusedError(words)
