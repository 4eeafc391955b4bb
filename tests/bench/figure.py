"""A figure: what was measured, what is aimed at, and beside what it was measured.

The rule: a figure is a ratio or a bound of one run on one machine, its sides interleaved, the
median of several rounds. It is printed and written down, and never asserted. Read ``Figure`` first.
"""

from __future__ import annotations

import json
import operator
import statistics
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

OPERATORS = {"<": operator.lt, "<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure. ``aim`` is an operator and a number; ``anchor`` is what gives the value meaning:
    the other side of a ratio, or how it was measured."""

    name: str
    value: float
    aim: str
    unit: str
    anchor: str

    @property
    def is_met(self) -> bool:
        """Whether the value is what is aimed at."""
        sign, _, bound = self.aim.partition(" ")
        return bool(OPERATORS[sign](self.value, float(bound)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured. The tiny size shows that the bench works, and measures nothing."""

    rounds: int
    submits: int  # a round
    clients: int
    waiting: tuple[int, ...]  # runs that wait while a tick is measured
    ticks: int
    restart_runs: int
    cold_starts: int
    moves: int  # preemptions, and starts


FULL = Size(
    rounds=5,
    submits=2_000,
    clients=64,
    waiting=(1_000, 10_000, 50_000),
    ticks=60,
    restart_runs=10_000,
    cold_starts=15,
    moves=5,
)
TINY = Size(
    rounds=1,
    submits=20,
    clients=4,
    waiting=(10, 20),
    ticks=4,
    restart_runs=10,
    cold_starts=1,
    moves=1,
)
Measuring = Coroutine[None, None, list[Figure]]
Bench = Callable[[Size], Measuring]


def median(values: Sequence[float]) -> float:
    """Return the median, to four significant digits: a bench knows no more."""
    return float(f"{statistics.median(values):.4g}")


def show(figures: Sequence[Figure]) -> None:
    """Print the figures as a table."""
    table = Table("figure", "value", "aim", "unit", "", "measured")
    for one in figures:
        met = "met" if one.is_met else "[red]missed[/red]"
        table.add_row(one.name, f"{one.value:g}", one.aim, one.unit, met, one.anchor)
    Console(width=150).print(table)


def write(figures: Sequence[Figure], path: Path) -> None:
    """Write the figures down, for programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "name": one.name,
            "value": one.value,
            "aim": one.aim,
            "unit": one.unit,
            "anchor": one.anchor,
        }
        for one in figures
    ]
    path.write_text(json.dumps(rows, indent=2) + "\n")
