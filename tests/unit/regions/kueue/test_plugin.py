"""Credentials that a kubeconfig or its plugin does not give: what is said, what is kept quiet."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from regions.kueue.credentials import Kubeconfig, Login
from regions.kueue.errors import AccessError

VERSION = "client.authentication.k8s.io/v1"
SECRET = "k4x9-secret"
WITHIN_S = 10.0


def kubeconfig(folder: Path, user: object, **more: object) -> Kubeconfig:
    path = folder / "kubeconfig"
    told = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": user}],
        "current-context": "x",
    }
    path.write_text(json.dumps(told | more))
    return Kubeconfig(path=str(path))


def plugin(folder: Path, script: str, **more: object) -> Kubeconfig:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return kubeconfig(folder, {"exec": {"apiVersion": VERSION, "command": str(path)} | more})


def printing(folder: Path, answer: object) -> Kubeconfig:
    (folder / "answer").write_text(json.dumps(answer))
    return plugin(folder, f"cat '{folder / 'answer'}'")


def answer(**status: object) -> dict[str, object]:
    return {"apiVersion": VERSION, "kind": "ExecCredential", "status": status}


async def token_of(credentials: Kubeconfig) -> str:
    found = await Login(credentials, WITHIN_S).refresh()
    return str(found.api_key["BearerToken"])


async def refused(
    credentials: Kubeconfig, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> str:
    """Return what is said, having seen that it is nothing secret, here and in what is logged."""
    with pytest.raises(AccessError) as caught:
        await Login(credentials, WITHIN_S).refresh()
    assert SECRET not in "".join((str(caught.value), caplog.text, *capfd.readouterr()))
    assert caught.value.__cause__ is None
    return str(caught.value)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (f"echo {SECRET}; echo {SECRET} >&2; exit 3", "ended with 3"),
        (f"echo {SECRET}", "no ExecCredential"),
        ("head -c 2000000 /dev/zero", "more than 1048576 bytes"),
        ("", "no ExecCredential"),
    ],
)
async def test_a_plugin_that_fails_is_said_and_what_it_prints_is_not(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    script: str,
    why: str,
) -> None:
    said = await refused(plugin(tmp_path, script), caplog, capfd)
    assert why in said
    assert f"the credential plugin {tmp_path / 'plugin'}" in said


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([SECRET], "no ExecCredential"),
        ({**answer(token=SECRET), "apiVersion": SECRET}, "no ExecCredential of"),
        ({**answer(token=SECRET), "kind": SECRET}, "no ExecCredential of"),
        (answer(token=5), "no ExecCredential"),
        (answer(), "no token"),
        (answer(clientCertificateData=SECRET), "no certificate with its key"),
        (answer(token=SECRET, expirationTimestamp=SECRET), "when its credentials end"),
        (answer(token=f"{SECRET}\nHost: other"), "as a token is none"),
        (answer(token=f"{SECRET} \u2603"), "as a token is none"),
    ],
)
async def test_an_answer_that_is_none_is_not_taken_for_being_nobody(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    told: object,
    why: str,
) -> None:
    assert why in await refused(printing(tmp_path, told), caplog, capfd)


async def test_a_plugin_that_is_not_there_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    found = kubeconfig(tmp_path, {"exec": {"apiVersion": VERSION, "command": "no-such-plugin"}})
    said = await refused(found, caplog, capfd)
    assert said.endswith("no-such-plugin gave no credentials: No such file or directory")


async def test_a_plugin_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    found = plugin(tmp_path, f"sleep 600 & echo $! $$ > '{pids}'; wait")
    with pytest.raises(AccessError, match="did not come within"):
        await Login(found, 0.5).refresh()
    for pid in map(int, pids.read_text().split()):
        for _ in range(1000):
            if is_gone(pid):
                break
            await asyncio.sleep(0.01)
        else:
            pytest.fail(f"process {pid} is still there")


def is_gone(pid: int) -> bool:
    """Whether a process is over, waited for or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_a_plugin_that_says_much_to_people_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "answer").write_text(json.dumps(answer(token=SECRET)))
    script = f"head -c 300000 /dev/zero >&2; cat '{tmp_path / 'answer'}'"
    assert await token_of(plugin(tmp_path, script)) == f"Bearer {SECRET}"


async def test_a_plugin_gets_what_the_kubeconfig_says_and_stands_beside_it(tmp_path: Path) -> None:
    (tmp_path / "answer").write_text(json.dumps(answer(token="a-b")))
    script = f"test \"$KEY-$1\" = a-b && cat '{tmp_path / 'answer'}'"
    called = {"args": ["b"], "env": [{"name": "KEY", "value": "a"}], "command": "./plugin"}
    assert await token_of(plugin(tmp_path, script, **called)) == "Bearer a-b"


@pytest.mark.parametrize(
    ("user", "more", "why"),
    [
        ({"exec": SECRET}, {}, "exec is none"),
        ({"exec": {"command": SECRET}}, {}, "exec is none"),
        ({"token": [SECRET]}, {}, "as a token is none"),
        ({"token": f"{SECRET}\nx"}, {}, "as a token is none"),
        (SECRET, {}, "has not the form"),
        ({"client-certificate": f"-----BEGIN {SECRET}-----\n"}, {}, "has not the form"),
        ({"client-certificate": "/none/there"}, {}, "there is no file /none/there"),
        ({}, {"users": [{"name": "u", "token": SECRET}]}, "an entry of it has no user"),
        ({}, {"current-context": "other"}, "it has no context other"),
        ({}, {"clusters": [{"name": "d", "cluster": {"k": SECRET}}]}, "it has no cluster c"),
    ],
)
async def test_nothing_that_stands_in_a_kubeconfig_is_said(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    user: object,
    more: dict[str, object],
    why: str,
) -> None:
    assert why in await refused(kubeconfig(tmp_path, user, **more), caplog, capfd)


async def test_a_kubeconfig_that_is_no_yaml_says_the_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(f"kind: Config\nusers: {{token: !{SECRET} x: y\n")
    assert "no YAML from line 2 on" in await refused(Kubeconfig(path=str(path)), caplog, capfd)


async def test_the_end_of_line_of_a_tokens_file_is_none_of_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    found = kubeconfig(tmp_path, {"tokenFile": str(tmp_path / "token")})
    assert await token_of(found) == f"Bearer {SECRET}"
