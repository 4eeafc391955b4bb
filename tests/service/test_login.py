"""The program ``broker`` and both clients, before a door: one round, and its slips."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.cli import exits
from broker.cli.main import main
from broker.sdk import AsyncClient, Client, Watch, errors, find
from tests.fakes import certificates
from tests.service.outward import ALL, ANN, BOB, VIC, Holder, Outward, holder, outward
from tests.service.rig import DIGITS


@pytest.fixture
async def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Outward]:
    for name in ("BROKER_SERVER", "BROKER_TOKEN", "BROKER_CA", "BROKER_TEAM", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    async with outward(tmp_path) as found:
        yield found


class Typed:
    """Types commands; what stands on standard input is the token."""

    def __init__(self, out: Outward, monkeypatch: pytest.MonkeyPatch) -> None:
        self._out = out
        self._monkeypatch = monkeypatch
        self.ca = str(certificates.write_roots(out.folder))

    async def __call__(self, *words: str, token: str = "") -> int:
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(token))
        return await asyncio.to_thread(main, list(words))

    async def login(self, who: Holder | str, *words: str) -> int:
        word = who.word if isinstance(who, Holder) else who
        return await self(
            "login", "--server", self._out.address, "--ca", self.ca, *words, token=f"{word}\n"
        )


@pytest.fixture
def typed(out: Outward, monkeypatch: pytest.MonkeyPatch) -> Typed:
    return Typed(out, monkeypatch)


async def test_one_round(out: Outward, typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    await out.rig.submit()
    assert await typed.login(ANN) == exits.OK
    assert capsys.readouterr().out == (
        f"logged in to {out.address} as ann, member of teams/vision\n"
    )
    assert await typed("cancel", "digits") == exits.OK
    (cancelled,) = (await out.rig.log.read(DIGITS, 1, 1))[:1]
    assert cancelled.actor.name == "ann"
    capsys.readouterr()
    assert await typed("team", "show", "speech") == exits.DENIED
    told = capsys.readouterr().err
    assert "the token is for teams/vision" in told
    assert "Ask its ops for a token that allows it." in told
    assert await typed("status", "speech/secret") == exits.NOT_FOUND
    assert await typed("regions", "cordon", "alpha") == exits.DENIED
    assert await typed("logout") == exits.OK
    assert await typed("ls", "--server", out.address) == exits.UNREACHABLE  # no TLS: not known
    capsys.readouterr()
    assert await typed("logout", "--server", out.address) == exits.USAGE
    assert "nobody is logged in" in capsys.readouterr().err


async def test_what_is_answered_to_programs(
    out: Outward, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await typed.login(VIC, "--output", "json") == exits.OK
    assert json.loads(capsys.readouterr().out) == {
        "server": out.address,
        "caller": {"actor": "vic", "team": "teams/vision", "role": "viewer"},
    }


@pytest.mark.parametrize("word", ["", "brk_guessed", f"{BOB.word[:-1]}9", "with space", "é"])
async def test_a_token_that_is_not_taken_is_not_kept(
    out: Outward, typed: Typed, capsys: pytest.CaptureFixture[str], tmp_path: Path, word: str
) -> None:
    assert await typed.login(word) != exits.OK
    said = "".join(capsys.readouterr())
    assert not word or word not in said
    assert not (tmp_path / "home" / ".config").exists()


async def test_a_broker_that_is_not_trusted_is_not_told_the_token(
    out: Outward, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    typed.ca = str(certificates.write_roots(out.folder, "other"))
    assert await typed.login(ANN) == exits.DENIED
    assert "shows no certificate that is trusted here" in capsys.readouterr().err
    assert out.refused == []


async def test_a_certificate_for_another_name_is_not_trusted(
    out: Outward, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    certificates.write_pair(out.folder, host="broker.example", is_here=False)
    await out.door.tick()
    assert await typed.login(ANN) == exits.DENIED
    assert "shows no certificate that is trusted here for that name" in capsys.readouterr().err
    assert out.refused == []


async def test_a_certificate_of_ones_own_is_kept_with_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "mine").mkdir()
    crt, key = certificates.write_pair(tmp_path / "mine", ca="clients", host="ann.example")
    ca = certificates.write_roots(tmp_path, "clients")
    async with outward(tmp_path, client_ca=ca) as out:
        typed = Typed(out, monkeypatch)
        assert await typed.login(ANN) == exits.UNREACHABLE
        assert "give --cert and --key" in capsys.readouterr().err
        assert await typed.login(ANN, "--cert", str(crt)) == exits.USAGE
        assert await typed.login(ANN, "--cert", str(crt), "--key", str(key)) == exits.OK
        assert await typed("ls") == exits.OK
        assert await typed.login(VIC) == exits.OK  # the certificate stays


async def test_where_nobody_listens_no_certificate_is_asked_for(
    out: Outward, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # taken, and nobody listens
        server = f"127.0.0.1:{unheard.getsockname()[1]}"
        ended = await typed("login", "--server", server, "--ca", typed.ca, token=f"{ANN.word}\n")
    assert ended == exits.UNREACHABLE
    said = capsys.readouterr().err
    assert f"no broker answers at {server}" in said
    assert "--cert" not in said


async def test_a_token_of_the_environment_is_enough(
    out: Outward, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await out.rig.submit()
    monkeypatch.setenv("BROKER_SERVER", out.address)
    monkeypatch.setenv("BROKER_CA", typed.ca)
    monkeypatch.setenv("BROKER_TOKEN", VIC.word)
    assert await typed("status", "vision/digits") == exits.OK
    assert await typed("cancel", "vision/digits") == exits.DENIED


async def test_both_clients_speak_as_their_tokens_do(out: Outward, typed: Typed) -> None:
    await out.rig.submit()
    brief = holder("brief", "vision", ANN.token.role)
    asked: list[str] = []

    def word() -> str:
        asked.append("once")
        return ANN.word if len(asked) == 1 else brief.word

    found = find(server=out.address, ca=Path(typed.ca), token=word)

    def plainly() -> tuple[str, type[Exception]]:
        with Client(found, retry_for_s=0) as client:
            actor = client.teams.broker().caller.actor
            with pytest.raises(errors.BrokerError) as caught:
                client.runs.get(DIGITS)
            return actor, caught.type

    assert await asyncio.to_thread(plainly) == ("ann", errors.NotLoggedIn)
    out.write(*ALL, brief)
    async with AsyncClient(found, retry_for_s=0) as client:
        assert (await client.teams.broker()).caller.actor == "brief"
        told = client.follow(Watch(DIGITS))
        await anext(told)
        out.write(*ALL)
        await out.door.tick()
        with pytest.raises(errors.NotLoggedIn):
            async for _ in told:
                pass
    assert len(asked) == 4
