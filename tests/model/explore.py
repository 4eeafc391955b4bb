"""Breadth-first search through every state within the bounds, and the shortest way to trouble.

The rule: each state is visited once, nothing is sampled. Read ``explore`` first.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

from tests.model.laws import broken_law
from tests.model.moves import moves
from tests.model.rules import Rules
from tests.model.world import Bounds, World, compacted, start


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
    search = _Search()
    first = search.canonical(start(bounds), None)
    came_from: dict[_Key, _Key | None] = {_key(first): None}
    queue = deque([first])
    count = 0
    while queue:
        world = queue.popleft()
        for label, after in moves(world, bounds, rules):
            count += 1
            happened = search.canonical(after, world)
            law = broken_law(world, label, happened)
            known = search.canonical(compacted(happened, bounds), happened)
            key = _key(known)
            if law is not None:
                came_from.setdefault(key, _key(world))
                trace = _way(bounds, rules, search, came_from, key)
                found = Violation(law=law, trace=trace)
                return Outcome(states=len(came_from), moves=count, violation=found)
            if key not in came_from:
                came_from[key] = _key(world)
                queue.append(known)
        if most is not None and len(came_from) > most:
            break
    return Outcome(states=len(came_from), moves=count, violation=None)


_Key = tuple[int, ...]


class _Search:
    """Keeps one object for each part of a state, so that parts compare by identity: a state's key
    is a few integers, and only the parts that a move changed are hashed."""

    def __init__(self) -> None:
        self._parts: tuple[dict[Any, Any], ...] = tuple({} for _ in World._fields)

    def canonical(self, world: World, before: World | None) -> World:
        """Return the state with each of its parts replaced by the one kept object equal to it."""
        if world is before:
            return world
        old = before or (None,) * len(world)
        return World._make(
            part if part is former else kept.setdefault(part, part)
            for part, former, kept in zip(world, old, self._parts, strict=True)
        )


def _key(world: World) -> _Key:
    return tuple(map(id, world))


def _way(
    bounds: Bounds, rules: Rules, search: _Search, came_from: dict[_Key, _Key | None], last: _Key
) -> tuple[str, ...]:
    """Walk the way again from the start, this time with its sentences."""
    keys = [last]
    while (step := came_from[keys[-1]]) is not None:
        keys.append(step)
    labels = []
    world = search.canonical(start(bounds), None)
    for key in reversed(keys[:-1]):
        for label, after in moves(world, bounds, rules):
            happened = search.canonical(after, world)
            known = search.canonical(compacted(happened, bounds), happened)
            if _key(known) == key:
                labels.append(label)
                world = known
                break
    return tuple(labels)
