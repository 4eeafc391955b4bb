"""Which copies to start now: pure.

The rules: newest first, to the likeliest regions first; what is in flight is finished before a
newer step takes its place; one copy at a time per run and region; within a budget of bytes and of
parallel copies. Every run's likeliest region comes before any run's second; what nobody waits for
comes after all of that. What is not started is said with its reason. Read ``plan`` first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from replicator.checkpoint.paths import CheckpointPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A checkpoint worth copying: complete, sealed or of the open epoch, not marked bad."""

    path: CheckpointPath
    digest: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One run's wish: ``candidates`` newest first, ``regions`` likeliest first."""

    run_key: str
    candidates: tuple[Candidate, ...]
    regions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One copy of one checkpoint between two regions."""

    candidate: Candidate
    source: str
    destination: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """A copy that runs, with the bytes it still has to move."""

    copy: Copy
    remaining_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What may be moved. ``egress_bytes`` is what is left of the period's ``period_bytes``."""

    egress_bytes: int
    period_bytes: int
    max_parallel: int


class Why(StrEnum):
    """Why a wanted copy is not started now."""

    IN_FLIGHT = "IN_FLIGHT"  # another step of this run is on its way there
    NO_SOURCE = "NO_SOURCE"  # no region has a replica of it yet
    PARALLEL = "PARALLEL"  # as many copies run as may
    BUDGET = "BUDGET"  # the period's bytes are spent, or kept for one that is before it in line
    NEVER_FITS = "NEVER_FITS"  # larger than a whole period's budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """A wanted copy that does not start now."""

    candidate: Candidate
    destination: str
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """What to start, in order, and what waits."""

    start: tuple[Copy, ...]
    deferred: tuple[Deferred, ...]


def plan(
    wanted: Sequence[Wanted],
    present: Mapping[CheckpointPath, Sequence[str]],
    in_flight: Sequence[InFlight],
    budget: Budget,
    *,
    idle: Sequence[Wanted] = (),
    idle_slots: int = 0,
) -> CopyPlan:
    """Choose the copies to start.

    ``wanted`` is in order of the runs' priority, and ``idle`` the wishes that nobody waits for:
    at most ``idle_slots`` more copies are begun for them. ``present`` names, per checkpoint, the
    regions with a verified replica, the cheapest to read from first. A copy that does not fit into
    the budget holds up those behind it, so that a large one is not starved by many small ones; one
    that can never fit holds up nobody.
    """
    busy = {(one.copy.candidate.path.run_key, one.copy.destination) for one in in_flight}
    left_bytes = budget.egress_bytes - sum(one.remaining_bytes for one in in_flight)
    slots = budget.max_parallel - len(in_flight)
    start: list[Copy] = []
    deferred: list[Deferred] = []
    is_budget_held = False
    line = chain(
        ((False, *one) for one in _in_line(wanted, present)),
        ((True, *one) for one in _in_line(idle, present)),
    )
    for is_idle, run_key, candidate, region in line:
        why = _refusal(candidate, present, budget, is_busy=(run_key, region) in busy)
        if why is None and (is_budget_held or candidate.size_bytes > left_bytes):
            why, is_budget_held = Why.BUDGET, True
        if why is None and (slots <= 0 or (is_idle and idle_slots <= 0)):
            why = Why.PARALLEL
        if why is not None:
            deferred.append(Deferred(candidate=candidate, destination=region, why=why))
            continue
        source = present[candidate.path][0]
        start.append(Copy(candidate=candidate, source=source, destination=region))
        busy.add((run_key, region))
        left_bytes -= candidate.size_bytes
        slots -= 1
        idle_slots -= is_idle
    return CopyPlan(start=tuple(start), deferred=tuple(deferred))


def _in_line(
    wanted: Sequence[Wanted], present: Mapping[CheckpointPath, Sequence[str]]
) -> Iterator[tuple[str, Candidate, str]]:
    """Yield what each region lacks, by likelihood first and by the runs' order within it."""
    for rank in range(max((len(one.regions) for one in wanted), default=0)):
        for one in wanted:
            if rank < len(one.regions):
                region = one.regions[rank]
                lacking = _lacking(one.candidates, present, region)
                if lacking is not None:
                    yield one.run_key, lacking, region


def _lacking(
    candidates: Sequence[Candidate],
    present: Mapping[CheckpointPath, Sequence[str]],
    region: str,
) -> Candidate | None:
    """Return the newest checkpoint that some region can give and this one has nothing as new as.

    A newest one that nobody can give yet is no reason to leave the region with nothing.
    """
    newest = None
    for candidate in candidates:
        holders = present.get(candidate.path, ())
        if region in holders:
            break
        if holders:
            return candidate
        newest = newest or candidate
    return newest


def _refusal(
    candidate: Candidate,
    present: Mapping[CheckpointPath, Sequence[str]],
    budget: Budget,
    *,
    is_busy: bool,
) -> Why | None:
    if is_busy:
        return Why.IN_FLIGHT
    if not present.get(candidate.path):
        return Why.NO_SOURCE
    if candidate.size_bytes > budget.period_bytes:
        return Why.NEVER_FITS
    return None
