"""Which broker is asked, for which team, in whose name, and with which token.

The rule: what is said comes first, then the environment (BROKER_SERVER, BROKER_TEAM, BROKER_USER,
BROKER_TOKEN, BROKER_CA), then the file ``~/.config/broker/config.toml``, then what ``broker login``
kept beside it, then the default socket. An address that is none is refused before anybody is asked:
gRPC would look for a host of that name. Read ``find`` first.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.sdk import access, logins
from broker.sdk.access import Access, Token
from broker.sdk.errors import SettingsError

DEFAULT_TEAM = "default"
SOCKET = "brokerd.sock"
FIELDS = ("server", "team", "user")
FILE_MAX_BYTES = 64 * 1024
USER_MAX = 64
PORT_MAX = 65_535
_HOST_PORT = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")
_HEADER = re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which broker, which team, whose name, and where the address was found.

    ``access`` is how a broker of another machine is reached, None for one of this machine.
    """

    server: str
    team: str
    user: str
    source: str
    access: Access | None = None


def find(
    *,
    server: str = "",
    team: str = "",
    user: str = "",
    token: Token = "",
    ca: Path | None = None,
    pair: tuple[Path, Path] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings; what is given wins.

    ``token`` may be a function that is asked before each call; ``ca`` is the file of whoever signed
    the broker's certificate; ``pair`` a certificate of one's own, and its key. Raises SettingsError
    for an unusable file, an address of no known form, or a name that no header can carry.
    """
    env = os.environ if environ is None else environ
    home = Path(env.get("HOME") or Path.home())
    file = _config_file(env, home)
    written = {} if server and team and user else _read(file)
    kept = logins.read(logins_file(env))
    address, source = _server(server, env, home, (written, file), kept.latest)
    address = _checked(address, source)
    login = kept.servers.get(address)
    for said, where in (
        (user, "user"),
        (env.get("BROKER_USER", ""), "BROKER_USER"),
        (written.get("user", ""), f"{file}: user"),
    ):
        if not _HEADER.fullmatch(said):
            raise SettingsError(where, f"{said!a} is not printable ASCII")
    return Settings(
        server=address,
        team=team
        or env.get("BROKER_TEAM")
        or written.get("team")
        or (login and login.team)
        or DEFAULT_TEAM,
        user=(user or env.get("BROKER_USER") or written.get("user") or _login(env))[:USER_MAX],
        source=source,
        access=access.found(address, token=token, ca=ca, pair=pair, env=env, login=login),
    )


def logins_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return where ``broker login`` keeps what it was told."""
    env = os.environ if environ is None else environ
    home = Path(env.get("HOME") or Path.home())
    return _config_file(env, home).with_name(logins.NAME)


def _server(
    said: str,
    env: Mapping[str, str],
    home: Path,
    written: tuple[Mapping[str, str], Path],
    latest: str,
) -> tuple[str, str]:
    if said:
        return said, "--server"
    if env.get("BROKER_SERVER"):
        return env["BROKER_SERVER"], "BROKER_SERVER"
    if written[0].get("server"):
        return written[0]["server"], str(written[1])
    if latest:
        return latest, "the last login"
    return f"unix:{default_socket(env, home)}", "the default socket"


def _checked(address: str, source: str) -> str:
    found = _HOST_PORT.fullmatch(address)
    is_host_port = found is not None and int(found["port"]) <= PORT_MAX
    is_socket = re.fullmatch(r"unix:(?://)?/[^\x00-\x1f\x7f]+", address) is not None
    if not (is_socket or is_host_port):
        raise SettingsError(source, f"{address[:80]!a} is neither unix:/PATH nor HOST:PORT")
    return address


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
        raise SettingsError(str(file), f"cannot be read: {error.strerror}") from error
    return _parsed(data, str(file))


def _parsed(data: bytes, source: str) -> dict[str, str]:
    import tomllib

    try:
        table = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise SettingsError(source, f"is not TOML: {error}") from error
    for name, value in table.items():
        if name not in FIELDS:
            raise SettingsError(
                f"{source}: {name}", f"is not known; these are: {', '.join(FIELDS)}"
            )
        if not isinstance(value, str):
            raise SettingsError(f"{source}: {name}", "must be a text")
    return table


def _login(env: Mapping[str, str]) -> str:
    name = env.get("LOGNAME") or env.get("USER") or f"uid-{os.getuid()}"
    return re.sub(r"[^\x21-\x7e]", "_", name)
