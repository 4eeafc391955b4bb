"""Asking a cluster's API, against a server that answers, refuses, stalls and breaks off."""

import asyncio
import json
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from regions.kueue import access
from regions.kueue.access import Deadlines
from regions.kueue.credentials import Endpoint, Kubeconfig
from regions.kueue.errors import (
    AccessError,
    BrokenError,
    ClusterError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    MissingError,
    RefusedError,
    SilentError,
    UnauthorizedError,
)
from tests.unit.regions.kueue.servers import Handler, Server, serving

SHORT = Deadlines(call_s=0.3, page_s=0.3, login_s=5.0, silence_s=0.3)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as found:
        yield found


async def test_the_time_is_the_servers_own(server: Server) -> None:
    api = server.api()
    ours_s = api.time.wall_s()
    server.answer = refusing(503, b"", Date="Sun, 08 Nov 2026 00:00:00 GMT")
    with pytest.raises(RefusedError):
        await api.ask("GET", "/version")
    assert api.time.wall_s() == pytest.approx(1_794_096_000.0, abs=60)
    assert ours_s != pytest.approx(1_794_096_000.0, abs=60)


def streaming(*chunks: bytes, stall: bool = False, cut: bool = False) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if stall:
            await asyncio.sleep(30)
        if cut and request.transport is not None:
            request.transport.abort()
        return response

    return answer


def refusing(status: int, body: bytes, **headers: str) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers=headers)

    return answer


async def test_a_question_carries_who_asks_and_its_answer_is_handed_on_as_it_is(
    server: Server,
) -> None:
    body = await server.api().ask("POST", "/apis/x", query={"a": "b c"}, body={"d": 1})
    assert json.loads(body) == {"d": 1}
    assert server.asked == [("POST", "/apis/x?a=b%20c", "Bearer secret")]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, UnauthorizedError),
        (403, ForbiddenError),
        (404, MissingError),
        (409, ConflictError),
        (410, ExpiredError),
        (500, RefusedError),
    ],
)
async def test_a_refusal_says_what_the_server_says(
    server: Server, status: int, error: type[RefusedError]
) -> None:
    told = {"reason": "Why", "message": "because", "details": {"retryAfterSeconds": 7}}
    server.answer = refusing(status, json.dumps(told).encode())
    with pytest.raises(RefusedError) as caught:
        await server.api().ask("GET", "/x")
    found = caught.value
    assert type(found) is error
    assert (found.status, found.reason, found.message, found.retry_after_s) == (
        status, "Why", "because", 7.0,
    )  # fmt: skip


async def test_a_refusal_in_no_known_form_is_one_all_the_same(server: Server) -> None:
    server.answer = refusing(429, b"\xff slow down", **{"Retry-After": "3"})
    with pytest.raises(RefusedError, match="slow down") as caught:
        await server.api().ask("GET", "/x")
    assert (caught.value.status, caught.value.retry_after_s) == (429, 3.0)


async def test_a_refusal_without_a_bottom_is_one_all_the_same(server: Server) -> None:
    server.answer = refusing(503, b'{"other":' + b"[" * 200_000)
    with pytest.raises(RefusedError) as caught:
        await server.api().ask("GET", "/x")
    assert caught.value.status == 503


