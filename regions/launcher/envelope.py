"""Many variables carried in one: what a cluster that is charged by the variable tells its gangs.

The rule: whoever opens it has the environment that each variable by itself would have made. Read
``opened`` first.
"""

from __future__ import annotations

import json
from typing import Mapping

NAME = "BROKER_LAUNCH"


class BadEnvelope(ValueError):
    """What is carried is no environment; the message names the variable that carries it."""


def closed(variables: Mapping[str, str]) -> str:
    """Return the variables as the value of the one that carries them."""
    # Blanks between them, so that it is folded there where people look at it.
    return json.dumps(dict(variables), sort_keys=True, separators=(", ", ":"))


def opened(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with what one variable carries in its place, or raise BadEnvelope."""
    if NAME not in environ:
        return environ
    try:
        carried = json.loads(environ[NAME])
    except (ValueError, RecursionError) as error:
        raise BadEnvelope(f"{NAME} is not JSON: {error}") from error
    if not isinstance(carried, dict):
        raise BadEnvelope(f"{NAME} is no object of JSON")
    for name, value in carried.items():
        if not _is_variable(name, value):
            raise BadEnvelope(f"{NAME} carries what is no variable: {name[:80]!r}")
    # It overrides what the image says, as each variable by itself would.
    return {**{name: environ[name] for name in environ if name != NAME}, **carried}


def _is_variable(name: str, value: object) -> bool:
    if not isinstance(value, str) or not name or "=" in name:
        return False
    # JSON lets through what no environment takes: a NUL, and half a character.
    return not any(one == "\0" or "\ud800" <= one <= "\udfff" for one in name + value)
