"""Logins as ``docker login`` and ``skopeo login`` keep them, and as Kubernetes' pull secrets do.

The rule: the file is read whenever a registry asks who we are, so that a secret that is renewed
counts at once, and nothing of it is in an error. Helpers that would be run as programs are not.
Read ``from_file`` first.
"""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

from replicator.errors import LoginRefused
from replicator.oci.login import Login, LoginSource

MAX_BYTES = 1 << 20
_HUB = ("https://index.docker.io/v1/", "index.docker.io", "registry-1.docker.io")


def from_file(path: Path, registry: str) -> LoginSource:
    """Return the LoginSource that reads the login for a registry out of a file."""

    async def login() -> Login:
        return read_login(await asyncio.to_thread(_read, path, registry), registry, str(path))

    return login


def read_login(data: bytes, registry: str, source: str) -> Login:
    """Return the login for a registry. Raises LoginRefused, which names the file alone."""
    try:
        found = json.loads(data)["auths"]
        named = (registry, f"https://{registry}", f"https://{registry}/v2/")
        hub = _HUB if registry == "docker.io" else ()
        entry = next((found[key] for key in (*named, *hub) if key in found), None)
        if entry is None:
            raise LoginRefused(registry, f"{source} has no login for it")
        return _login(entry)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    # Not within the handler: what could not be read would be told along.
    raise LoginRefused(registry, f"{source} is not as `docker login` writes it")


def _login(entry: dict[str, Any]) -> Login:
    if "auth" not in entry:
        return _checked(entry["username"], entry["password"])
    pair = base64.b64decode(entry["auth"], validate=True).decode()
    user, _, secret = pair.partition(":")
    return _checked(user, secret)


def _checked(user: object, secret: object) -> Login:
    if not isinstance(user, str) or not isinstance(secret, str) or not user or not secret:
        raise ValueError
    return Login(user=user, secret=secret)


def _read(path: Path, registry: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES)
    except OSError as error:
        raise LoginRefused(registry, f"{path} cannot be read: {error.strerror}") from error
