"""What a registry says when it wants a login: ``WWW-Authenticate``, of RFC 9110, section 11.6.1.

Several challenges may stand in one header, separated by the commas that separate their parameters,
too. Read ``parse`` first.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER = re.compile(
    rf'(?P<name>{_TOKEN})[ \t]*=[ \t]*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>{_TOKEN}))'
)
_SCHEME = re.compile(
    rf"(?P<scheme>{_TOKEN})(?=[ \t,]|$)(?:[ \t]+(?P<token68>[A-Za-z0-9._~+/-]+=*)(?=[ \t,]|$))?"
)
_BETWEEN = re.compile(r"[ \t,]*")
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """One way to log in: a scheme, and what it needs by name, both in small letters."""

    scheme: str
    parameters: Mapping[str, str]


def parse(headers: Iterable[str]) -> tuple[Challenge, ...]:
    """Return the challenges of all such headers; of one that is broken, those before the break."""
    return tuple(challenge for header in headers for challenge in _parse(header))


def _parse(header: str) -> list[Challenge]:
    found: list[tuple[str, dict[str, str]]] = []
    at = _skip(header, 0)
    while at < len(header):
        # A parameter is tried first: it is a scheme that an equals sign follows.
        parameter = _PARAMETER.match(header, at)
        if parameter is not None and found:
            value = parameter["plain"]
            if value is None:
                value = _ESCAPE.sub(r"\1", parameter["quoted"])
            found[-1][1].setdefault(parameter["name"].lower(), value)
            at = _skip(header, parameter.end())
            continue
        scheme = _SCHEME.match(header, at)
        if scheme is None or parameter is not None:
            break
        found.append((scheme["scheme"].lower(), {}))
        is_parameter = _PARAMETER.match(header, _skip(header, scheme.end("scheme")))
        at = _skip(header, scheme.end("scheme") if is_parameter else scheme.end())
    return [Challenge(scheme=scheme, parameters=parameters) for scheme, parameters in found]


def _skip(header: str, at: int) -> int:
    between = _BETWEEN.match(header, at)
    assert between is not None, "it matches nothing, too"
    return between.end()
