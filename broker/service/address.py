"""Which addresses may be served.

The rule: without tokens nobody but this machine is served; what other machines reach is another
address, that wants them. Read ``check_address``.
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

    Raises AddressRefusedError for any other: here nobody is asked for a token.
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
            f"{address!r} can be reached from other machines, and no token is asked for there:"
            " a Unix socket or a loopback address is served so, and any other by [access] address"
        )
    return f"[{literal}]:{match['port']}" if ":" in literal else f"{literal}:{match['port']}"


def check_outward(address: str) -> str:
    """Return the ``HOST:PORT`` that other machines reach, as gRPC takes it.

    Raises AddressRefusedError for what is no address of an interface: a name is resolved by
    somebody else, who may change their mind.
    """
    match = _HOST_PORT.fullmatch(address)
    if match is None or int(match["port"]) > 65_535:
        raise AddressRefusedError(f"{address!r} is not HOST:PORT")
    host = {"localhost": "127.0.0.1"}.get(match["host"], match["host"].strip("[]"))
    try:
        literal = ipaddress.ip_address(host)
    except ValueError as error:
        raise AddressRefusedError(
            f"{address!r} names a host; give the address of an interface, 0.0.0.0 or [::] for all"
        ) from error
    return f"[{literal}]:{match['port']}" if literal.version == 6 else f"{literal}:{match['port']}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
