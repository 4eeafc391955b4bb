"""How a broker of another machine is reached: over TLS, with a token.

The rule: a token is sent over TLS or not at all, and no value here shows it. A socket, and an
address of this machine that nobody logged in to, are reached as they are, without either. Read
``found`` first.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from broker.sdk.errors import SettingsError
from broker.sdk.logins import Login

PEM_MAX_BYTES = 1 << 20
Token = str | Callable[[], str]
_WORD = re.compile(r"[\x21-\x7e]{1,512}")
_LOOPBACK = re.compile(r"(?:localhost|127\.[0-9.]+|\[::1\]):[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a connection over TLS is made with.

    ``token`` may be a function, which is asked before each call and must answer at once; empty:
    none is sent. ``ca``, ``certificate`` and ``key`` are PEM; no ``ca``: the system's own.
    """

    token: Token = field(default="", repr=False)
    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)

    def word(self) -> str:
        """Return the token for one call. Raises SettingsError for what no header can carry."""
        word = self.token if isinstance(self.token, str) else self.token()
        if word and not _WORD.fullmatch(word):
            raise SettingsError("token", "is no token: it holds a space, or what is not ASCII")
        return word


def found(
    server: str,
    *,
    token: Token,
    ca: Path | None,
    pair: tuple[Path, Path] | None,
    env: Mapping[str, str],
    login: Login | None,
) -> Access | None:
    """Return how a server is reached, None for without TLS.

    What is said comes first, then BROKER_TOKEN and BROKER_CA, then the login. Raises SettingsError.
    """
    if server.startswith("unix:"):
        return None
    ca = ca or (Path(env["BROKER_CA"]) if env.get("BROKER_CA") else None)
    is_told = bool(token or ca or pair or login)
    if _LOOPBACK.fullmatch(server) and not is_told:
        return None
    login = login or Login()
    if pair is None and login.certificate:
        pair = (Path(login.certificate), Path(login.key))
    access = Access(
        token=token or env.get("BROKER_TOKEN") or login.token,
        ca=_read(ca, "CA") if ca else login.ca.encode() or None,
        certificate=_read(pair[0], "certificate") if pair else None,
        key=_read(pair[1], "key") if pair else None,
    )
    if isinstance(access.token, str):
        access.word()
    return access


def _read(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(PEM_MAX_BYTES)
    except OSError as error:
        raise SettingsError(f"{what} {path}", f"cannot be read: {error.strerror}") from error
    if b"-----BEGIN " not in data:
        raise SettingsError(f"{what} {path}", "is not PEM")
    return data
