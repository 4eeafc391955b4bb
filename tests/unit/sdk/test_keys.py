"""Keys stay at home: told by their names and by what stands in them, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.sdk.bundle import KEYS_SAID, pack
from broker.sdk.errors import BundleError
from broker.sdk.keys import READ_MAX_BYTES, kind_by_content, kind_by_name

SECRET = "c2VjcmV0LXNlY3JldC1zZWNyZXQ"
PEM = f"-----BEGIN {{}}PRIVATE KEY-----\n{SECRET}\n-----END {{}}PRIVATE KEY-----\n"
ACCOUNT = f'{{"type": "service_account", "private_key": "{SECRET}"}}'
KUBE = f"apiVersion: v1\nkind: Config\nusers:\n- name: a\n  user:\n    token: {SECRET}\n"


@pytest.mark.parametrize(
    "path",
    [
        "id_rsa",
        "keys/id_ed25519",
        ".env",
        "app/.env.production",
        "prod.env",
        ".netrc",
        ".git-credentials",
        ".aws/credentials",
        "home/.kube/config",
        ".docker/config.json",
        ".ssh/github",
        "cert.p12",
    ],
)
def test_a_key_is_known_by_its_name(path: str) -> None:
    assert kind_by_name(path)


@pytest.mark.parametrize(
    "path",
    [
        "id_rsa.pub",
        ".ssh/id_rsa.pub",
        ".ssh/known_hosts",
        ".env.example",
        ".env.template",
        "example.env",
        "environment.yaml",
        "env.py",
        "config.json",
        "server.pem",
        "train.py",
        ".aws/config",
    ],
)
def test_what_is_meant_to_be_seen_is_no_key_by_its_name(path: str) -> None:
    assert kind_by_name(path) == ""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (PEM.format("", ""), "a private key"),
        (PEM.format("RSA ", "RSA "), "a private key"),
        (PEM.format("OPENSSH ", "OPENSSH "), "a private key"),
        (f"-----BEGIN PGP PRIVATE KEY BLOCK-----\r\n{SECRET}", "a private key"),
        (ACCOUNT, "a service account's key"),
        (ACCOUNT.replace(": ", ":"), "a service account's key"),
        (f'{{"type": "authorized_user", "refresh_token": "{SECRET}"}}', "a login at Google"),
        (f"[default]\naws_secret_access_key = {SECRET}\n", "a login at AWS"),
        (KUBE, "logins at clusters"),
        ("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", ""),
        ('is_key = "-----BEGIN PRIVATE KEY-----" in text\n', ""),
        ('{"type": "service_account", "email": "a@b"}', ""),
        ("kind: Config\nusers: []\n", ""),
        ("kind: ConfigMap\ntoken: nothing\n", ""),
        ("aws_secret_access_key = ${KEY}\n", ""),
        ("", ""),
    ],
)
def test_a_key_is_known_by_what_stands_in_it(tmp_path: Path, text: str, kind: str) -> None:
    (tmp_path / "notes.txt").write_bytes(text.encode())
    assert kind_by_content(tmp_path / "notes.txt") == kind


def test_a_large_file_is_data(tmp_path: Path) -> None:
    (tmp_path / "large").write_text(PEM.format("", "") + "x" * READ_MAX_BYTES)
    assert kind_by_content(tmp_path / "large") == ""


def test_a_key_is_refused_by_name_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("pass")
    (tmp_path / ".env").write_text(f"HUB_TOKEN={SECRET}")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "robot.json").write_text(ACCOUNT)
    with pytest.raises(BundleError) as caught:
        pack(tmp_path)
    said = str(caught.value)
    assert ".env (an environment with its secrets), conf/robot.json (a service account's" in said
    assert ".gitignore" in said
    assert "--pack-key" in said
    assert SECRET not in said


def test_a_key_that_is_ignored_or_allowed_by_its_owner_is_none(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=b")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "test.pem").write_text(PEM.format("", ""))
    with pack(tmp_path, keys_allowed=(".env", "keys/*")) as packed:
        assert packed.paths == (".env", "keys/test.pem")
    with pytest.raises(BundleError, match=r"not packed: keys/test\.pem \(a private key\)\. Name"):
        pack(tmp_path, keys_allowed=(".env",))
    (tmp_path / ".gitignore").write_text(".env\n*.pem\n")
    with pack(tmp_path) as packed:
        assert packed.paths == (".gitignore",)


def test_of_many_keys_some_are_named(tmp_path: Path) -> None:
    for number in range(KEYS_SAID + 2):
        (tmp_path / f"k{number:02}.pem").write_text(PEM.format("", ""))
    with pytest.raises(BundleError, match=r"k09\.pem \(a private key\), and 2 more\. Name"):
        pack(tmp_path)
