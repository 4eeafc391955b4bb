"""Sides against each other, one start at a time, each side in turn. Read ``singly``."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.clusters.ground import Ground
from tests.bench.clusters.sides import Side
from tests.bench.figure import median

Taken = dict[str, list[float]]


def singly(ground: Ground, sides: Sequence[Side], what: str) -> Taken:
    """Return, by side, the seconds from the asking to the command's first word, round by round."""
    taken: Taken = {side.name: [] for side in sides}
    for number in range(ground.size.singles + 1):
        for side in sides:
            taken[side.name].append(ground.diary.race(side, [f"{side.name}-{what}-{number}"]))
            side.clear()
        told = ", ".join(f"{name} {found[-1]:.2f} s" for name, found in taken.items())
        ground.say(f"one at a time, {what}, {number or 'warming up'}: {told}")
    return {name: found[1:] for name, found in taken.items()}


def ratio(taken: Taken, ours: str, base: str) -> float:
    """Return one side's values over another's: the median over the rounds."""
    pairs = zip(taken[ours], taken[base], strict=True)
    return median([one / other for one, other in pairs])


def said(taken: Taken, side: str) -> str:
    """Return a side's value for a text."""
    return f"{median(taken[side]):g}"
