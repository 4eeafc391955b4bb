"""What a container's process finds in its environment, and its arguments, as a kubelet makes them.

Read ``references``: it names what has to be asked for first; ``environment`` and ``expanded`` are
pure.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

Object = dict[str, object]


def field(pod: Mapping[str, object], path: str) -> str:
    """Return a pod's field as the downward API gives it, empty when it is not set."""
    keyed = re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path)
    value: object = pod
    for part in ["metadata", keyed[1], keyed[2]] if keyed else path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)


def expanded(text: str, env: Mapping[str, str]) -> str:
    """Replace $(NAME) by what is known under that name; $$ is a plain $."""

    def one(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return env.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([A-Za-z_.-][\w.-]*)\)", one, text)


def base(home: Path, hostname: str) -> dict[str, str]:
    """Return what every container has: this machine's Python is its image."""
    here = str(Path(sys.executable).parent)
    return {
        "PATH": f"{here}:{os.environ.get('PATH', '/usr/bin:/bin')}",
        "HOME": str(home),
        "HOSTNAME": hostname,
        "LANG": os.environ.get("LANG", "C.UTF-8"),
    }


def quantity(text: str) -> float:
    """Return what a resource quantity stands for, in its base unit."""
    found = re.fullmatch(r"([\d.]+)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?", str(text))
    if found is None:
        raise ValueError(f"not a quantity: {text!r}")
    powers = {None: 1.0, "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
    powers |= {f"{letter}i": 1024.0 ** (n + 1) for n, letter in enumerate("KMGTP")}
    return float(found[1]) * powers[found[2]]