@pytest.mark.parametrize("status", [301, 302, 303, 304, 307, 308])
async def test_the_page_that_one_is_sent_to_is_no_answer(server: Server, status: int) -> None:
    """A proxy that wants a login answers so, and its page is fine by HTTP's count."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/login":
            return web.Response(body=b"<html>who are you?</html>")
        headers = {} if status == 304 else {"Location": "/login"}
        return web.Response(status=status, headers=headers)

    server.answer = answer
    with pytest.raises(BrokenError, match="elsewhere"):
        await server.api().ask("POST", "/apis/x", body={})
    with pytest.raises(BrokenError, match="elsewhere"):
        await lines_of(server)


async def test_an_address_that_can_be_none_is_said(server: Server) -> None:
    async def token() -> str:
        return "secret"

    for host in ("https://" + "a" * 300, "https://[x", "nothing"):
        with pytest.raises(ClusterError):
            await server.api(Endpoint(host=host, ca_pem="", token=token)).ask("GET", "/x")


async def test_whoever_does_not_answer_in_time_is_silent(server: Server) -> None:
    server.deadlines = SHORT
    for answer in (streaming(stall=True), streaming(b"{", stall=True)):
        server.answer = answer
        with pytest.raises(SilentError):
            await server.api().ask("GET", "/x")


async def test_nobody_there_is_silence(server: Server) -> None:
    async def token() -> str:
        return "secret"

    nobody = Endpoint(host="http://127.0.0.1:1", ca_pem="", token=token)
    with pytest.raises(SilentError) as caught:
        await server.api(nobody).ask("GET", "/x")
    assert "secret" not in str(caught.value)


async def test_an_answer_without_an_end_is_broken_off(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "MAX_ANSWER_BYTES", 1000)
    monkeypatch.setattr(access, "MAX_LINE_BYTES", 1000)
    server.answer = streaming(b"x" * 1001)
    with pytest.raises(BrokenError, match="more than 1000"):
        await server.api().ask("GET", "/x")
    with pytest.raises(BrokenError, match="more than 1000"):
        await lines_of(server)


async def lines_of(server: Server) -> list[bytes]:
    return [line async for line in server.api().lines("/x", {"watch": "1"})]


async def test_lines_come_whole_however_they_are_sent(server: Server) -> None:
    server.answer = streaming(b"on", b"e\ntwo\nth", b"ree\n")
    assert await lines_of(server) == [b"one", b"two", b"three"]


async def test_a_line_that_is_cut_short_is_none(server: Server) -> None:
    server.answer = streaming(b"one\ntw")
    with pytest.raises(BrokenError, match="within a line"):
        await lines_of(server)


async def test_a_watch_that_breaks_or_says_nothing_is_silent(server: Server) -> None:
    server.deadlines = SHORT
    for answer in (streaming(b"one\n", stall=True), streaming(b"one\n", cut=True)):
        server.answer = answer
        lines = server.api().lines("/x", {})
        assert await anext(lines) == b"one"
        with pytest.raises(SilentError):
            await anext(lines)


async def test_a_trickle_without_a_whole_line_is_silence(server: Server) -> None:
    server.deadlines = SHORT

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.02)

    server.answer = answer
    with pytest.raises(SilentError):
        await lines_of(server)


def write_kubeconfig(folder: Path, address: str, user: dict[str, object]) -> Kubeconfig:
    path = folder / "kubeconfig"
    entries = {
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(entries))
    return Kubeconfig(path=str(path), context="x")


def write_plugin(folder: Path, expires: str) -> dict[str, object]:
    """A credential plugin whose tokens are numbered."""
    script = folder / "plugin"
    status = {"token": "N", "expirationTimestamp": expires}
    told = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib\n"
        f"runs = pathlib.Path({str(folder / 'runs')!r})\n"
        "n = int(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text(str(n))\n"
        f"status = {status!r} | {{'token': f't{{n}}'}}\n"
        f"print(json.dumps({told!r} | {{'status': status}}))\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": told["apiVersion"], "command": str(script)}}


def tokens(server: Server) -> list[str]:
    return [token for _, _, token in server.asked]


async def test_a_plugin_is_not_run_again_while_its_token_holds(
    server: Server, tmp_path: Path
) -> None:
    user = write_plugin(tmp_path, "2999-01-01T00:00:00Z")
    api = server.api(write_kubeconfig(tmp_path, server.address, user))
    for _ in range(3):
        await api.ask("GET", "/x")
        server.clock.now_s += 61
    assert tokens(server) == ["Bearer t1"] * 3


async def test_a_plugin_is_run_before_its_token_ends(server: Server, tmp_path: Path) -> None:
    user = write_plugin(tmp_path, "2001-01-01T00:00:00Z")
    api = server.api(write_kubeconfig(tmp_path, server.address, user))
    for _ in range(2):
        await api.ask("GET", "/x")
        await api.ask("GET", "/x")
        server.clock.now_s += 61
    assert tokens(server) == ["Bearer t1", "Bearer t1", "Bearer t2", "Bearer t2"]


async def test_a_token_that_is_refused_is_made_anew_and_not_for_every_request(
    server: Server, tmp_path: Path
) -> None:
    user = write_plugin(tmp_path, "2999-01-01T00:00:00Z")
    api = server.api(write_kubeconfig(tmp_path, server.address, user))
    server.answer = refusing(401, b"{}")
    for _ in range(3):
        with pytest.raises(UnauthorizedError):
            await api.ask("GET", "/x")
    server.clock.now_s += 6
    server.answer = server.fine
    await api.ask("GET", "/x")
    assert tokens(server) == ["Bearer t1"] * 3 + ["Bearer t2"]


async def test_a_token_file_is_read_anew(server: Server, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one")
    user: dict[str, object] = {"tokenFile": str(tmp_path / "token")}
    api = server.api(write_kubeconfig(tmp_path, server.address, user))
    await api.ask("GET", "/x")
    (tmp_path / "token").write_text("two")
    server.clock.now_s += 61
    await api.ask("GET", "/x")
    assert tokens(server) == ["Bearer one", "Bearer two"]


async def test_what_makes_tokens_may_fail_while_the_last_one_holds(server: Server) -> None:
    left = ["one"]

    async def token() -> str:
        if not left:
            raise OSError("metadata server is away")
        return left.pop()

    api = server.api(Endpoint(host=server.address, ca_pem="", token=token))
    await api.ask("GET", "/x")
    server.clock.now_s += 61
    await api.ask("GET", "/x")
    assert tokens(server) == ["Bearer one"] * 2


@pytest.mark.parametrize("content", [None, "", "[]", "{", "clusters: 3", '{"contexts": []}'])
async def test_a_kubeconfig_that_is_none_is_said(
    server: Server, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    with pytest.raises(AccessError):
        await server.api(Kubeconfig(path=str(path), context="x")).ask("GET", "/x")
