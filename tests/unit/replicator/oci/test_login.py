"""Logins and tokens: to whom they are shown, for how long, and that nobody else sees them."""

import base64
import logging
import traceback
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from replicator.errors import LoginRefused, RegistryRefused, ReplicatorError
from replicator.oci.copies import Place
from replicator.oci.login import GOOGLE_USER, Login, google
from replicator.oci.registry import UploadMode
from tests.fakes.registry import FakeRegistry, Heard, digest_of, refused
from tests.unit.replicator.oci.registries import THERE, Town, add_image, add_index, town

LAYER = bytes(range(256)) * (1 << 12) * 12  # 12 MiB
DIGEST = digest_of(LAYER)
SECRET = "open-sesame"
BASIC = "Basic " + base64.b64encode(f"who:{SECRET}".encode()).decode()


async def login() -> Login:
    return Login(user="who", secret=SECRET)


class Gate:
    """Lets a registry ask for tokens, and gives them out itself."""

    def __init__(self, registry: FakeRegistry) -> None:
        self.tokens: list[str] = []
        self.good: set[str] = set()
        self.uses = 1_000_000
        self.lives_s: float = 300
        self.realm = ""
        registry.lie = self
        self._left: dict[str, int] = {}

    async def __call__(self, request: web.Request) -> web.StreamResponse | None:
        if request.path == "/v2/token":
            return self._token(request)
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if shown in self.good and self._left[shown] > 0:
            self._left[shown] -= 1
            return None
        # Some bytes of an upload are taken first, as a registry does that asks late.
        if request.method == "PUT" and "/uploads/" in request.path:
            await request.content.readany()
        realm = self.realm or f"http://{request.host}/v2/token"
        wanted = f'Bearer realm="{realm}",service="fake",scope="repository:x:pull"'
        return refused(401, "UNAUTHORIZED", **{"WWW-Authenticate": wanted})

    def _token(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != BASIC:
            return refused(401, "UNAUTHORIZED")
        token = f"token-{len(self.tokens)}"
        self.tokens.append(" ".join(sorted(request.query.getall("scope"))))
        self.good.add(token)
        self._left[token] = self.uses
        return web.json_response({"token": token, "expires_in": self.lives_s})


@pytest.mark.parametrize("mode", UploadMode)
@pytest.mark.parametrize("uses", [1_000_000, 3, 1])
async def test_tokens_that_end_at_any_time_are_renewed(mode: UploadMode, uses: int) -> None:
    # One at a time: of two requests with one token for one, one would be refused twice.
    async with town(login=login, mode=mode, at_once=1) as there:
        digest = add_image(there.here, LAYER)
        gates = Gate(there.here), Gate(there.there)
        for gate in gates:
            gate.uses = uses
        await there.copy(digest)
        assert there.there.blobs[THERE, DIGEST] == LAYER
        assert set(gates[0].tokens) == {"repository:team/here:pull"}
        assert set(gates[1].tokens) == {
            "repository:team/there:pull",
            "repository:team/there:pull,push",
        }
        if uses > 3:
            assert sorted(len(gate.tokens) for gate in gates) == [1, 2]


async def test_a_token_is_asked_for_again_before_it_ends() -> None:
    async with town(login=login) as there:
        digest = add_image(there.here, LAYER)
        gate = Gate(there.here)
        gate.lives_s = 1e-9
        await there.copy(digest)
        refusals = len(there.here.asked("GET", "/v2/team")) - len(gate.tokens)
        assert refusals == 1  # the first, by which it is heard that there are tokens


async def test_for_many_requests_at_once_one_token_is_asked() -> None:
    async with town(login=login) as there:
        digest = add_index(there.here, *(f"linux/arch{n}" for n in range(20)))
        gate = Gate(there.here)
        await there.copy(digest)
        assert gate.tokens == ["repository:team/here:pull"]


async def test_a_mount_asks_for_both_repositories() -> None:
    async with town(login=login) as there:
        digest = add_image(there.here, LAYER)
        gate = Gate(there.here)
        there.destination = Place(registry=there.source.registry, repository=THERE)
        await there.copy(digest)
        assert "repository:team/here:pull repository:team/there:pull,push" in gate.tokens


async def test_basic_is_shown_where_basic_is_wanted() -> None:
    async def basic(request: web.Request) -> web.StreamResponse | None:
        if request.headers.get("Authorization") == BASIC:
            return None
        return refused(401, "UNAUTHORIZED", **{"WWW-Authenticate": 'Basic realm="r"'})

    async with town(login=login) as there:
        digest = add_image(there.here, LAYER)
        there.here.lie = there.there.lie = basic
        await there.copy(digest)
        assert there.there.blobs[THERE, DIGEST] == LAYER
        shown = [each.headers.get("Authorization") for each in there.here.heard]
        assert shown == [None, *[BASIC] * (len(shown) - 1)]


async def test_google_is_asked_for_a_token_each_time() -> None:
    asked = iter(range(100))

    async def access_token() -> str:
        return f"ya29.{next(asked)}"

    source = google(access_token)
    assert await source() == Login(user=GOOGLE_USER, secret="ya29.0")
    assert await source() == Login(user=GOOGLE_USER, secret="ya29.1")
    assert "ya29" not in repr(await source())


def redirecting(there: Town) -> Callable[[web.Request], Awaitable[web.StreamResponse | None]]:
    gate = Gate(there.here)

    async def lie(request: web.Request) -> web.StreamResponse | None:
        told = await gate(request)
        if told is None and DIGEST in request.path:
            place = there.elsewhere.make_url(f"/v2/x/blobs/{DIGEST}")
            return web.Response(status=307, headers={"Location": str(place)})
        return told

    return lie


async def test_a_redirect_to_another_host_carries_no_login() -> None:
    async with town(login=login) as there:
        digest = add_image(there.here, LAYER)
        there.stranger.blobs["x", DIGEST] = LAYER
        there.here.lie = redirecting(there)
        await there.copy(digest)
        assert there.there.blobs[THERE, DIGEST] == LAYER
        assert [shown(each) for each in there.stranger.heard] == [[]]


async def test_who_is_sent_back_from_another_host_is_nobody_still() -> None:
    async with town(login=login) as there:
        digest = add_image(there.here, LAYER)
        there.here.lie = redirecting(there)

        async def back(request: web.Request) -> web.StreamResponse:
            place = there.source.registry.endpoint.base.join(request.url.relative())
            return web.Response(status=307, headers={"Location": str(place.with_path("/v2/other"))})

        there.stranger.lie = back
        with pytest.raises(ReplicatorError):
            await there.copy(digest)
        back_there = there.here.asked("GET", "/v2/other")
        assert back_there != []
        assert [each for each in back_there if shown(each)] == []


async def test_a_login_goes_to_no_place_that_is_not_named_for_it() -> None:
    async with town(login=login) as there:
        digest = add_image(there.here, LAYER)
        Gate(there.here).realm = str(there.elsewhere.make_url("/v2/token")).replace(
            "127.0.0.1", "localhost"
        )
        with pytest.raises(RegistryRefused, match="not to know the login"):
            await there.copy(digest)
        assert there.stranger.heard == []


async def test_a_login_goes_to_the_places_that_are_named_for_it() -> None:
    async with town(login=login, realm_hosts=frozenset({"localhost"})) as there:
        digest = add_image(there.here, LAYER)
        here, elsewhere = Gate(there.here), Gate(there.stranger)
        here.good, here._left = elsewhere.good, elsewhere._left
        here.realm = str(there.elsewhere.make_url("/v2/token")).replace("127.0.0.1", "localhost")
        await there.copy(digest)
        assert elsewhere.tokens == ["repository:team/here:pull"]


async def test_a_login_that_is_refused_is_told_from_none() -> None:
    async def other() -> Login:
        return Login(user="who", secret="wrong")

    async with town(login=other) as there:
        digest = add_image(there.here, LAYER)
        Gate(there.here)
        with pytest.raises(LoginRefused, match="refuses the login"):
            await there.copy(digest)
    async with town() as there:
        digest = add_image(there.here, LAYER)
        Gate(there.here)
        with pytest.raises(LoginRefused, match="none is configured"):
            await there.copy(digest)


@pytest.mark.parametrize(
    "wanted", ["", "Negotiate", "Bearer", 'Bearer realm=""', 'Bearer realm="x:y"']
)
async def test_a_registry_that_wants_what_nobody_has_is_asked_no_more(wanted: str) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return refused(401, "UNAUTHORIZED", **({"WWW-Authenticate": wanted} if wanted else {}))

    async with town(login=login) as there:
        digest = add_image(there.here, LAYER)
        there.here.lie = refuse
        with pytest.raises((LoginRefused, RegistryRefused)):
            await there.copy(digest)
        assert len(there.here.heard) <= 2


@pytest.mark.parametrize(
    "token",
    [b"", b"[]", b"{}", b'{"token": 3}', b'{"token": "a\\r\\nX-Evil: b"}', b'{"token": ""}'],
)
async def test_what_is_no_token_is_refused(token: bytes) -> None:
    async with town(login=login) as there:
        digest = add_image(there.here, LAYER)
        gate = Gate(there.here)

        async def lie(request: web.Request) -> web.StreamResponse | None:
            return web.Response(body=token) if "token" in request.path else await gate(request)

        there.here.lie = lie
        with pytest.raises(LoginRefused, match="no token"):
            await there.copy(digest)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
async def test_no_error_and_no_log_holds_a_secret(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def echo(request: web.Request) -> web.StreamResponse | None:
        if "token" in request.path:
            return None
        said = request.headers.get("Authorization", "none")
        if said == "none":
            return refused(401, "UNAUTHORIZED", **{"WWW-Authenticate": "Basic"})
        answer = {"errors": [{"code": said, "message": said, "detail": said}]}
        return web.json_response(answer, status=status, reason=said)

    async with town(login=login) as there:
        digest = add_image(there.here, LAYER)
        there.here.lie = echo
        with pytest.raises(ReplicatorError) as raised:
            await there.copy(digest)
        said = "".join(traceback.format_exception(raised.value)) + caplog.text
        assert SECRET not in said
        assert BASIC.removeprefix("Basic ") not in said
        assert SECRET not in repr(await login())
        assert "who" not in repr(there.source.registry)


async def test_a_line_that_breaks_says_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with town(login=login) as there:
        digest = add_image(there.here, LAYER)
        gate = Gate(there.here)

        async def lie(request: web.Request) -> web.StreamResponse | None:
            told = await gate(request)
            if told is None:
                place = "http://127.0.0.1:1/x?signature=" + SECRET
                return web.Response(status=307, headers={"Location": place})
            return told

        there.here.lie = lie
        with pytest.raises(ReplicatorError) as raised:
            await there.copy(digest)
        assert SECRET not in "".join(traceback.format_exception(raised.value)) + caplog.text


def shown(heard: Heard) -> list[str]:
    """Return the headers of a request that say who asks."""
    secret = {"authorization", "proxy-authorization", "cookie"}
    return [name for name in heard.headers if name.lower() in secret]
