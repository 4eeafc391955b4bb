"""The diary to which every command writes its first word, and when. Read ``Diary``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.cluster.rig.waiting import wait_until

WITHIN_S = 1800.0


class Asked(Protocol):
    """Who is asked for starts."""

    def ask(self, names: Sequence[str]) -> None:
        """Ask for a start by each name."""


class Diary:
    """One file; each line is one append of one process: the start's name, and Unix seconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()

    def command(self, name: str) -> list[str]:
        """Return the command that all sides start."""
        return ["sh", "-c", f"echo {name} $(date +%s.%N) >> {self._path}"]

    def race(self, side: Asked, names: Sequence[str]) -> float:
        """Ask a side for starts; return the seconds until the last of the commands began."""
        began_s = time.time()
        side.ask(names)
        wait_until(lambda: not self._missing(names), WITHIN_S, f"{len(names)} starts")
        found = self._read()
        return max(found[name] for name in names) - began_s

    def _missing(self, names: Sequence[str]) -> set[str]:
        return set(names) - self._read().keys()

    def _read(self) -> dict[str, float]:
        lines = (line.split() for line in self._path.read_text().splitlines())
        return {line[0]: float(line[1]) for line in lines}
