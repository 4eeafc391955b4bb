"""Who stands at a gate now, as one observer can know it.

The rule: freshness is what an observer saw with its own clock. A record at a gate proves that a
process stood there once; a count that this observer saw move proves that it was there since. Both
sides of the protocol use it: rank 0 to start its gang, the broker to grant one. Read
``whole_gang`` first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterable, Optional, Tuple

from regions.launcher.layout import Gate


@dataclass(frozen=True)
class Sighting:
    """A gate record, and when this observer saw its count move (its own monotonic clock).

    ``moved_at_s`` None: it was seen, and has not moved since.
    """

    gate: Gate
    moved_at_s: Optional[float]


@dataclass(frozen=True)
class GateWatch:
    """What an observer has seen of one gate, over its looks at it."""

    sightings: Tuple[Sighting, ...] = ()


def watch_gates(before: GateWatch, gates: Iterable[Gate], now_s: float) -> GateWatch:
    """Add one look at a gate to the former ones; records that went away are forgotten.

    Freshness is judged by the observer's own clock, from counts that it saw move: clocks of other
    machines prove nothing. The first sight of a record proves nothing either.
    """
    known: Dict[str, Sighting] = {seen.gate.nonce: seen for seen in before.sightings}
    return GateWatch(tuple(_sighting(known.get(gate.nonce), gate, now_s) for gate in gates))


def _sighting(before: Optional[Sighting], gate: Gate, now_s: float) -> Sighting:
    if before is None:
        return Sighting(gate=gate, moved_at_s=None)
    has_moved = gate.count != before.gate.count
    return Sighting(gate=gate, moved_at_s=now_s if has_moved else before.moved_at_s)


def whole_gang(
    watch: GateWatch, *, world_size: int, now_s: float, fresh_s: float
) -> Optional[Tuple[str, ...]]:
    """Return the nonces of a gang that stands whole at the gate, by rank; None if none does.

    Exactly one fresh process per rank: while a pod and its replacement both move, one of them is
    about to go, and nobody here can know which.
    """
    by_rank: Dict[int, str] = {}
    for seen in watch.sightings:
        if seen.moved_at_s is None or now_s - seen.moved_at_s > fresh_s:
            continue
        if seen.gate.rank in by_rank or seen.gate.rank >= world_size:
            return None
        by_rank[seen.gate.rank] = seen.gate.nonce
    if len(by_rank) != world_size:
        return None
    return tuple(by_rank[rank] for rank in range(world_size))
