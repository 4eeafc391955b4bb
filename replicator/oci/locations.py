"""Where a registry sends us, and whether we go there.

An upload goes on at the registry itself. Bytes may be fetched from a store elsewhere, without our
login; what comes is known by its digest, so a wrong store can send nothing that counts. Nothing
leads from TLS to a line without, and nothing from the network into this machine or its network's
own services. Read ``followed`` first.
"""

import ipaddress

from yarl import URL

from replicator.errors import RegistryRefused

_MAX_LENGTH = 8_000


def followed(name: str, asked: URL, location: str | None) -> URL:
    """Return where a redirect of a read leads. Raises RegistryRefused when nobody should go."""
    target = _joined(name, asked, location)
    if not same_origin(asked, target) and _is_inward(target) and not _is_inward(asked):
        raise RegistryRefused(name, "the registry sends us into the machine's own network")
    return target


def upload(name: str, asked: URL, location: str | None) -> URL:
    """Return where an upload goes on. Raises RegistryRefused unless it is at the same registry."""
    target = _joined(name, asked, location)
    if not same_origin(asked, target):
        raise RegistryRefused(name, "the registry sends an upload to another host")
    return target


def realm(name: str, registry: URL, text: str) -> URL:
    """Return where tokens are asked for. Raises RegistryRefused when that is no place to ask."""
    return _joined(name, registry, text)


def same_origin(one: URL, other: URL) -> bool:
    """Whether what one may know, the other may: the same scheme, host and port."""
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def with_query(url: URL, name: str, value: str) -> URL:
    """Return the URL with one more parameter, and every byte that was there as it was.

    What a registry hands out is signed by it, and good only as it was written.
    """
    parameter = f"{name}={value.replace(':', '%3A')}"
    query = f"{url.raw_query_string}&{parameter}" if url.raw_query_string else parameter
    return URL(f"{url.origin()}{url.raw_path}?{query}", encoded=True)


def _joined(name: str, asked: URL, location: str | None) -> URL:
    if not location or len(location) > _MAX_LENGTH or not location.isascii():
        raise RegistryRefused(name, "the registry does not say where to go on")
    if any(character <= " " or character in '"<>\\' for character in location):
        raise RegistryRefused(name, "the registry sends us to what is no address")
    try:
        target = asked.join(URL(location, encoded=True)).with_fragment(None)
        is_place = bool(target.host) and target.port is not None
    except ValueError:
        is_place = False
    if not is_place or target.scheme not in ("http", "https"):
        raise RegistryRefused(name, "the registry sends us to what is no address")
    if target.user is not None or target.password is not None:
        raise RegistryRefused(name, "the registry sends us on with a login of its own")
    if target.scheme == "http" and asked.scheme == "https":
        raise RegistryRefused(name, "the registry sends us to a line without TLS")
    return target


def _is_inward(url: URL) -> bool:
    """Whether an address is this machine's, or one that only this machine can reach so."""
    host = url.host or ""
    if host == "localhost" or host.endswith((".localhost", ".internal")):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_link_local or address.is_unspecified
