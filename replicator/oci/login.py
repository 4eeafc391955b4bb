"""Who we are to a registry: logins, and the tokens that registries give for them.

The rule: a login goes to the registry that it is for and to the places that its configuration
names for tokens, over the line that it is asked for, and is in no error and no ``repr``. A token
is good for one set of rights and for as long as it says. Read ``Keys.header`` first.
"""

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from yarl import URL

from replicator.errors import LoginRefused, RegistryRefused
from replicator.oci import answers, locations
from replicator.oci.challenge import Challenge, parse
from replicator.oci.wire import Request, Wire, whole

# What Artifact Registry calls who comes with an access token of Google's.
GOOGLE_USER = "oauth2accesstoken"
MAX_TOKEN_BYTES = 64 << 10
_MAX_KEPT = 1_000
_MAX_LIFE_S = 12 * 3600.0
_LIFE_S = 60.0  # of a token that does not say, by the protocol
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A name and its secret."""

    user: str
    secret: str = field(repr=False)


# Asked whenever a registry wants to know, for what it answers may end: None is nobody.
LoginSource = Callable[[], Awaitable[Login | None]]


async def nobody() -> None:
    """Return no login: the LoginSource of registries that everybody may read."""


def google(access_token: Callable[[], Awaitable[str]]) -> LoginSource:
    """Return the LoginSource that comes to Artifact Registry with Google's access tokens."""

    async def login() -> Login:
        return Login(user=GOOGLE_USER, secret=await access_token())

    return login


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    text: str = field(repr=False)
    until_s: float


class Keys:
    """What one registry is shown with each request.

    ``realm_hosts`` are hosts other than the registry's own that may be given its login for a token.
    """

    def __init__(
        self, wire: Wire, base: URL, login: LoginSource, realm_hosts: frozenset[str]
    ) -> None:
        self._wire = wire
        self._base = base
        self._login = login
        self._realm_hosts = realm_hosts
        self._challenge: Challenge | None = None
        self._tokens: dict[tuple[str, ...], _Token] = {}
        self._asking = asyncio.Lock()
        self.has_login = False  # whether we were somebody when we were last asked

    async def header(self, name: str, scopes: tuple[str, ...]) -> str | None:
        """Return the Authorization that a request for these rights carries, None without one.

        A token that ended, or is about to, is renewed first. Raises RegistryError.
        """
        if self._challenge is None:
            return None
        if self._challenge.scheme == "basic":
            login = await self._known()
            return None if login is None else _basic(login)
        async with self._asking:
            token = self._tokens.get(scopes)
            if token is None or token.until_s <= asyncio.get_running_loop().time():
                token = await self._ask(name, self._challenge, scopes)
                self._tokens.pop(scopes, None)
                self._tokens[scopes] = token
                while len(self._tokens) > _MAX_KEPT:
                    del self._tokens[next(iter(self._tokens))]
        return f"Bearer {token.text}"

    def refused(self, shown: str | None, scopes: tuple[str, ...], wanted: Iterable[str]) -> bool:
        """Hear that what was shown did not do; say whether there is something else to show.

        ``wanted`` is each ``WWW-Authenticate`` that came with the refusal.
        """
        known = {each.scheme: each for each in reversed(parse(wanted))}
        challenge = known.get("bearer") or known.get("basic")
        if challenge is None:
            return False
        self._challenge = challenge
        token = self._tokens.get(scopes)
        # Another request may have renewed it meanwhile; that one has not been tried yet.
        if token is not None and shown == f"Bearer {token.text}":
            del self._tokens[scopes]
        return not (challenge.scheme == "basic" and shown is not None)

    async def _ask(self, name: str, challenge: Challenge, scopes: tuple[str, ...]) -> _Token:
        place = locations.realm(name, self._base, challenge.parameters.get("realm", ""))
        login = await self._known()
        if login is not None and not self._is_trusted(place):
            raise RegistryRefused(
                name, f"tokens are given out by {place.host}, which is not to know the login"
            )
        service = challenge.parameters.get("service")
        asked = ([("service", service)] if service else []) + [("scope", each) for each in scopes]
        request = Request(
            method="GET",
            url=place.extend_query(asked),
            name=name,
            headers={} if login is None else {"Authorization": _basic(login)},
            within_s=self._wire.bounds.call_s,
        )
        async with self._wire.ask(request) as answer:
            body = await whole(answer, name, MAX_TOKEN_BYTES)
            if answer.status != 200:
                code, sent = answers.code_of(body), answer.headers
                raise answers.refusal(name, answer.status, code, sent, has_login=self.has_login)
        return _token(name, body, asyncio.get_running_loop().time())

    async def _known(self) -> Login | None:
        login = await self._login()
        self.has_login = login is not None
        return login

    def _is_trusted(self, place: URL) -> bool:
        return place.host in self._realm_hosts or locations.same_origin(place, self._base)


def _token(name: str, body: bytes, now_s: float) -> _Token:
    try:
        found: Mapping[str, Any] = json.loads(body)
        text = found.get("token") or found.get("access_token")
        life_s = found.get("expires_in", _LIFE_S)
    except (ValueError, AttributeError, RecursionError):
        text, life_s = None, _LIFE_S
    if not isinstance(text, str) or not _TOKEN.fullmatch(text):
        raise LoginRefused(name, "the registry gives out no token")
    if isinstance(life_s, bool) or not isinstance(life_s, int | float) or not life_s > 0:
        life_s = _LIFE_S
    # It ends somewhat sooner for us, so that none ends on its way.
    return _Token(text=text, until_s=now_s + min(life_s, _MAX_LIFE_S) * 0.8)


def _basic(login: Login) -> str:
    pair = f"{login.user}:{login.secret}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"
