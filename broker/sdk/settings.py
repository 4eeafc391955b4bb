"""Which broker is asked, for which team, in whose name.

The rule: what is said comes first, then the environment (BROKER_SERVER, BROKER_TEAM, BROKER_USER),
then the file ``~/.config/broker/config.toml``, then the default socket. Read ``find`` first.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.sdk.errors import IntentError

DEFAULT_TEAM = "default"
SOCKET = "brokerd.sock"
FIELDS = ("server", "team", "user")
FILE_MAX_BYTES = 64 * 1024
USER_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which broker, which team, whose name, and where the address was found."""

    server: str
    team: str
    user: str
    source: str


def find(
    *, server: str = "", team: str = "", user: str = "", environ: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings; what is given wins. Raises IntentError for an unusable file."""
    env = os.environ if environ is None else environ
    home = Path(env.get("HOME") or Path.home())
    file = _config_file(env, home)
    written = {} if server and team and user else _read(file)
    address, source = _server(server, env, home, (written, file))
    return Settings(
        server=address,
        team=team or env.get("BROKER_TEAM") or written.get("team") or DEFAULT_TEAM,
        user=(user or env.get("BROKER_USER") or written.get("user") or _login(env))[:USER_MAX],
        source=source,
    )


def _server(
    said: str, env: Mapping[str, str], home: Path, written: tuple[Mapping[str, str], Path]
) -> tuple[str, str]:
    if said:
        return said, "--server"
    if env.get("BROKER_SERVER"):
        return env["BROKER_SERVER"], "BROKER_SERVER"
    if written[0].get("server"):
        return written[0]["server"], str(written[1])
    return f"unix:{default_socket(env, home)}", "the default socket"


def default_socket(env: Mapping[str, str], home: Path) -> Path:
    """Return where a brokerd listens that was told nothing: in its data directory."""
    state = env.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else home / ".local" / "state"
    at_home = base / "broker" / SOCKET
    if env.get("XDG_RUNTIME_DIR"):
        at_runtime = Path(env["XDG_RUNTIME_DIR"]) / "broker" / SOCKET
        if at_runtime.exists():
            return at_runtime
    return at_home


def _config_file(env: Mapping[str, str], home: Path) -> Path:
    if env.get("BROKER_CONFIG"):
        return Path(env["BROKER_CONFIG"])
    base = env.get("XDG_CONFIG_HOME")
    return (Path(base) if base else home / ".config") / "broker" / "config.toml"


def _read(file: Path) -> dict[str, str]:
    try:
        with file.open("rb") as opened:
            data = opened.read(FILE_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise IntentError(str(file), f"cannot be read: {error.strerror}") from error
    return _parsed(data, str(file))


def _parsed(data: bytes, source: str) -> dict[str, str]:
    import tomllib

    try:
        table = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise IntentError(source, f"is not TOML: {error}") from error
    for name, value in table.items():
        if name not in FIELDS:
            raise IntentError(f"{source}: {name}", f"is not known; these are: {', '.join(FIELDS)}")
        if not isinstance(value, str):
            raise IntentError(f"{source}: {name}", "must be a text")
    return table


def _login(env: Mapping[str, str]) -> str:
    name = env.get("LOGNAME") or env.get("USER") or f"uid-{os.getuid()}"
    return re.sub(r"[^\x21-\x7e]", "_", name)
