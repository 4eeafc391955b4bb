"""The file in which ``broker login`` keeps how each broker of another machine is reached.

The rule: it holds tokens, so nobody else may read it, and it is written whole with mode 0600; what
is said of it never holds what stands in it. Read ``read`` first.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from broker.sdk.errors import SettingsError

NAME = "logins.json"
FILE_MAX_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How one broker is reached.

    ``ca`` is PEM, empty for the system's own; ``certificate`` and ``key`` are paths, empty for
    none; ``team`` is the one that the token is for, empty for all.
    """

    token: str = field(default="", repr=False)
    ca: str = ""
    certificate: str = ""
    key: str = ""
    team: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logins:
    """All of them by address, and which one is asked when nothing else is said."""

    servers: Mapping[str, Login]
    latest: str = ""

    def with_one(self, server: str, login: Login) -> "Logins":
        """Return them with one more, which is the latest."""
        return Logins(servers={**self.servers, server: login}, latest=server)

    def without(self, server: str) -> "Logins":
        """Return them without one."""
        rest = {name: login for name, login in self.servers.items() if name != server}
        return replace(self, servers=rest, latest="" if self.latest == server else self.latest)


def read(path: Path) -> Logins:
    """Return what a file holds; nothing for one that is not there. Raises SettingsError."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(FILE_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Logins(servers={})
    except OSError as error:
        raise SettingsError(str(path), f"cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise SettingsError(str(path), f"can be read by others: chmod 600 {path}")
    # Who never logged in is spared its import.
    import json

    try:
        return _parsed(json.loads(data))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        wrong = "is not as broker login writes it; remove it, and log in again"
        raise SettingsError(str(path), wrong) from None


def write(path: Path, logins: Logins) -> None:
    """Put logins into a file that nobody else can read. Raises SettingsError."""
    import json
    import tempfile

    said = {"latest": logins.latest, "servers": {k: asdict(v) for k, v in logins.servers.items()}}
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{NAME}.", dir=path.parent)  # with mode 0600
        try:
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(said, file, indent=2)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SettingsError(str(path), f"cannot be written: {error.strerror}") from error


def _parsed(said: Any) -> Logins:
    known = {one.name for one in fields(Login)}
    servers = {}
    for server, values in said["servers"].items():
        if not set(values) <= known or not all(isinstance(one, str) for one in values.values()):
            raise ValueError
        servers[server] = Login(**values)
    latest = said["latest"]
    if not isinstance(latest, str):
        raise ValueError
    return Logins(servers=servers, latest=latest if latest in servers else "")
