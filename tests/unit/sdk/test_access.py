"""How a broker of another machine is reached, and what is kept of a login."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.sdk import channel, logins
from broker.sdk.access import Access
from broker.sdk.errors import SettingsError
from broker.sdk.logins import Login, Logins
from broker.sdk.settings import find, logins_file
from tests.fakes import certificates

FAR = "broker.example:7443"
WORD = "brk_k3v9x0q2m7ab_" + "s" * 48


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "USER": "ann"}


def logged_in(env: dict[str, str], server: str = FAR, **values: str) -> Path:
    """Keep a login, as ``broker login`` does."""
    file = logins_file(env)
    logins.write(file, logins.read(file).with_one(server, Login(token=WORD, **values)))
    return file


@pytest.mark.parametrize(
    ("server", "is_tls"),
    [
        ("unix:/tmp/s", False), ("localhost:1", False), ("127.0.0.1:1", False), ("[::1]:1", False),
        (FAR, True), ("10.0.0.1:1", True), ("localhost.example:1", True), ("127.example:1", True),
    ],
)  # fmt: skip
def test_only_this_machine_is_reached_without_tls(
    env: dict[str, str], server: str, is_tls: bool
) -> None:
    assert (find(server=server, environ=env).access is not None) == is_tls


def test_a_token_of_the_environment_goes_nowhere_in_the_clear(env: dict[str, str]) -> None:
    env["BROKER_TOKEN"] = WORD
    for server in ("unix:/tmp/s", "localhost:1"):
        found = find(server=server, environ=env)
        assert found.access is None
        assert channel.metadata(found) == (("broker-user", "ann"),)
    found = find(server=FAR, environ=env)
    assert channel.metadata(found)[1] == ("authorization", f"Bearer {WORD}")


def test_what_is_said_comes_before_the_environment_and_that_before_the_login(
    env: dict[str, str], tmp_path: Path
) -> None:
    logged_in(env, ca="-----BEGIN kept", team="vision")
    found = find(environ=env)
    assert (found.server, found.team, found.source) == (FAR, "vision", "the last login")
    assert found.access == Access(token=WORD, ca=b"-----BEGIN kept")
    env |= {"BROKER_TOKEN": "other", "BROKER_CA": str(certificates.write_roots(tmp_path))}
    found = find(server=FAR, environ=env)
    assert found.access == Access(token="other", ca=certificates.roots())
    found = find(server=FAR, token="said", environ=env)
    assert found.access is not None
    assert found.access.word() == "said"
    assert find(server="unix:/tmp/s", environ=env).access is None
    assert find(server="other.example:1", environ={**env, "BROKER_TOKEN": ""}).access == Access(
        ca=certificates.roots()
    )


def test_a_login_to_this_machine_is_reached_over_tls(env: dict[str, str]) -> None:
    logged_in(env, "localhost:7443")
    assert find(server="localhost:7443", environ=env).access is not None
    assert find(server="localhost:7444", environ=env).access is None


def test_a_token_may_be_asked_for_before_each_call(env: dict[str, str]) -> None:
    words = iter(["one", "two"])
    found = find(server=FAR, token=lambda: next(words), environ=env)
    assert [channel.metadata(found)[1][1] for _ in range(2)] == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize("word", ["a b", "tokén", "x\n", "x" * 513, "\x00"])
def test_what_no_header_can_carry_is_refused_and_not_shown(env: dict[str, str], word: str) -> None:
    with pytest.raises(SettingsError) as caught:
        find(server=FAR, token=word, environ=env)
    assert word not in str(caught.value)
    found = find(server=FAR, token=lambda: word, environ=env)
    with pytest.raises(SettingsError) as caught:
        channel.metadata(found)
    assert word not in str(caught.value)


def test_no_form_of_what_holds_a_token_shows_it(env: dict[str, str]) -> None:
    file = logged_in(env)
    shown = [repr(find(environ=env)), repr(logins.read(file)), repr(Login(token=WORD))]
    assert [one for one in shown if "s" * 48 in one] == []


# ---- The file -----------------------------------------------------------------------------------


def test_what_is_kept_is_the_owners_alone(env: dict[str, str]) -> None:
    file = logged_in(env)
    assert file == Path(env["HOME"]) / ".config" / "broker" / "logins.json"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    with pytest.raises(SettingsError, match="can be read by others: chmod 600"):
        find(environ=env)


def test_logins_come_and_go_by_server() -> None:
    none = Logins(servers={})
    two = none.with_one("a:1", Login(token="a")).with_one("b:1", Login(token="b"))
    assert (sorted(two.servers), two.latest) == (["a:1", "b:1"], "b:1")
    assert two.without("a:1").latest == "b:1"
    assert two.without("b:1") == Logins(servers={"a:1": Login(token="a")})


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "5", '{"servers": 5, "latest": ""}', '{"servers": {}}', "[" * 100_000,
        json.dumps({"latest": "", "servers": {"a:1": {"token": WORD, "tokens": WORD}}}),
        json.dumps({"latest": "", "servers": {"a:1": {"token": [WORD]}}}),
        json.dumps({"latest": 5, "servers": {}}),
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_refused_and_not_shown(env: dict[str, str], text: str) -> None:
    file = logged_in(env)
    file.write_text(text)
    with pytest.raises(SettingsError, match="is not as broker login writes it") as caught:
        find(environ=env)
    assert WORD not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_ca_that_is_none_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no pem")
    with pytest.raises(SettingsError, match=r"CA .*ca\.pem: is not PEM"):
        find(server=FAR, ca=tmp_path / "ca.pem", environ=env)
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        find(server=FAR, ca=tmp_path / "none.pem", environ=env)
