"""Breadth-first search through every state within the bounds, and the shortest way to trouble.

The rule: each state is visited once, nothing is sampled. Read ``explore`` first.
"""

from collections import deque
from dataclasses import dataclass

from tests.model.laws import broken_law
from tests.model.moves import moves
from tests.model.rules import Rules
from tests.model.world import Bounds, World, start


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A law that was broken, and the shortest way there, one sentence a move."""

    law: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{number:3}. {line}" for number, line in enumerate(self.trace, 1)]
        return "\n".join([*lines, f"     => {self.law}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How many states there are, and the first violation, or None."""

    states: int
    moves: int
    violation: Violation | None


def explore(bounds: Bounds, rules: Rules, most: int | None = None) -> Outcome:
    """Search until a law is broken, or until there is nothing left. ``most`` bounds the states
    visited, for a first look; None is exhaustive."""
    first = start(bounds)
    came_from: dict[World, tuple[World, str] | None] = {first: None}
    queue = deque([first])
    count = 0
    while queue:
        world = queue.popleft()
        for label, after in moves(world, bounds, rules):
            count += 1
            law = broken_law(world, after)
            if law is not None:
                trace = (*_way(came_from, world), label)
                found = Violation(law=law, trace=trace)
                return Outcome(states=len(came_from), moves=count, violation=found)
            if after not in came_from:
                came_from[after] = (world, label)
                queue.append(after)
        if most is not None and len(came_from) > most:
            break
    return Outcome(states=len(came_from), moves=count, violation=None)


def _way(came_from: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    labels = []
    step = came_from[world]
    while step is not None:
        labels.append(step[1])
        step = came_from[step[0]]
    return tuple(reversed(labels))
