"""Logins out of the file that `docker login` writes; nothing of them is in an error."""

import base64
import json
from pathlib import Path

import pytest

from replicator.errors import LoginRefused
from replicator.oci.docker_config import from_file, read_login
from replicator.oci.login import Login

SECRET = "open-sesame"
AUTH = base64.b64encode(f"who:{SECRET}".encode()).decode()


def told(auths: object) -> bytes:
    return json.dumps({"auths": auths}).encode()


@pytest.mark.parametrize(
    ("registry", "auths"),
    [
        ("r.example", {"r.example": {"auth": AUTH}}),
        ("r.example", {"https://r.example": {"auth": AUTH}}),
        ("r.example", {"r.example": {"username": "who", "password": SECRET}}),
        ("docker.io", {"https://index.docker.io/v1/": {"auth": AUTH}}),
        ("r.example:5000", {"r.example": {}, "r.example:5000": {"auth": AUTH}}),
    ],
)
def test_a_login_is_found_by_its_registry(registry: str, auths: object) -> None:
    assert read_login(told(auths), registry, "/f") == Login(user="who", secret=SECRET)


@pytest.mark.parametrize(
    "data",
    [
        told({"other.example": {"auth": AUTH}}),
        told({"r.example": {"auth": AUTH[1:]}}),
        told({"r.example": {"auth": base64.b64encode(SECRET.encode()).decode()}}),
        told({"r.example": {"username": "who", "password": 7, "was": SECRET}}),
        told({"r.example": {}}),
        told([SECRET]),
        SECRET.encode(),
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_what_holds_no_login_is_refused_without_a_word_of_it(data: bytes) -> None:
    with pytest.raises(LoginRefused) as caught:
        read_login(data, "r.example", "/f")
    seen = f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"
    assert SECRET not in seen
    assert AUTH[1:] not in seen
    assert "/f" in str(caught.value)


async def test_a_renewed_file_counts_at_once_and_a_missing_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    source = from_file(path, "r.example")
    with pytest.raises(LoginRefused, match=r"config\.json cannot be read"):
        await source()
    path.write_bytes(told({"r.example": {"username": "who", "password": "old"}}))
    assert await source() == Login(user="who", secret="old")
    path.write_bytes(told({"r.example": {"username": "who", "password": "new"}}))
    assert await source() == Login(user="who", secret="new")
