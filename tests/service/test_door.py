"""brokerd with a door: what it needs to start, and one round of a token as processes have it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker import daemon, endings
from broker.access.tokens import Role
from broker.cli import exits
from tests.fakes import certificates
from tests.service.outward import ANN, write_book

WITHIN_S = 60.0


def settings(folder: Path, **changes: str) -> Path:
    """Write a configuration with a door, some of whose fields are otherwise; "" leaves one out."""
    crt, key = certificates.write_pair(folder)
    said = {
        "address": "127.0.0.1:0", "certificate": str(crt), "key": str(key),
        "tokens": str(folder / "tokens.json"),
    } | changes  # fmt: skip
    lines = [f"{name} = {json.dumps(value)}" for name, value in said.items() if value]
    file = folder / "brokerd.toml"
    file.write_text("\n".join(["[access]", *lines]))
    return file


def open_to_all(folder: Path) -> None:
    (folder / "tokens.json").chmod(0o644)


def open_key(folder: Path) -> None:
    (folder / "tls.key").chmod(0o640)


def no_token(folder: Path) -> None:
    write_book(folder / "tokens.json", [])


@pytest.mark.parametrize(
    ("changes", "spoil", "words"),
    [
        ({"certificate": ""}, None, "access.certificate: is missing"),
        ({"key": ""}, None, "access.key: is missing"),
        ({"key": "tls.key"}, None, "access.key: is not an absolute path"),
        ({"tokens": "/nowhere/tokens"}, None, "/nowhere/tokens is not there; no other machine"),
        ({"client_ca": "/nowhere/ca"}, None, "/nowhere/ca is not there"),
        ({"certificate": "/dev/null"}, None, "/dev/null is no file"),
        ({"address": "broker.example:1"}, None, "give the address of an interface"),
        ({"address": "0.0.0.0"}, None, "'0.0.0.0' is not HOST:PORT"),
        ({}, open_to_all, "tokens.json can be read or written by others"),
        ({}, open_key, "tls.key can be read or written by others"),
        ({}, no_token, "holds no token; no other machine is served"),
    ],
)
def test_no_other_machine_is_served_without_all_that_it_takes(
    tmp_path: Path,
    changes: dict[str, str],
    spoil: Callable[[Path], None] | None,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = settings(tmp_path, **changes)
    write_book(tmp_path / "tokens.json", [ANN])
    if spoil is not None:
        spoil(tmp_path)
    monkeypatch.setattr(os, "umask", lambda mask: mask)  # what brokerd's process sets for itself
    data = tmp_path / "data"
    assert daemon.main(["--config", str(file), "--data-dir", str(data)]) == endings.USAGE
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.startswith("brokerd: ")
    assert said.err.count("\n") == 1
    assert not data.exists() or list(data.iterdir()) == []


def test_a_token_for_all_teams_is_made_only_for_who_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def add(*words: str) -> int:
        return daemon.main(["tokens", "add", "--data-dir", str(tmp_path), "--actor", "ann", *words])

    assert add("--role", "viewer") == endings.USAGE
    assert "--team says whose runs the token is for; - is all" in capsys.readouterr().err
    assert add("--role", "viewer", "--team", "-") == endings.OK
    assert str(tmp_path / "tokens.json") in capsys.readouterr().err
    assert add("--role", "operator") == endings.OK


def test_an_address_without_a_door_says_where_one_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert daemon.main(["--server", "0.0.0.0:7443"]) == endings.USAGE
    assert "and any other by [access] address" in capsys.readouterr().err


# ---- As processes have it -----------------------------------------------------------------------


@pytest.mark.alone
def test_a_laptop_logs_in_works_and_is_shut_out(tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "d"
    port = _free_port()
    file = settings(tmp_path, address=f"0.0.0.0:{port}", tokens="")
    at_daemon = ["--data-dir", str(data), "--config", str(file)]
    made = _run("broker.daemon", "tokens", "add", "--actor", "ann", "--team", "research", "--role",
                Role.MEMBER.value, *at_daemon)  # fmt: skip
    word = made.stdout.strip()
    kept = home / ".config" / "broker" / "logins.json"

    def typed(*words: str, said: str = "") -> subprocess.CompletedProcess[str]:
        return _run("broker.cli", *words, said=said, HOME=str(home))

    command = [sys.executable, "-m", "broker.daemon", *at_daemon]
    with (tmp_path / "log").open("w") as log:
        brokerd = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert brokerd.stdout is not None
        greeting = brokerd.stdout.readline()
        assert greeting.endswith(f"; other machines reach it at 0.0.0.0:{port}\n"), greeting
        server = f"localhost:{port}"
        others = str(certificates.write_roots(tmp_path, "other"))
        refused = typed("login", "--server", server, "--ca", others, said=f"{word}\n")
        assert refused.returncode == exits.DENIED
        assert refused.stderr.startswith(f"broker: what answers at {server} shows no certificate")
        ca = str(certificates.write_roots(tmp_path))
        logged_in = typed("login", "--server", server, "--ca", ca, said=f"{word}\n")
        assert logged_in.returncode == exits.OK, logged_in.stderr
        assert logged_in.stdout == f"logged in to {server} as ann, member of teams/research\n"
        assert kept.stat().st_mode & 0o777 == 0o600
        assert typed("ls").returncode == exits.OK
        assert typed("regions", "cordon", "us-east4").returncode == exits.DENIED
        _run("broker.daemon", "tokens", "revoke", word[4:16], *at_daemon)
        deadline = time.monotonic() + WITHIN_S
        while (shut_out := typed("ls")).returncode == exits.OK:
            assert time.monotonic() < deadline
        assert shut_out.returncode == exits.DENIED
        assert shut_out.stderr == (
            "broker: no valid token came with the call\n"
            "Log in with a token of its ops: `broker login --server HOST:PORT`.\n"
        )
        assert typed("logout").returncode == exits.OK
        assert word not in kept.read_text()
    finally:
        brokerd.send_signal(signal.SIGTERM)
        brokerd.communicate(timeout=WITHIN_S)
        _run("broker.daemon", "stop-embedded", *at_daemon)
    assert "Handshake failed" not in (tmp_path / "log").read_text()
    secrets = (word, word[17:])
    files = [one for one in data.rglob("*") if one.is_file() and one.suffix != ".sock"]
    for path in (tmp_path / "log", *files):
        content = path.read_bytes()
        assert not any(secret.encode() in content for secret in secrets), path


def _run(module: str, *words: str, said: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        input=said,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
        env={**os.environ, **env},
    )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port
