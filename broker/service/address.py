"""Which addresses may be served.

The rule: as long as there is no authentication nobody but this machine is served. Read
``check_address``.
"""

import ipaddress
import re
from pathlib import PurePosixPath

SOCKET_PATH_MAX = 100  # bytes: what sun_path holds on every Unix, with room for its end
_HOST_PORT = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.\-]+):(?P<port>[0-9]{1,5})")


class AddressRefusedError(ValueError):
    """An address that must not be served."""


def check_address(address: str) -> str:
    """Return a ``unix:`` path or a loopback ``HOST:PORT``, as gRPC takes it.

    Raises AddressRefusedError for any other, as long as there is no authentication.
    """
    if address.startswith("unix:"):
        path = address.removeprefix("unix://" if address.startswith("unix:///") else "unix:")
        if not PurePosixPath(path).is_absolute():
            raise AddressRefusedError(f"{address!r}: the path of a socket must be absolute")
        if len(path.encode()) > SOCKET_PATH_MAX:
            raise AddressRefusedError(
                f"{address!r}: the path of a socket has at most {SOCKET_PATH_MAX} bytes"
            )
        return f"unix:{path}"
    match = _HOST_PORT.fullmatch(address)
    if match is None or int(match["port"]) > 65_535:
        raise AddressRefusedError(f"{address!r} is neither unix:/PATH nor HOST:PORT")
    host = match["host"]
    # A name is resolved by somebody else, who may change their mind: only localhost is taken.
    literal = {"localhost": "127.0.0.1"}.get(host, host.strip("[]"))
    if not _is_loopback(literal):
        raise AddressRefusedError(
            f"{address!r} can be reached from other machines; without authentication only"
            " a Unix socket or a loopback address is served"
        )
    return f"[{literal}]:{match['port']}" if ":" in literal else f"{literal}:{match['port']}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
