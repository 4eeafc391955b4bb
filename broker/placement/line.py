"""Runs in order of rank, and names due at a time: two heaps whose stale entries die on sight.

The rule: adding and removing cost the logarithm of what is there, so that a tick over 50,000
waiting runs costs what one over a thousand does.
"""

import heapq

from broker.placement.demand import Rank


class Line:
    """Names in order of rank. A removed name stays in the heap until it would come up."""

    def __init__(self) -> None:
        self._heap: list[Rank] = []
        self._ranks: dict[str, Rank] = {}

    def __len__(self) -> int:
        return len(self._ranks)

    def __contains__(self, name: str) -> bool:
        return name in self._ranks

    def names(self) -> tuple[str, ...]:
        """Return every name, in no order."""
        return tuple(self._ranks)

    def add(self, rank: Rank) -> None:
        """Let a name stand in line, or move it to another rank."""
        name = rank[2]
        if self._ranks.get(name) != rank:
            self._ranks[name] = rank
            heapq.heappush(self._heap, rank)

    def remove(self, name: str) -> None:
        """Take a name out; one that is not there is no fault."""
        self._ranks.pop(name, None)
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._ranks):
            self._heap = sorted(self._ranks.values())

    def head(self) -> str:
        """Return the name that is first; there must be one."""
        while self._ranks.get(self._heap[0][2]) != self._heap[0]:
            heapq.heappop(self._heap)
        return self._heap[0][2]

    def first(self, count: int) -> tuple[Rank, ...]:
        """Return the ``count`` first ranks; the line stays as it is."""
        taken: list[Rank] = []
        while self._heap and len(taken) < count:
            rank = heapq.heappop(self._heap)
            # A name added twice at one rank leaves a twin in the heap: it dies here too.
            if self._ranks.get(rank[2]) == rank and (not taken or taken[-1] != rank):
                taken.append(rank)
        for rank in taken:
            heapq.heappush(self._heap, rank)
        return tuple(taken)


class Agenda:
    """Names and when each is due, in broker seconds. A name is due once; the last word counts."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._at_s: dict[str, float] = {}

    def set(self, name: str, at_s: float) -> None:
        """Make a name due at a time, whatever was set before."""
        if self._at_s.get(name) != at_s:
            self._at_s[name] = at_s
            heapq.heappush(self._heap, (at_s, name))

    def drop(self, name: str) -> None:
        """Forget a name; one that is not there is no fault."""
        self._at_s.pop(name, None)
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._at_s):
            self._heap = sorted((at_s, name) for name, at_s in self._at_s.items())

    def due(self, now_s: float, count: int) -> tuple[str, ...]:
        """Return up to ``count`` names that are due, earliest first; they stay until dropped."""
        taken: list[tuple[float, str]] = []
        while self._heap and len(taken) < count and self._heap[0][0] <= now_s:
            entry = heapq.heappop(self._heap)
            if self._at_s.get(entry[1]) == entry[0] and (not taken or taken[-1] != entry):
                taken.append(entry)
        for entry in taken:
            heapq.heappush(self._heap, entry)
        return tuple(name for _, name in taken)

    def next_s(self) -> float | None:
        """Return when the next name is due, or None."""
        while self._heap and self._at_s.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
