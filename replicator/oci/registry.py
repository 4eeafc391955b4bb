"""One registry of images: what is there, and the bytes of it.

The rule: a request that is refused for its login is put once more with a new one, and nothing else
is tried again here. A redirect to another host is followed for reads, and never carries the login.
Read ``Registry.asking`` first.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import Enum

import aiohttp
from yarl import URL

from replicator.errors import RegistryRefused, RegistryUnreachable
from replicator.oci import answers, locations
from replicator.oci.login import Keys, LoginSource
from replicator.oci.reference import DOCKER_HUB, is_digest
from replicator.oci.wire import Body, Request, Wire, beginning

MAX_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HUB = "registry-1.docker.io"
_HUB_REALM = "auth.docker.io"


class UploadMode(Enum):
    """How a registry takes a layer. Artifact Registry takes whole ones only."""

    WHOLE = "whole"
    CHUNKS = "chunks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How a registry is reached. ``name`` is the host in references; ``is_plain`` is without TLS.

    ``realm_hosts`` are further hosts that may be given its login, in exchange for a token.
    """

    name: str
    login: LoginSource
    upload_mode: UploadMode
    is_plain: bool = False
    realm_hosts: frozenset[str] = frozenset()

    @property
    def base(self) -> URL:
        """Where its interface begins."""
        host = _HUB if self.name == DOCKER_HUB else self.name
        return URL(f"{'http' if self.is_plain else 'https'}://{host}/v2/")

    @property
    def trusted_realms(self) -> frozenset[str]:
        """All hosts but its own that may be given its login."""
        return self.realm_hosts | ({_HUB_REALM} if self.name == DOCKER_HUB else frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request before it is known who asks. ``body`` makes it anew for each time it is sent."""

    method: str
    url: URL
    name: str
    scopes: tuple[str, ...]
    headers: Mapping[str, str]
    within_s: float
    body: Callable[[], Body] | None = None


class Registry:
    """A registry as its protocol has it: the distribution specification of OCI, version 1.1."""

    def __init__(self, endpoint: Endpoint, wire: Wire) -> None:
        self.endpoint = endpoint
        self.bounds = wire.bounds
        self._wire = wire
        self._keys = Keys(wire, endpoint.base, endpoint.login, endpoint.trusted_realms)

    def __repr__(self) -> str:
        return f"Registry({self.endpoint.name!r})"

    def call(
        self,
        method: str,
        repository: str,
        wanted: str,
        *,
        url: URL,
        headers: Mapping[str, str],
        body: Callable[[], Body] | None = None,
        also: tuple[str, ...] = (),
    ) -> Call:
        """Return a call about something of a repository. ``also`` are further rights it needs."""
        rights = "pull" if method in ("GET", "HEAD") else "pull,push"
        return Call(
            method=method,
            url=url,
            name=self.name_of(repository, wanted),
            scopes=(f"repository:{repository}:{rights}", *also),
            headers=headers,
            within_s=self.bounds.call_s,
            body=body,
        )

    def url_of(self, repository: str, *parts: str) -> URL:
        """Return where a thing of a repository is."""
        return self.endpoint.base.joinpath(repository, *parts, encoded=True)

    def name_of(self, repository: str, wanted: str) -> str:
        """Return what errors call a thing of this registry."""
        mark = "@" if is_digest(wanted) else ":"
        return f"{self.endpoint.name}/{repository}{mark}{wanted}"

    @asynccontextmanager
    async def reading(
        self, call: Call, *, absent: bool = False, away: bool = False
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Ask, follow redirects, and hand on what answers 200 or 206.

        Also 404 when it may be ``absent``, and a redirect to another host when it may be ``away``.
        Raises what the answer means otherwise.
        """
        async with self.asking(call) as answer:
            if answer.status not in REDIRECTS:
                if not (absent and answer.status == 404):
                    await self.require(call, answer, 200, 206)
                yield answer
                return
            where = locations.followed(call.name, call.url, answer.headers.get("Location"))
            if away and not locations.same_origin(where, call.url):
                yield answer
                return
        async with self._elsewhere(call, where) as answer:
            yield answer

    @asynccontextmanager
    async def asking(self, call: Call) -> AsyncIterator[aiohttp.ClientResponse]:
        """Put a call, with a login if one is wanted; hand on the answer. Raises RegistryError."""
        shown = await self._keys.header(call.name, call.scopes)
        async with self._wire.ask(_request(call, shown)) as answer:
            if answer.status != 401:
                yield answer
                return
            wanted = answer.headers.getall("WWW-Authenticate", [])
            if not self._keys.refused(shown, call.scopes, wanted):
                await self.require(call, answer)
        shown = await self._keys.header(call.name, call.scopes)
        async with self._wire.ask(_request(call, shown)) as answer:
            yield answer

    async def require(self, call: Call, answer: aiohttp.ClientResponse, *statuses: int) -> None:
        """Raise what an answer means, unless it is of one of these statuses."""
        if answer.status in statuses:
            return
        body = await beginning(answer, answers.MAX_ERROR_BYTES)
        raise answers.refusal(
            call.name,
            answer.status,
            answers.code_of(body),
            answer.headers,
            has_login=self._keys.has_login,
            is_write=call.method not in ("GET", "HEAD"),
        )

    @asynccontextmanager
    async def _elsewhere(self, call: Call, where: URL) -> AsyncIterator[aiohttp.ClientResponse]:
        """Read what the registry keeps elsewhere. From the first other host on we are nobody."""
        is_ours = True
        for _ in range(MAX_REDIRECTS):
            is_ours = is_ours and locations.same_origin(where, self.endpoint.base)
            shown = await self._keys.header(call.name, call.scopes) if is_ours else None
            async with self._wire.ask(_request(replace(call, url=where), shown)) as answer:
                if answer.status not in REDIRECTS:
                    if answer.status not in (200, 206):
                        raise RegistryUnreachable(
                            call.name, f"where the registry keeps it the answer is {answer.status}"
                        )
                    yield answer
                    return
                where = locations.followed(call.name, where, answer.headers.get("Location"))
        raise RegistryRefused(call.name, "the registry sends us around in a circle")


def _request(call: Call, shown: str | None) -> Request:
    login = {} if shown is None else {"Authorization": shown}
    return Request(
        method=call.method,
        url=call.url,
        name=call.name,
        headers={**call.headers, **login},
        within_s=call.within_s,
        body=None if call.body is None else call.body(),
    )
