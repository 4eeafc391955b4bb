"""What a command and its environment may ask to be filled in where the process runs.

The rule: ``${RANK}`` and the other documented names become their values, ``$${`` becomes a literal
``${``, and everything else stays as it is. What is filled in is not looked into again.
Read ``expand``.
"""

from __future__ import annotations

import re
from typing import Dict, Mapping, Tuple

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
PREFIX = "BROKER_"
_PLACE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def expand(text: str, values: Mapping[str, str]) -> str:
    """Return the text with the run-time names filled in; one without a value stays as it is."""
    if "${" not in text:
        return text

    def value(match: "re.Match[str]") -> str:
        if match.group() == "$${":
            return "${"
        name = match.group(1)
        is_known = name in NAMES or name.startswith(PREFIX)
        return values.get(name, match.group()) if is_known else match.group()

    return _PLACE.sub(value, text)


def expand_all(
    command: Tuple[str, ...], environ: Mapping[str, str]
) -> Tuple[Tuple[str, ...], Dict[str, str]]:
    """Return a command and its environment, filled in from that environment."""
    filled = {name: expand(value, environ) for name, value in environ.items()}
    return tuple(expand(word, environ) for word in command), filled
